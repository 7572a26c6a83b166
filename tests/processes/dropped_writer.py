"""A process that inserts documents into a collection that another one drops.

It prints a line for each insert, `<revision> <id>` or what it was refused for, until its input ends.
"""

from __future__ import annotations

import sys
import threading

import wormdb
from wormdb.errors import OutcomeUnknownError, RemovedError


def main(url: str, name: str) -> None:
    ended = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=listen, daemon=True).start()
    with wormdb.connect(url) as database:
        things = database["things"]
        number = 0
        while not ended.is_set():
            number += 1
            identity = f"{name}-{number}"
            try:
                told = f"{things.insert({'id': identity, 'text': 'x' * 100}).rev} {identity}"
            except RemovedError:
                told = f"refused {identity}"
            except OutcomeUnknownError:
                told = f"unknown {identity}"
            sys.stdout.write(f"{told}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
