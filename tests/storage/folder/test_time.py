"""The time of a folder, told by processes whose clocks are set as they like."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.storage.folder.store import LocalStore
from wormdb.storage.folder.time import PATIENCE_MS, SETTLING_MS, Reckoning
from wormdb.system.clock import ManualClock, SystemClock, Uptime
from wormdb.system.types import StoreTime

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY_MS = 86_400_000
START_MS = 1_700_000_000_000


@dataclass
class Machine:
    """What all processes of a machine share: its uptime, and which start this is."""

    now_ms: int = 10 * DAY_MS
    started_ms: int = 0
    boot: str = "one"


@dataclass
class Process:
    """A process whose wall clock is wrong by so much."""

    machine: Machine
    skew_ms: int = 0

    def now_ms(self) -> int:
        return START_MS + self.machine.now_ms + self.skew_ms

    def monotonic(self) -> float:
        return self.machine.now_ms / 1000

    def uptime(self) -> Uptime:
        return Uptime(self.machine.boot, self.machine.now_ms - self.machine.started_ms)

    def sleep(self, seconds: float) -> None:
        self.machine.now_ms += int(seconds * 1000)


SKEWS = st.integers(-4000 * DAY_MS, 4000 * DAY_MS)
LOOKS = st.lists(st.tuples(st.integers(0, 3), SKEWS, st.integers(0, 3 * DAY_MS), st.booleans()), min_size=2, max_size=8)


@given(LOOKS)
def test_nothing_looks_older_or_younger_than_it_is(
    tmp_path_factory: pytest.TempPathFactory, looks: list[tuple[int, int, int, bool]]
) -> None:
    """Processes look and write in any order, and their clocks are set by years in between."""
    machine = Machine()
    processes = [Process(machine) for _ in range(4)]
    root = tmp_path_factory.mktemp("folder")
    stores = [LocalStore(root, clock=process) for process in processes]
    stores[0].put("first", b"")
    told = [(machine.now_ms, stores[0].head("first").modified)]
    for number, skew_ms, passed_ms, writes in looks:
        machine.now_ms += passed_ms
        processes[number].skew_ms = skew_ms
        time = stores[number].put("key", b"").time if writes else stores[number].probe("key").time
        assert time is not None
        told.append((machine.now_ms, time))
    assert len({time - then_ms for then_ms, time in told}) == 1


@pytest.mark.parametrize(
    ("boot", "uptime_ms", "expected_ms"),
    [
        ("one", 2 * DAY_MS, DAY_MS),
        ("two", 2 * DAY_MS, 8 * DAY_MS),
        ("one", DAY_MS // 2, 8 * DAY_MS),
        ("two", SETTLING_MS - 1, 8 * DAY_MS),
    ],
    ids=["the same start", "another start", "an uptime that went back", "a clock that may be set soon"],
)
def test_the_wall_clock_is_believed_after_a_start(boot: str, uptime_ms: int, expected_ms: int) -> None:
    known = Reckoning(StoreTime(START_MS), Uptime("one", DAY_MS))
    assert known.at(START_MS + 8 * DAY_MS, Uptime(boot, uptime_ms)) == START_MS + expected_ms


@pytest.mark.parametrize("boot", ["one", "two"])
def test_it_does_not_go_back_with_a_start(boot: str) -> None:
    known = Reckoning(StoreTime(START_MS), Uptime("one", 2 * DAY_MS))
    assert known.at(0, Uptime(boot, DAY_MS)) == START_MS


def test_it_is_followed_after_a_start_until_the_clock_had_time_to_be_set(tmp_path: Path) -> None:
    """A machine without a battery begins in the past; then its clock is set."""
    machine = Machine()
    process = Process(machine)
    with LocalStore(tmp_path, clock=process) as store:
        store.put("a", b"")
        machine.now_ms += 3 * DAY_MS
        machine.started_ms, machine.boot, process.skew_ms = machine.now_ms, "two", -3 * DAY_MS
        assert store.put("b", b"").time == store.head("a").modified
        machine.now_ms += 60_000
        process.skew_ms = 0
        assert store.put("c", b"").time == process.now_ms()
        machine.now_ms += SETTLING_MS
        process.skew_ms = 8 * DAY_MS
        assert store.put("d", b"").time == process.now_ms() - 8 * DAY_MS


def test_a_process_that_stopped_in_the_middle_tells_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have looked before it stopped, or after."""
    clock = ManualClock()
    with LocalStore(tmp_path, clock=clock) as store:
        store.put("a", b"")
        tree = store._tree

        def stopped(look: Callable[[Any], Any], what: Any) -> Any:
            clock.advance(PATIENCE_MS / 1000 + 1)
            return look(what)

        for name in ("open", "is_absent"):
            monkeypatch.setattr(tree, name, partial(stopped, getattr(tree, name)))
        assert store.get("a").time is None
        assert store.probe("a").time is None
        assert store.probe("b").time is None
        flush = "wormdb.storage.folder.write.flush"
        monkeypatch.setattr(flush, lambda descriptor: clock.advance(PATIENCE_MS / 1000 + 1))
        assert store.put("b", b"").time is None


