"""What garbage collection removes, when, and with how many requests."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.engine.bulk.stage_rig import MANUAL, logger
from tests.engine.rig import COLLECTION, PATHS, HookStore, Rig, TimedStore, contents, save
from tests.maintenance.gc.rig import DAY, HOUR, RULES, check_sound, gc, keys_of, merged, opened_job, site_of
from wormdb.api.database import connect
from wormdb.cli.main import run
from wormdb.engine.blocks import runs as block_runs
from wormdb.engine.load import abort
from wormdb.engine.state import successor as succession
from wormdb.errors import CorruptionError, InvalidRequestError, UnavailableError
from wormdb.format.adopt_record import AdoptRecord, encode_adopt_record
from wormdb.format.root import Root
from wormdb.maintenance.gc import collect as module
from wormdb.maintenance.gc import retired as gc_retired
from wormdb.maintenance.gc.collect import RetentionRules, collect
from wormdb.maintenance.gc.report import GcReport, Tally, Victim
from wormdb.maintenance.gc.retired import NameSet, read_retired
from wormdb.settings import Settings
from wormdb.storage.conditions import ensure_conditions, forget_conditions
from wormdb.storage.store import OCTETS, WrappedStore
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.system.types import StoreTime, WriteId
from wormdb.testing.fault_store import FaultStore

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.storage.store import Precondition, PutResult, Store

SHORT = RetentionRules(log_retention_ms=3_600_000, job_expiry_ms=RULES.job_expiry_ms)
"""The log is kept for an hour only."""
LEFT = f"{PATHS.data}0000000000000001-00000000.parquet"


def root_of(rig: Rig) -> Root:
    root = rig.register.read().root
    assert root is not None
    return root


def trace_of(store: FaultStore) -> list[tuple[str, str]]:
    return [(trace.verb, trace.key.removeprefix(PATHS.folder)) for trace in store.trace]


def test_retired_objects_are_dated_and_go_an_hour_later() -> None:
    rig = Rig()
    merged(rig)
    retired = retired_keys(rig)
    assert retired
    rig.clock.advance(10 * HOUR)
    first = gc(rig)
    assert (first.objects, first.waiting) == (0, len(retired))
    assert {one.at for one in root_of(rig).retired} >= {rig.clock.now_ms()}
    rig.clock.advance(HOUR - 0.001)
    assert gc(rig).objects == 0
    rig.clock.advance(0.001)
    last = gc(rig)
    # The list of them was needed until their names were in the root.
    assert {victim.key for victim in last.victims} == {key for key in retired if not key.endswith(".retired")}
    assert last.bytes == sum(victim.bytes for victim in last.victims) > 0
    rig.clock.advance(HOUR)
    gc(rig)
    assert (root_of(rig).retired, root_of(rig).retired_older) == ((), None)
    assert retired.isdisjoint(keys_of(rig))
    check_sound(rig, is_clean=True)


class FullStore(WrappedStore):
    """A disk of some bytes: what does not fit is refused, and deleting makes room."""

    def __init__(self, inner: Store, spare: int) -> None:
        super().__init__(inner)
        self.bytes_max = self.used() + spare

    def used(self) -> int:
        return sum(info.size for page in self._inner.list() for info in page.objects)

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        if self.used() + len(body) > self.bytes_max:
            raise UnavailableError(f"object {key}", reason="No space left on device", key=key)
        return self._inner.put(key, body, precondition, content_type=content_type)


@pytest.mark.parametrize("spare", [0, 20])
def test_a_full_disk_is_made_room_on(spare: int) -> None:
    """By a process that has written nothing yet, so that it has to try the store before it writes."""
    rig = Rig()
    merged(rig)
    rig.clock.advance(10 * HOUR)
    gc(rig)
    rig.clock.advance(HOUR)
    full, clean = FullStore(rig.store, spare), rig.store
    forget_conditions()
    site = site_of(rig, full)
    chance = SeededChance(5)
    runtime = replace(site.runtime, before_first_write=lambda: ensure_conditions(full, chance))
    before = full.used()
    done = collect(replace(site, runtime=runtime), RULES)
    assert done.objects > 0
    assert full.used() < before
    assert [page.objects for page in clean.list(".worm.probe/") if page.objects] == []
    check_sound(rig, is_clean=False)


def test_a_full_disk_with_nothing_to_remove_is_said() -> None:
    rig = Rig()
    merged(rig)
    before = keys_of(rig)
    with pytest.raises(UnavailableError, match="No space left"):
        gc(rig, FullStore(rig.store, 0))
    assert keys_of(rig) == before
    check_sound(rig, is_clean=True)


def test_what_nobody_named_goes_after_a_day() -> None:
    rig = Rig()
    merged(rig)
    rig.store.put(LEFT, b"left behind")
    rig.clock.advance(DAY - 0.001)
    gc(rig)
    assert LEFT in keys_of(rig)
    rig.clock.advance(0.001)
    assert Victim(LEFT, "block", "nothing has named it since it was written, a day ago or more", 11) in gc(rig).victims
    check_sound(rig, is_clean=True)


def test_nothing_else_in_the_folder_is_touched() -> None:
    rig = Rig()
    merged(rig)
    others = [f"{PATHS.folder}{name}" for name in ("files", "adopted", "shard-000/block0", "notes/a", "data.txt")]
    for key in [*others, f"{COLLECTION}readme.md"]:
        rig.store.put(key, b"not ours")
    rig.clock.advance(30 * DAY)
    gc(rig)
    assert set(others) <= set(keys_of(rig))
    assert rig.store.get(f"{COLLECTION}readme.md").body == b"not ours"


def test_requests() -> None:
    rig = Rig()
    merged(rig)
    gc(rig)
    gc(rig)
    idle = rig.counted()
    gc(rig, idle)
    assert trace_of(idle) == [
        ("probe", "block0"),
        ("probe", "committed/00000000000000000007"),
        ("list", ""),
    ]
    rig.store.put(LEFT, b"left behind")
    rig.clock.advance(DAY)
    busy = rig.counted()
    root = root_of(rig)
    gone = gc(rig, busy)
    pages = [one for one in trace_of(busy) if one[1].endswith(".list") and one[0] == "get"]
    assert len(pages) == len(root.block_pages) + len(root.history_pages)
    assert [one for one in trace_of(busy) if one not in pages] == [
        ("probe", "block0"),
        ("probe", "committed/00000000000000000007"),
        ("list", ""),
        ("get", "adopt"),
        ("probe", "committed/00000000000000000007"),
        ("delete_many", min(v.key for v in gone.victims if "hour" in v.reason).removeprefix(PATHS.folder)),
        ("put", "block0"),
        ("delete_many", LEFT.removeprefix(PATHS.folder)),
    ]
    merged(rig, start=6)
    noted = rig.counted()
    gc(rig, noted)
    assert trace_of(noted)[-2:] == [("put", "gc"), ("put", "block0")]


def test_requests_of_a_database() -> None:
    """One more than the collection's own: how far readable files are."""
    with connect("memory://gc-requests", settings=Settings(forward="manual")) as database:
        notes = database["notes"]
        notes.insert({"id": "a"})
        notes.forward()
        notes.gc()
        before = database.cost()
        notes.gc()
        used = database.cost() - before
    assert (used.gets, used.lists, used.requests) == (3, 1, 4)


