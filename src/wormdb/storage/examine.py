"""Ask a store, by trying, whether wormdb can keep its promises on it.

`examine` is what `worm doctor` prints. Each check is one function that returns a finding; an
error of the store becomes a failed finding, so that one missing right does not hide the rest.
Everything is written below one random folder `.worm.probe/<random>/` and deleted at the end.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    WormError,
)
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch, Precondition, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.pool import Pool
    from wormdb.system.clock import Chance, Clock

__all__ = ["CheckResult", "CheckStatus", "Examination", "examine"]

RIVALS = 8
ROUNDS = 4
INCREMENTS = 10
# A window of forwarding is five seconds; clocks further apart than this make authority flap.
CLOCK_DIFFERENCE_MS_MAX = 2_000
PLAIN_TEXT = "text/plain"


class CheckStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check: what was asked, how it ended, what was seen, what to do."""

    check: str
    status: CheckStatus
    detail: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings about one store, in the order they were made."""

    store: str
    findings: tuple[CheckResult, ...]
    role: str = ""
    """Of the key that was tried; empty if the store was."""

    @property
    def passed(self) -> bool:
        """Nothing failed; warnings do not count."""
        return all(finding.status is not CheckStatus.FAIL for finding in self.findings)

    @property
    def verdict(self) -> str:
        """One sentence for a person."""
        failed = ", ".join(finding.check for finding in self.findings if finding.status is CheckStatus.FAIL)
        if self.role:
            return f"not the rights of a {self.role}: {failed}" if failed else f"the rights of a {self.role}, no more"
        status = {finding.check: finding.status for finding in self.findings}
        is_tried = status.get("write", CheckStatus.SKIP) is not CheckStatus.SKIP
        if failed == "write" and status.get("delete") is CheckStatus.SKIP:
            return "wormdb can read here; this key may not write"
        if failed:
            return f"wormdb will not write here: {failed}" if is_tried else f"wormdb cannot read here: {failed}"
        return "wormdb can read and write here" if is_tried else "wormdb can read here; writing was not tried"


@dataclass(frozen=True, slots=True)
class _ExaminedStore:
    """What every check needs."""

    store: Store
    pool: Pool
    clock: Clock
    chance: Chance
    folder: str

    def key(self, name: str) -> str:
        return f"{self.folder}{name}"

    def put(self, name: str, body: bytes, precondition: Precondition) -> str:
        return self.store.put(self.key(name), body, precondition, content_type=PLAIN_TEXT).version

    def loses(self, name: str, precondition: Precondition) -> bool:
        """Whether this write is refused, as it should be."""
        try:
            self.put(name, self.chance.token(16), precondition)
        except (AlreadyExistsError, ConflictError):
            return True
        return False


def examine(store: Store, *, pool: Pool, clock: Clock, chance: Chance, writing: bool = True) -> Examination:
    """Try everything wormdb needs of `store`. About 200 small requests; without `writing` only 2.

    Raises nothing of the store's own: errors are findings. If it is interrupted, it ends the pool and cleans up.
    """
    patient = _ExaminedStore(store, pool, clock, chance, f".worm.probe/{chance.token(8).hex()}/")
    listed, clock_check = READ_CHECKS
    findings = [_run(*listed, patient)]
    written: list[CheckResult] = []
    if not writing:
        written = [CheckResult(name, CheckStatus.SKIP, "not tried: --read-only") for name, _ in WRITE_CHECKS]
    elif all(finding.status is not CheckStatus.FAIL for finding in findings):
        try:
            written = _write_checks(patient)
        except BaseException:
            pool.close()  # its threads would write on while we delete
            _run("delete", _delete_right, patient)
            raise
    # Asked last: a folder has no time before something was written to it.
    return Examination(store.name, (*findings, _run(*clock_check, patient), *written))


def _write_checks(patient: _ExaminedStore) -> list[CheckResult]:
    """What writing needs; one finding is enough of a key that may not write."""
    (first, begin), *others = WRITE_CHECKS
    try:
        found = [begin(patient)]
    except PermissionDeniedError as error:
        fix = "give the key of a writer, or test what a reader needs with --read-only or --role reader"
        refused = CheckResult(first, CheckStatus.FAIL, f"this key may not write: {error.reason or error.what}", fix)
        return [
            refused,
            *(CheckResult(name, CheckStatus.SKIP, "not tried: this key may not write") for name, _ in others),
        ]
    except WormError as error:
        found = [_failed(first, error)]
    return found + [_run(name, check, patient) for name, check in others]


def _run(name: str, check: Callable[[_ExaminedStore], CheckResult], patient: _ExaminedStore) -> CheckResult:
    try:
        return check(patient)
    except WormError as error:
        return _failed(name, error)


def _failed(name: str, error: WormError) -> CheckResult:
    return CheckResult(
        name, CheckStatus.FAIL, f"{error.what}: {error.reason}" if error.reason else error.what, error.fix
    )


def _list_right(patient: _ExaminedStore) -> CheckResult:
    page = next(iter(patient.store.list(delimiter="/")), None)
    seen = 0 if page is None else len(page.objects) + len(page.prefixes)
    return CheckResult("list", CheckStatus.OK, f"{seen} names on the first page")


def _clock_difference(patient: _ExaminedStore) -> CheckResult:
    name = "clock"
    before = patient.clock.now_ms()
    probe = patient.store.probe(patient.key("clock"))
    middle = (before + patient.clock.now_ms()) // 2
    if probe.time is None:
        return CheckResult(
            name, CheckStatus.WARN, "the store shows no time: each check of old knowledge costs one more GET"
        )
    difference = probe.time - middle
    # HTTP dates count whole seconds, so less than a second apart cannot be told from equal.
    if abs(difference) > CLOCK_DIFFERENCE_MS_MAX:
        fix = "set this machine's clock by NTP; data is safe meanwhile, background work is slower"
        return CheckResult(name, CheckStatus.WARN, f"{difference / 1000:+.1f} s from this machine's clock", fix)
    return CheckResult(name, CheckStatus.OK, f"within {CLOCK_DIFFERENCE_MS_MAX // 1000} s of this machine's clock")


def _write_right(patient: _ExaminedStore) -> CheckResult:
    patient.put("written", b"first", Always())
    return CheckResult("write", CheckStatus.OK, "an object was written")


def _read_after_write(patient: _ExaminedStore) -> CheckResult:
    name = "read after write"
    for number in range(ROUNDS):
        body = f"round {number}".encode()
        patient.put("written", body, Always())
        if patient.store.get(patient.key("written")).body != body:
            return CheckResult(name, CheckStatus.FAIL, f"an older state was read in round {number + 1}")
    return CheckResult(name, CheckStatus.OK, f"{ROUNDS} overwrites, each read back at once")


def _list_after_write(patient: _ExaminedStore) -> CheckResult:
    name = "list after write"
    keys = {patient.key(f"listed/{number}") for number in range(RIVALS)}
    for key in sorted(keys):
        patient.store.put(key, b"", Always(), content_type=PLAIN_TEXT)
    seen = {entry.key for page in patient.store.list(patient.key("listed/")) for entry in page.objects}
    if seen != keys:
        return CheckResult(name, CheckStatus.FAIL, f"{len(keys - seen)} of {len(keys)} new objects were not listed")
    return CheckResult(name, CheckStatus.OK, f"{len(keys)} new objects listed at once")


def _ranges(patient: _ExaminedStore) -> CheckResult:
    name = "ranged read"
    patient.put("range", b"0123456789", Always())
    got = patient.store.get_range(patient.key("range"), ByteRange(3, 4))
    if got != b"3456":
        return CheckResult(name, CheckStatus.FAIL, f"asked for bytes 3 to 6, got {len(got)} other bytes")
    return CheckResult(name, CheckStatus.OK, "exact bytes")


def _create_refused(patient: _ExaminedStore) -> CheckResult:
    name = "create if absent"
    patient.put("created", b"first", IfAbsent())
    if not patient.loses("created", IfAbsent()):
        return CheckResult(name, CheckStatus.FAIL, "a second create replaced the first: If-None-Match is ignored")
    return CheckResult(name, CheckStatus.OK, "a second create is refused")


def _swap_refused(patient: _ExaminedStore) -> CheckResult:
    name = "swap if unchanged"
    first = patient.store.put(patient.key("swapped"), b"1", Always(), content_type=PLAIN_TEXT)
    second = patient.store.put(patient.key("swapped"), b"2", IfMatch(first.version), content_type=PLAIN_TEXT)
    if not patient.loses("swapped", IfMatch(first.version)):
        return CheckResult(name, CheckStatus.FAIL, "a swap from an old version went through: If-Match is ignored")
    if not patient.loses("never-written", IfMatch(second.version)):
        return CheckResult(name, CheckStatus.FAIL, "a swap of a missing object created it")
    return CheckResult(name, CheckStatus.OK, "a swap from an old version, or of nothing, is refused")


def _create_contended(patient: _ExaminedStore) -> CheckResult:
    name = "create under contention"
    answers: Counter[str] = Counter()
    for number in range(ROUNDS):
        target = f"race/{number}"
        results = list(patient.pool.map(partial(_try_create, patient), [target] * RIVALS))
        answers.update(results)
        if results.count("won") > 1:
            return CheckResult(
                name, CheckStatus.FAIL, f"{results.count('won')} of {RIVALS} writers created the same object"
            )
        if "won" not in results and "unknown" not in results:
            return CheckResult(name, CheckStatus.FAIL, f"none of {RIVALS} writers created the object")
    detail = f"{ROUNDS} races of {RIVALS} writers, one winner each"
    busy = answers["busy"]
    return CheckResult(name, CheckStatus.OK, f"{detail}, {busy} told to retry" if busy else detail)


def _try_create(patient: _ExaminedStore, name: str) -> str:
    for _ in range(RIVALS):
        try:
            patient.put(name, patient.chance.token(16), IfAbsent())
        except AlreadyExistsError:
            return "lost"
        except OutcomeUnknownError:
            return "unknown"
        except UnavailableError:
            patient.clock.sleep(patient.chance.fraction() * 0.05)
            continue
        return "won"
    return "busy"


def _swap_contended(patient: _ExaminedStore) -> CheckResult:
    name = "swap under contention"
    patient.put("counter", b"0", Always())
    writers = RIVALS // 2
    done = sum(patient.pool.map(_increment, [patient] * writers))
    total = int(patient.store.get(patient.key("counter")).body)
    if total != done:
        return CheckResult(name, CheckStatus.FAIL, f"{done} increments were acknowledged, the counter says {total}")
    return CheckResult(name, CheckStatus.OK, f"{writers} writers, {done} increments, none lost")


def _increment(patient: _ExaminedStore) -> int:
    done = 0
    # Bounded: each success of another writer costs us one try, and a slow store some more.
    for _ in range(INCREMENTS * RIVALS):
        if done == INCREMENTS:
            break
        found = patient.store.get(patient.key("counter"))
        try:
            patient.put("counter", str(int(found.body) + 1).encode(), IfMatch(found.version))
        except (ConflictError, UnavailableError):
            patient.clock.sleep(patient.chance.fraction() * 0.05)
            continue
        done += 1
    return done


def _delete_right(patient: _ExaminedStore) -> CheckResult:
    name = "delete"
    keys = [entry.key for page in patient.store.list(patient.folder) for entry in page.objects]
    try:
        patient.store.delete_many(keys)
        patient.store.delete(patient.key("written"))
        patient.store.get(patient.key("written"))
    except NotFoundError:
        return CheckResult(name, CheckStatus.OK, f"{len(keys)} objects of this examination removed")
    except PermissionDeniedError:
        detail = f"not allowed; {len(keys)} small objects stay below {patient.folder}"
        fix = "a writer can work without this right; garbage collection needs it"
        return CheckResult(name, CheckStatus.WARN, detail, fix)
    return CheckResult(name, CheckStatus.FAIL, "a deleted object can still be read")


READ_CHECKS: tuple[
    tuple[str, Callable[[_ExaminedStore], CheckResult]], tuple[str, Callable[[_ExaminedStore], CheckResult]]
] = (
    ("list", _list_right),
    ("clock", _clock_difference),
)
WRITE_CHECKS: tuple[tuple[str, Callable[[_ExaminedStore], CheckResult]], ...] = (
    ("write", _write_right),
    ("read after write", _read_after_write),
    ("list after write", _list_after_write),
    ("ranged read", _ranges),
    ("create if absent", _create_refused),
    ("swap if unchanged", _swap_refused),
    ("create under contention", _create_contended),
    ("swap under contention", _swap_contended),
    ("delete", _delete_right),
)
