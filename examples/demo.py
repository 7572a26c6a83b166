"""What wormdb does, in about a minute, on a folder: `make demo`.

Every step prints what it did; anything that does not behave ends the demo with an error.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import wormdb
from examples import pipeline
from examples.pipeline import say, show
from wormdb.spark import session
from wormdb.storage.meter import S3_STANDARD
from wormdb.system.clock import SystemClock

SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {
        "Customer": {
            "path": "#shop/@customers/(id:uuid)",
            "fields": {
                "name": {"type": "string", "required": True},
                "email": {"type": "string"},
                "visits": {"type": "integer", "default": 0},
            },
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        },
        "Account": {"path": "#shop/@accounts/(id:string)", "fields": {"balance": {"type": "integer"}}},
    },
}


def visit_often(url: str, identity: str, times: int) -> None:
    """A process of its own: counts visits on a document that others change too."""
    with wormdb.connect(url) as db:
        for _ in range(times):
            db.model("Customer").modify(identity, lambda it: it | {"visits": it["visits"] + 1})


def transfer_for_ever(url: str) -> None:
    """A process of its own, to be killed: moves money between two accounts, batch by batch."""
    with wormdb.connect(url) as db:
        accounts = db.model("Account")
        while True:
            one, two = accounts.find_by_id("one"), accounts.find_by_id("two")
            assert one is not None
            assert two is not None
            with accounts.batch() as batch:
                batch.save(one | {"balance": one["balance"] - 1})
                batch.save(two | {"balance": two["balance"] + 1})


def main() -> None:
    started = SystemClock().monotonic()
    with tempfile.TemporaryDirectory(prefix="wormdb-demo-") as folder:
        url = str(Path(folder) / "shop.db")
        run(url)
        say("start Spark", "On this machine, in this process: nothing is installed or left running.")
        spark = session("local[2]", settings={"spark.sql.shuffle.partitions": "2"})
        try:
            pipeline.run(Path(folder), pipeline.cities(), spark)
        finally:
            spark.stop()
    say("done", f"{SystemClock().monotonic() - started:.1f} seconds. Next: docs/tutorial.md, half an hour.")


def run(url: str) -> None:
    say(
        "open a folder as a database",
        "The same with s3://bucket/prefix, gs:// or az://. Nothing runs beside this script.",
    )
    with wormdb.connect(url, schema=SCHEMA, actor="demo", apply=True) as db:
        customers = db.model("Customer")
        ada = save_one(customers)
        refuse_duplicate(customers, ada)
        race(url, customers, ada)
        crash(url, db)
        feed(customers)
        cost(url, db)
    doctor(url)


def save_one(customers: wormdb.Collection[wormdb.Document]) -> wormdb.Document:
    say("save a document", "Defaults, id and validation before any request; then one object in the log.")
    ada = customers.insert({"name": "Ada", "email": "ada@example.com"})
    show(f"id {ada.id}", f"revision {ada.rev}, visits {ada['visits']} (the default)")
    try:
        customers.insert({"nmae": "Bob", "visits": "many"})
    except wormdb.ValidationError as error:
        show("a wrong document is refused, every mistake at once:", *(f"  {problem}" for problem in error.problems))
    return ada


def refuse_duplicate(customers: wormdb.Collection[wormdb.Document], ada: wormdb.Document) -> None:
    say("a unique key", "Checked and claimed by the same write, so no race can slip through.")
    try:
        customers.insert({"name": "Eve", "email": ada["email"]})
    except wormdb.UniqueViolationError as error:
        show(error)
    else:
        raise SystemExit("a duplicate was accepted")


def race(url: str, customers: wormdb.Collection[wormdb.Document], ada: wormdb.Document) -> None:
    say(
        "two processes change one document",
        "Each loads, changes and saves; the one that is overtaken starts again (modify).",
    )
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=visit_often, args=(url, ada.id, 25)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    found = customers.find_by_id(ada.id)
    assert found is not None
    show(f"2 processes x 25 visits = {found['visits']}")
    if found["visits"] != 50:
        raise SystemExit("visits were lost")
    try:
        customers.save(ada | {"name": "Ada Lovelace"})
    except wormdb.ConflictError as error:
        show("the copy loaded before is too old now:", f"  {error}")
    else:
        raise SystemExit("an old copy replaced a newer document")


def crash(url: str, db: wormdb.Database) -> None:
    say("kill -9 in the middle", "A process moves money from one account to the other; it is killed while it writes.")
    accounts = db.model("Account")
    accounts.insert_many([{"id": "one", "balance": 1_000}, {"id": "two", "balance": 0}])
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r});"
        f" from examples.demo import transfer_for_ever; transfer_for_ever({url!r})"
    )
    worker = subprocess.Popen([sys.executable, "-c", script])
    clock = SystemClock()
    while accounts.find_by_id("two")["balance"] < 20:  # type: ignore[index] # it was inserted above
        clock.sleep(0.01)
    os.kill(worker.pid, signal.SIGKILL)
    worker.wait()
    with wormdb.connect(url) as again:
        balances = {account.id: account["balance"] for account in again.model("Account")}
    show(f"after the crash, opened again: {balances}, together {sum(balances.values())}")
    if sum(balances.values()) != 1_000:
        raise SystemExit("half a batch was seen")


def feed(customers: wormdb.Collection[wormdb.Document]) -> None:
    say("the change feed", "Every change with the document before and after it, and a mark to resume from.")
    changes = list(customers.watch())
    for change in changes[:2]:
        states = [state and state["visits"] for state in (change.before, change.after)]
        show(f"{change.op:7} in log entry {change.number} by {change.actor}: visits {states[0]} → {states[1]}")
    last = changes[-1]
    show(
        f"… {len(changes)} changes in all; resume after {last.resume!r} gives {len(list(customers.watch(last.resume)))}"
    )


def cost(url: str, db: wormdb.Database) -> None:
    say("what it cost", "Requests are counted; on S3 Standard (us-east-1) they would have cost this much.")
    usage = db.cost()
    show(
        f"{usage.puts} PUT, {usage.gets} GET, {usage.lists} LIST, {usage.deletes} DELETE by this process",
        f"${usage.dollars_at(S3_STANDARD):.6f} on S3, and nothing here: {url}",
    )


def doctor(url: str) -> None:
    say("is this place good enough?", "worm doctor URL tests it; a store that ignores preconditions is refused.")
    done = subprocess.run(
        [sys.executable, "-m", "wormdb.cli", "doctor", url], capture_output=True, text=True, check=True
    )
    print(textwrap.indent(done.stdout.partition("\n")[2], "   "))


if __name__ == "__main__":
    main()