def test_entries_of_the_log_that_are_kept_are_not_listed_one_by_one() -> None:
    rig = Rig()
    ledger = logger(rig, limits=MANUAL)
    for number in range(30):
        ledger.commit(rig.batch(save("d", n=number)))
    ledger.forward()
    store = FaultStore(rig.store, page_keys=4)
    gc(rig, store)
    listed = [key for verb, key in trace_of(store) if verb == "list"]
    assert len(listed) <= 2 + (len(keys_of(rig)) - 30) // 4
    rig.clock.advance(8 * DAY)
    assert gc(rig, FaultStore(rig.store, page_keys=4)).kinds["entry"].objects == 30
    check_sound(rig, is_clean=True)


def test_entries_that_an_earlier_run_left_go_without_a_swap() -> None:
    rig = Rig()
    merged(rig)
    gc(rig)
    entry = keys_of(rig)[1]
    body = rig.store.get(entry).body
    rig.clock.advance(8 * DAY)
    assert gc(rig).kinds["entry"].objects == 6
    rig.store.put(entry, body)
    store = rig.counted()
    assert gc(rig, store).kinds["entry"] == Tally(1, len(body))
    assert ("put", "block0") not in trace_of(store)


def test_a_dry_run_says_the_same_and_writes_nothing() -> None:
    rig = Rig()
    merged(rig)
    gc(rig)
    rig.store.put(LEFT, b"left behind")
    rig.clock.advance(8 * DAY)
    store = rig.counted()
    dry = gc(rig, store, dry_run=True)
    assert {verb for verb, _ in trace_of(store)} <= {"probe", "get", "head", "list"}
    assert dry.is_dry
    done = gc(rig)
    assert set(dry.victims) == set(done.victims)
    assert (dry.kinds, dry.waiting, dry.expired) == (done.kinds, done.waiting, done.expired)