@pytest.mark.parametrize("body", [b"", b"wormdb time 1", b"\xff" * 90, b"wormdb time 2 1 1 x 00000000\n"])
def test_a_damaged_record_is_no_time_until_the_next_write(tmp_path: Path, body: bytes) -> None:
    clock = ManualClock()
    with LocalStore(tmp_path, clock=clock) as store:
        store.put("a", b"")
        (tmp_path / ".worm.tmp/time/now").write_bytes(body)
        clock.advance(1)  # so long what was read before tells the time
        assert store.probe("a").time is None
        assert store.put("b", b"").time == clock.now_ms()
        assert store.probe("a").time == clock.now_ms()


def test_a_changed_digit_is_noticed() -> None:
    line = Reckoning(StoreTime(START_MS), Uptime("some start", 5)).encoded()
    assert Reckoning.decoded(line) == Reckoning(StoreTime(START_MS), Uptime("some start", 5))
    for place in range(len(line) - 1):
        changed = bytes([line[place] ^ 1])
        assert Reckoning.decoded(line[:place] + changed + line[place + 1 :]) is None, place


def test_a_record_that_another_is_about_to_write_is_left_to_it(tmp_path: Path) -> None:
    import fcntl

    clock = ManualClock()
    with LocalStore(tmp_path, clock=clock) as store:
        store.put("a", b"")
        record = tmp_path / ".worm.tmp/time/now"
        before = record.read_bytes()
        with record.open("rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            clock.advance(5)
            assert store.put("b", b"").time == clock.now_ms()
            assert record.read_bytes() == before
        assert store.put("c", b"").time == clock.now_ms()
        assert record.read_bytes() != before


def test_processes_of_this_machine_agree(tmp_path: Path) -> None:
    program = (
        "import sys; from wormdb.storage.folder.store import LocalStore; "
        "print(LocalStore(sys.argv[1]).put(sys.argv[2], b'').time)"
    )
    with LocalStore(tmp_path) as store:
        before = store.put("a", b"").time
        there = int(subprocess.check_output([sys.executable, "-c", program, str(tmp_path), "b"], text=True))
        after = store.put("c", b"").time
    assert before is not None
    assert after is not None
    assert before - 20 <= there <= after + 20
    assert abs(after - SystemClock().now_ms()) < DAY_MS


@pytest.mark.parametrize(("age_ms", "is_kept"), [(0, True), (999, True), (1000, False)])
def test_a_record_is_read_once_a_second(tmp_path: Path, age_ms: int, is_kept: bool) -> None:
    """What others record meanwhile goes on in the same way, so what was read still tells the time."""
    machine = Machine()
    with LocalStore(tmp_path, clock=Process(machine)) as store:
        store.put("a", b"")
        began = store.probe("b").time
        assert began is not None
        (tmp_path / ".worm.tmp" / "time" / "now").unlink()
        machine.now_ms += age_ms
        assert store.probe("b").time == (began + age_ms if is_kept else None)


def test_a_record_of_a_clock_that_may_be_set_is_read_each_time(tmp_path: Path) -> None:
    machine = Machine()
    machine.started_ms = machine.now_ms - SETTLING_MS + 2
    early, late = Process(machine), Process(machine)
    with LocalStore(tmp_path, clock=early) as store, LocalStore(tmp_path, clock=late) as other:
        store.put("a", b"")
        assert store.probe("b").time == other.probe("b").time
        late.skew_ms = DAY_MS  # its clock is set, and the folder's time follows
        machine.now_ms += 1
        other._time._record()
        assert store.probe("b").time == other.probe("b").time == START_MS + machine.now_ms + DAY_MS
