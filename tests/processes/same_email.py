"""A process that saves e-mails when it is told to: python -m tests.processes.same_email URL THREADS.

For each e-mail that comes in as a line, all threads save a customer with it at once; out goes a line with what each was
told: its own id and the error, or none.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

import wormdb
from wormdb.errors import UniqueViolationError

SCHEMA = {
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:uuid)",
            "fields": {"email": {"type": "string", "required": True}},
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        }
    }
}
SECONDS_MAX = 120


def race(customers: wormdb.Collection[wormdb.Document], email: str, threads: int) -> list[dict[str, Any]]:
    """What became of saving the same e-mail in so many threads at once, each under an id of its own."""
    told: list[dict[str, Any]] = []
    barrier = threading.Barrier(threads)

    def save() -> None:
        customer = customers.create(email=email)
        barrier.wait(SECONDS_MAX)
        try:
            customers.save(customer)
        except UniqueViolationError as error:
            told.append({"id": customer.id, "owner": error.owner, "message": str(error)})
        else:
            told.append({"id": customer.id, "owner": customer.id, "message": ""})

    workers = [threading.Thread(target=save) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return told


def main(url: str, threads: int) -> None:
    with wormdb.connect(url, schema=SCHEMA) as db:
        customers = db.model("Customer")
        customers.count()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            sys.stdout.write(json.dumps(race(customers, line.strip(), threads)) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
