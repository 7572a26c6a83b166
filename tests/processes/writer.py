"""A process that writes until its input ends: python -m tests.processes.writer URL NAME FOLDER SECONDS.

Each thread begins an operation in its journal, does it, and notes what it was told. It goes on where an earlier
process of the same name was killed. SECONDS is how long a commit tries: little of it makes unknown outcomes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.processes.journal import Journal, read_deeds
from tests.processes.workers import PAUSE_SECONDS, work_until_the_end
from wormdb.errors import ConflictError, OutcomeUnknownError, UnavailableError
from wormdb.system.clock import SeededChance, SystemClock

if TYPE_CHECKING:
    import wormdb
    from wormdb.engine.commit.resolve import Fate

COLLECTION = "org/run"
COUNTERS = 3
PARTS = 3
THREADS = 2
VERBS = ("insert", "insert", "bump", "bump", "batch", "edit", "delete")


def counter_id(number: int) -> str:
    return f"counter-{number}"


class Writer:
    """One thread's work."""

    def __init__(self, run: wormdb.Collection[wormdb.Document], name: str, folder: Path) -> None:
        path = folder / f"{name}.jsonl"
        before = read_deeds(path)
        self._run = run
        self._name = name
        self._count = len(before)
        self._journal = Journal(path)
        self._kept: dict[str, wormdb.Document] = {}
        """Counters as commits gave them back, to be saved again."""
        self._chance = SeededChance(int.from_bytes(f"{name} {self._count}".encode()))
        gone = {deed.target for deed in before.values() if deed.verb == "delete"}
        self._mine = [
            deed.target
            for deed in before.values()
            if deed.verb == "insert" and deed.outcome in {"acknowledged", "committed"} and deed.target not in gone
        ]

    def step(self) -> None:
        token = f"{self._name}-{self._count}"
        self._count += 1
        verb = VERBS[int(self._chance.fraction() * len(VERBS))]
        if verb in {"edit", "delete"} and not self._mine:
            verb = "insert"
        target = self._target(verb, token)
        self._journal.note(token=token, verb=verb, target=target)
        try:
            number = self._do(verb, token, target)
        except OutcomeUnknownError as error:
            self._journal.note(token=token, outcome="unknown", reason=str(error))
            outcome, number = str(self._resolve(error)), None
        except (UnavailableError, ConflictError) as error:
            outcome, number = "refused", None
            self._journal.note(token=token, outcome=outcome, reason=f"{type(error).__name__}: {error}")
            return
        else:
            outcome = "acknowledged"
        self._journal.note(token=token, outcome=outcome, number=number)
        if verb == "insert" and outcome != "not committed":
            self._mine.append(target)

    def _target(self, verb: str, token: str) -> str:
        match verb:
            case "insert" | "batch":
                return token
            case "delete":
                # Never tried again, whatever becomes of it: so one token is one delete.
                return self._mine.pop(int(self._chance.fraction() * len(self._mine)))
            case "edit":
                return self._mine[int(self._chance.fraction() * len(self._mine))]
            case _:
                return counter_id(int(self._chance.fraction() * COUNTERS))

    def _do(self, verb: str, token: str, target: str) -> int | None:
        match verb:
            case "insert":
                return self._run.insert({"id": target, "token": token, "text": "x" * 100}).rev
            case "bump":
                return self._bump(token, target)
            case "edit":
                document = self._run.find_by_id(target)
                assert document is not None, f"{target} was acknowledged and is gone"
                document["token"] = token
                return self._run.save(document).rev
            case "delete":
                assert self._run.delete(target), f"{target} was acknowledged and is gone"
                return None
            case _:
                return self._batch(token)

    def _bump(self, token: str, target: str) -> int:
        """Count once more: by what an earlier commit gave back, which others may have changed since, or by modify."""
        kept = self._kept.pop(target, None)
        if kept is None:
            done = self._run.modify(target, lambda counter: bumped(counter, token))
        else:
            done = self._run.save(bumped(kept, token))
        self._kept[target] = done
        return done.rev

    def _batch(self, token: str) -> int:
        counter = self._run.find_by_id(counter_id(0))
        assert counter is not None
        batch = self._run.batch()
        for part in range(PARTS):
            batch.insert({"id": f"{token}.{part}", "token": token})
        return batch.update(bumped(counter, token)).flush().number

    def _resolve(self, error: OutcomeUnknownError) -> Fate:
        while True:
            try:
                return self._run.resolve(error, settle=True)
            except UnavailableError:
                SystemClock().sleep(self._chance.fraction() * PAUSE_SECONDS)


def bumped(counter: wormdb.Document, token: str) -> wormdb.Document:
    return counter | {"total": counter["total"] + 1, "token": token}


def main(url: str, name: str, folder: Path, seconds: float) -> int:
    return work_until_the_end(
        url, name, seconds, threads=THREADS, hire=lambda db, own: Writer(db[COLLECTION], own, folder)
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])))
