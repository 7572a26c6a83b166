"""Ways to get transactions over several collections wrong: at least one for each rule of their design note."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

__all__ = ["TRANSACTION_FILES", "TRANSACTION_MUTANTS"]

TRANSACTION_FILES = (
    "engine/state/prepared.py",
    "engine/transact/arbiter.py",
    "engine/transact/coordinator.py",
    "engine/transact/records.py",
    "engine/transact/shown.py",
    "maintenance/gc/transactions.py",
)

TRANSACT = (
    "engine/transact/test_coordinator.py",
    "engine/transact/test_arbiter.py",
    "engine/transact/test_records.py",
    "engine/transact/test_shown.py",
    "engine/transact/test_sweep.py",
)
LOCKS = ("engine/state/test_prepared.py", "engine/transact/test_arbiter.py")
RECORDS = ("maintenance/gc/test_transactions.py",)

TRANSACTION_MUTANTS = [
    Mutant(
        "engine/commit/validate.py",
        "        if by:\n            raise LockedError",
        "        if False:\n            raise LockedError",
        TRANSACT,
    ),
    Mutant(
        "engine/commit/validate.py",
        "waits = any(isinstance(event, WAITING) for event in events)",
        "waits = False",
        TRANSACT,
    ),
    Mutant("engine/commit/validate.py", "held.seq == loaded.held.seq if is_early else", "", TRANSACT),
    Mutant("engine/commit/validate.py", "reads=tuple(sorted({*reads, *named} - written)),", "", TRANSACT),
    Mutant(
        "engine/commit/validate.py",
        "elif pending.guard is not None and not pending.is_steady:",
        "elif False:",
        TRANSACT,
    ),
    Mutant(
        "engine/commit/commit.py",
        "if group.finished and any(pending.events for pending in waiting):",
        "if False:",
        TRANSACT,
    ),
    Mutant("engine/commit/head.py", "sequence = max([sequence, *(one.sequence for one in pending)])", "pass", TRANSACT),
    Mutant("engine/forward/forward.py", "pending=carried(view.pending),", "pending=(),", TRANSACT),
    Mutant("engine/state/trim.py", "floors += [one.number - 1 for one in root.pending]", "pass", TRANSACT),
    Mutant("engine/state/prepared.py", "or not self.written.isdisjoint(touched.read)", "", LOCKS),
    Mutant(
        "engine/state/prepared.py",
        "return self.written | {id_key(identity) for identity in self.event.reads}",
        "return self.written",
        LOCKS,
    ),
    Mutant(
        "engine/state/prepared.py", "or any(_finds(text, self.batch.changes) for text in touched.filters)", "", LOCKS
    ),
    Mutant(
        "engine/state/prepared.py",
        "if touched.changes and any(_finds(text, touched.changes) for text in self.event.filters):",
        "if False:",
        LOCKS,
    ),
    Mutant(
        "engine/state/prepared.py",
        "return not self.values(definition).isdisjoint(values_of(touched.changes, definition))",
        "return False",
        LOCKS,
    ),
    Mutant(
        "engine/state/prepared.py",
        "images = (image for change in changes for image in (change.before, change.after))",
        "images = (change.after for change in changes)",
        LOCKS,
    ),
    Mutant(
        "engine/transact/records.py",
        "put_classified(self.store, key, body, IfAbsent(), content_type",
        "put_classified(self.store, key, body, None, content_type",
        TRANSACT,
    ),
    Mutant("engine/transact/records.py", "return transaction >= self.floor()", "return True", TRANSACT),
    Mutant(
        "engine/transact/records.py",
        "return None if transaction < self.floor() else committed",
        "return committed",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/records.py",
        "return RecordAnswer(committed, probe.time)",
        "return RecordAnswer(bool(committed), probe.time)",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/arbiter.py",
        "self.decisions.learn(one.id, committed=committed)",
        "self.decisions.learn(one.id, committed=False)",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/coordinator.py",
        "            if errors:\n",
        "            if errors and not results:\n",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/coordinator.py",
        "if not all(self._is_timely(participants, prepare, each) for each in results):",
        "if False:",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/coordinator.py",
        "guard=Guards.of(pending.guard, guard), reads=self.reads)",
        "reads=self.reads)",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/shown.py",
        "if not self.is_decided(view) and not self._is_looked_up(view):",
        "if False:",
        TRANSACT,
    ),
    Mutant(
        "engine/transact/shown.py",
        "is_patient = prepare is None or all(one.id > prepare.tx for one in locked.by)",
        "is_patient = True",
        TRANSACT,
    ),
    Mutant("maintenance/gc/transactions.py", "now - written.modified < TRANSACTION_RECORD_MS", "False", RECORDS),
    Mutant(
        "maintenance/gc/transactions.py",
        "if each < floor]",
        "if each < floor_at(probe.time - TRANSACTION_RECORD_MS)]",
        RECORDS,
    ),
    Mutant("maintenance/gc/transactions.py", "if ledger.finish_transactions(following):", "if False:", RECORDS),
    Mutant(
        "maintenance/gc/transactions.py", "{*collections(), *_participants(runtime, old)}", "{*collections()}", RECORDS
    ),
    Mutant(
        "engine/transact/coordinator.py",
        "self.decisions.unsent.discard(prepare.tx)  # from now on other processes may know more",
        "pass",
        ("engine/transact/test_shown.py",),
    ),
    Mutant(
        "engine/transact/coordinator.py",
        "one.ledger.prepare(replace(pending, events=(), prepare=prepare), seconds=seconds)",
        "one.ledger.commit(replace(pending, events=()), seconds=seconds)",
        ("engine/transact/test_coordinator.py",),
    ),
    Mutant(
        "engine/transact/shown.py",
        "return all(one in self._settled and self._settled[one] <= view.number for one in committed)",
        "return True",
        ("engine/transact/test_shown.py",),
    ),
]