def test_many_victims_go_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    merged(rig)
    left = [f"{PATHS.data}{number:016x}-00000000.parquet" for number in range(20)]
    left += [f"{PATHS.index('gone')}{number:016x}-00000000" for number in range(20)]
    for key in left:
        rig.store.put(key, b"left behind")
    gc(rig)
    rig.clock.advance(8 * DAY)
    monkeypatch.setattr(module, "GC_VICTIMS_MAX", 7)
    monkeypatch.setattr(module, "DELETES_AT_ONCE", 3)
    store = rig.counted()
    found = gc(rig, store)
    assert {victim.key for victim in found.victims} >= set(left)
    assert found.kinds["node"] == Tally(20, 20 * len(b"left behind"))
    deletes = [trace for trace in store.trace if trace.verb == "delete_many"]
    assert len(deletes) >= (40 + 6) / 3
    check_sound(rig, is_clean=True)


def test_many_retired_objects_are_listed_beside_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    merged(rig, 12)
    monkeypatch.setattr(gc_retired, "RETIRED_INLINE_MAX", 3)
    monkeypatch.setattr(gc_retired, "GC_LIST_NAMES", 4)
    monkeypatch.setattr(succession, "RETIRED_INLINE_MAX", 3)
    merged(rig, 6, start=12)
    assert root_of(rig).retired_older is not None
    waiting = len(retired_keys(rig))
    for _ in range(2):
        gc(rig)
        check_sound(rig)
        rig.clock.advance(HOUR)
    assert len(retired_keys(rig)) < waiting
    for _ in range(3):
        rig.clock.advance(HOUR)
        gc(rig)
    root = root_of(rig)
    assert (root.retired, root.retired_older) == ((), None)
    check_sound(rig, is_clean=True)
    assert len(contents(rig.ledger().view())) == 54


def test_a_job_keeps_the_log_that_it_is_checked_against() -> None:
    rig = Rig()
    merged(rig)
    loading, target, reports = opened_job(rig)
    merged(rig, 2, start=6)
    for _ in range(3):
        rig.clock.advance(2 * DAY)
        collect(site_of(rig), SHORT)
    assert rig.slots()[0] == 7
    loading.attach(target, reports)
    logger(rig, limits=MANUAL).forward()
    check_sound(rig)


def test_what_an_ended_job_left_goes_after_a_day() -> None:
    rig = Rig()
    merged(rig)
    _, target, _ = opened_job(rig)
    written = set(keys_of(rig))
    abort(rig.ledger(), target.job, "no more")
    rig.clock.advance(DAY)
    found = gc(rig)
    assert found.expired == ()
    assert {victim.key for victim in found.victims if victim.reason.startswith("nothing")} <= written
    check_sound(rig, is_clean=True)


def test_blocks_of_an_adoption_that_goes_on_stay() -> None:
    rig = Rig()
    merged(rig)
    rig.store.put(LEFT, b"of an adoption")
    record = AdoptRecord(path=COLLECTION, job=WriteId("0" * 32), write_id=WriteId("1" * 32), limit=1, plan=bytes(32))
    rig.store.put(PATHS.adoption, encode_adopt_record(record))
    rig.clock.advance(30 * DAY)
    gc(rig)
    assert LEFT in keys_of(rig)
    rig.store.put(PATHS.adoption, b"damaged")
    gc(rig)
    assert LEFT in keys_of(rig)
    rig.store.delete(PATHS.adoption)
    gc(rig)
    assert LEFT not in keys_of(rig)


@pytest.mark.parametrize("is_gone", [True, False])
def test_nothing_goes_if_it_is_not_certain_what_is_needed(monkeypatch: pytest.MonkeyPatch, is_gone: bool) -> None:
    monkeypatch.setattr(block_runs, "LIST_INLINE_BYTES_MAX", 300)
    rig = Rig()
    merged(rig)
    gc(rig)
    rig.clock.advance(8 * DAY)
    page = next(key for key in keys_of(rig) if key.endswith(".list") and key not in retired_keys(rig))
    if is_gone:
        rig.store.delete(page)
    else:
        rig.store.put(page, b"damaged")
    before = keys_of(rig)
    with pytest.raises(CorruptionError, match="list"):
        gc(rig)
    assert keys_of(rig) == before


def retired_keys(rig: Rig) -> set[str]:
    return read_retired(site_of(rig), root_of(rig), StoreTime(0)).keys()


def test_a_store_without_times_is_asked_by_writing() -> None:
    rig = Rig()
    merged(rig)
    store = TimedStore(rig.store, lambda: None)
    rig.store.put(LEFT, b"left behind")
    gc(rig, store)
    rig.clock.advance(DAY)
    assert gc(rig, store, dry_run=True).victims == ()
    assert LEFT in {victim.key for victim in gc(rig, store).victims}
    check_sound(rig)


def test_a_collection_without_a_root_is_left_alone() -> None:
    rig = Rig()
    logger(rig, limits=MANUAL).commit(rig.batch(save("d", n=1)))
    rig.store.put(LEFT, b"left behind")
    rig.clock.advance(30 * DAY)
    assert gc(rig).victims == ()
    assert len(keys_of(rig)) == 2


def test_it_gives_up_when_others_are_faster_every_time() -> None:
    rig = Rig()
    merged(rig)
    rig.store.put(LEFT, b"left behind")
    rig.clock.advance(DAY)
    store = HookStore(rig.store)

    def rival(verb: str, key: str) -> None:
        if (verb, key) == ("put", PATHS.root):
            ledger = logger(rig, limits=MANUAL)
            ledger.commit(rig.batch(save("rival", at=rig.chance.token(4).hex())))
            ledger.forward()

    store.before = rival
    with pytest.raises(UnavailableError, match="too late every time"):
        gc(rig, store)
    assert LEFT in keys_of(rig)


def test_every_field_of_a_root_that_names_objects_is_known() -> None:
    """Whoever adds a field to a root that names objects must tell `gc_names`, or they are garbage."""
    fields = {field.name for field in msgspec.structs.fields(Root)}
    named = {"blocks", "block_pages", "attached", "attached_pages", "history", "history_pages", "brought"}
    named |= {"brought_pages", "indexes", "retired", "retired_older"}
    plain = {"path", "collection", "revision", "write_id", "misc", "applied", "hash_applied", "trimmed", "hash_trimmed"}
    plain |= {"marks", "definition", "rows", "history_from", "jobs", "sequence", "condemned", "sample", "statistics"}
    plain |= {"closed", "files", "versions", "blob_newest", "blob_floor", "changes", "functions", "dated", "entered"}
    plain |= {"pending", "retained"}
    plain |= {"removed", "removed_at", "expiries", "erased", "erased_salt", "erased_through", "dropped_through"}
    assert fields == named | plain


def test_a_report_lists_the_first_and_counts_all() -> None:
    gathered = GcReport("things/", is_dry=False)
    gathered.add(Victim(f"key{number}", "node", "garbage", 2) for number in range(2_500))
    found = gathered.collected()
    assert len(found.victims) == 1_000
    assert (found.objects, found.bytes, found.kinds) == (2_500, 5_000, {"node": Tally(2_500, 5_000)})


def test_names_are_found_again() -> None:
    names = NameSet(f"key{number}" for number in range(10_000))
    assert len(names) == 10_000
    assert all(f"key{number}" in names for number in range(10_000))
    assert not any(f"other{number}" in names for number in range(10_000))


@pytest.mark.long
def test_a_million_names_take_little_memory() -> None:
    tracemalloc.start()
    names = NameSet(f"things/.worm.db/data/{number:016x}-00000000.parquet" for number in range(1_000_000))
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(names) == 1_000_000
    assert now < 9_000_000
    assert peak < 60_000_000


# --- by the database and by command ---


def test_the_settings_decide() -> None:
    with pytest.raises(InvalidRequestError, match="job_expiry_ms"):
        Settings(job_expiry_ms=1)
    clock = ManualClock()
    with connect("memory://", clock=clock, settings=Settings(log_retention_ms=3_600_000)) as database:
        things = database["things"]
        things.insert({"id": "a"})
        things.forward()
        assert things.gc().objects == 0
        clock.advance(HOUR)
        (found,) = database.gc(["things"], dry_run=True)
        assert found.kinds["entry"].objects == 1
        assert things.gc().kinds == found.kinds
        assert things.find_by_id("a") is not None


def test_what_checks_of_the_store_left_goes_after_a_day() -> None:
    clock = ManualClock()
    with connect("memory://", clock=clock) as database:
        database["things"].insert({"id": "a"})
        database.store.put(".worm.probe/left", b"by a writer that may not delete")
        clock.advance(DAY - 1)
        database.store.put(".worm.probe/doctor/young", b"somebody may be looking")
        clock.advance(2)
        for options in ({"dry_run": True}, {"names": ["things"]}):
            database.gc(**options)
            assert database.store.probe(".worm.probe/left").found is not None
        database.gc()
        keys = [info.key for page in database.store.list(".worm.probe/") for info in page.objects]
        assert keys == [".worm.probe/doctor/young"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "shop")
    with connect(url, settings=Settings(forward="manual", forward_interval_ms=0)) as database:
        for number in range(12):
            database["things"].insert({"id": f"a{number}"})
            database.forward(["things"])
    assert run(["gc", "things", "--url", url, "--dry-run"]) == 0
    assert "things/: nothing to remove; " in capsys.readouterr().out
    assert run(["gc", "--url", url, "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["collection"], told["isDry"], told["objects"], told["victims"]) == ("things/", False, 0, [])
    assert told["waiting"] > 0
    assert run(["gc", "nothing", "--url", url]) == 1
    assert "collection nothing: there is none in" in capsys.readouterr().err
