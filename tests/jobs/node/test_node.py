"""What a node does for collections, when, and what it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.jobs.node.rig import Rig, live
from wormdb.api.schema import PublishedSchema, read_schema
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import InvalidRequestError
from wormdb.format.heartbeat import decode_heartbeat
from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import CollectionLoad, Pace
from wormdb.jobs.node.rounds import turn_of, until_next_window, window_of
from wormdb.settings import LOG_RETENTION_MS_MIN, Settings
from wormdb.storage.meter import S3_STANDARD
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.storage.meter import Usage

HOUR = 3600.0
HOURS_OF_A_MONTH = 720
SLOW = Pace(interval_ms=120_000, look_seconds=3600, probe_seconds_max=3600)
"""For tests of many hours."""
KEPT = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Note": {
            "path": "@notes/(id:string)/[note].json",
            "id": "given",
            "fields": {"text": {"type": "string"}},
            "softDelete": {"enabled": True, "ttl": 1},
        }
    },
}
ENDING = {
    "schemaVersion": "1.0",
    "models": {
        "Note": {
            "path": "@notes/(id:string).json",
            "id": "given",
            "ttl": "2h",
            "fields": {"text": {"type": "string"}},
            "softDelete": {"enabled": True, "ttl": 1},
        }
    },
}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def fill(rig: Rig, *names: str) -> None:
    database = rig.database()
    for name in names:
        database[name].insert({"id": "x"})


def lags(rig: Rig, *names: str) -> list[int]:
    return [each.lag_entries for each in rig.database().status(names)]


def used(node: Node, rig: Rig, seconds: float) -> Usage:
    before = node.database.cost()
    live(rig, seconds, node)
    return node.database.cost() - before


# --- turns, without any store ---


@given(st.text(min_size=1), st.lists(st.integers(0, 255), min_size=1, max_size=12, unique=True), st.integers(0, 2**60))
def test_every_node_has_one_turn_in_as_many_windows_as_there_are_nodes(name: str, ids: list[int], now_ms: int) -> None:
    ring = sorted(ids)
    first = window_of(now_ms, 5000)
    assert sorted(turn_of(name, ring, first + step) for step in range(len(ring))) == ring
    assert window_of(now_ms + until_next_window(now_ms, 5000), 5000) == first + 1
    assert 0 < until_next_window(now_ms, 5000) <= 5000


def test_an_interval_that_no_store_could_bear_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="interval of 1 ms: it must be between"):
        Pace(interval_ms=1)


@given(st.integers(0, 100), st.integers(1, 10_000), st.integers(1, 10))
def test_quiet_collections_are_looked_at_more_and_more_rarely(quiet: int, collections: int, nodes: int) -> None:
    pace = Pace()
    seconds = pace.probe_seconds(quiet, collections, nodes)
    assert pace.interval <= seconds <= pace.probe_seconds(quiet + 1, collections, nodes)
    assert seconds <= nodes * max(60, collections)
    assert collections / pace.probe_seconds(100, collections, 1) <= 1


# --- rounds ---


def test_a_node_brings_forward_what_it_finds_and_what_comes(rig: Rig) -> None:
    fill(rig, "a", "org/b")
    node = rig.started()
    node.work()
    assert lags(rig, "a", "org/b") == [0, 0]
    client = rig.database()["a"]
    client.insert({"id": "y"})
    live(rig, 3 * node.pace.interval + node.pace.breath_seconds, node)
    assert lags(rig, "a") == [0]
    assert client.count() == 2
    assert {each.prefix: each.number for each in node.watchlist.known.values()} == {"a/": 2, "org/b/": 1}


def test_a_collection_of_the_schema_is_looked_after_from_its_first_entry_on(rig: Rig) -> None:
    node = rig.started()
    database = rig.database()
    database["other"].insert({"id": "x"})
    PublishedSchema(database.store).put(read_schema(KEPT))
    live(rig, 10, node)
    assert "notes/" in node.watchlist.known
    rig.database()["notes"].insert({"id": "x"})
    live(rig, 130, node)
    assert lags(rig, "notes") == [0]


def test_what_the_process_of_a_node_writes_is_known_to_all_of_them_without_a_search(rig: Rig) -> None:
    one, two = rig.started(), rig.started()
    live(rig, 61, one, two)
    lists = one.database.cost().lists
    one.database["new"].insert({"id": "x"})
    one.database["looked-at"].count()
    one.work()
    assert one.database.cost().lists == lists
    live(rig, 2 * one.pace.idle_factor * one.pace.interval, one, two)
    assert list(one.watchlist.known) == list(two.watchlist.known) == ["new/"]
    assert lags(rig, "new") == [0]


def test_few_entries_wait_for_more_and_many_do_not(rig: Rig) -> None:
    pace = Pace(breath_entries=5)
    fill(rig, "a")
    node = rig.started(pace=pace)
    live(rig, 1, node)
    client = rig.database()["a"]
    client.insert({"id": 1})
    live(rig, 2 * pace.interval, node)
    assert lags(rig, "a") == [1]
    for number in range(2, 7):
        client.insert({"id": number})
    live(rig, 2 * pace.interval, node)
    assert lags(rig, "a") == [0]
    client.insert({"id": 7})
    live(rig, pace.breath_seconds + 2 * pace.interval, node)
    assert lags(rig, "a") == [0]


def test_an_error_of_one_collection_stops_no_other_and_is_shown(rig: Rig) -> None:
    fill(rig, "a", "b", "c")
    key = EnginePaths.of_collection("b/").root
    rig.store.put(key, b"no root at all")
    node = rig.started()
    live(rig, 30, node)
    assert lags(rig, "a", "c") == [0, 0]
    broken = node.watchlist.known["b/"]
    assert broken.error.startswith("CorruptionError: ")
    assert 2 <= broken.failures <= 4
    shown = decode_heartbeat(rig.store.get(".worm.nodes/0").body, name="", node=0)
    assert [each.collection for each in shown.written if each.error] == ["b/"]
    tries = broken.errors
    live(rig, HOUR, node)
    assert broken.errors - tries <= 12
    rig.store.delete(key)
    live(rig, node.pace.retry_seconds_max + 10, node)
    assert broken.error == ""
    assert lags(rig, "b") == [0]


def test_a_heartbeat_has_room_for_the_newest_of_many_that_fail(rig: Rig) -> None:
    node = rig.started()
    node.watchlist.add(f"{chr(1) * 900}{number}/" for number in range(300))
    for number, watched in enumerate(node.watchlist.known.values()):
        watched.failed(ValueError(chr(2) * 900), 0.0, node.pace)
        watched.written_at = number
    rig.clock.advance(10)
    node.beat()
    shown = decode_heartbeat(rig.store.get(".worm.nodes/0").body, name="", node=0)
    assert (node.missed, shown.sequence) == (0, 2)
    assert 50 < len(shown.written) < 300
    newest = list(node.watchlist.known)[-len(shown.written) :]
    assert sorted(each.collection for each in shown.written) == sorted(newest)


def test_a_bug_in_a_round_is_kept_with_its_collection(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(rig, "a", "b")
    node = rig.node()
    real = node.database._ledgers.of("b/").forward

    def fail() -> int:
        raise ZeroDivisionError("of our own")

    monkeypatch.setattr(node.database._ledgers.of("a/"), "forward", fail)
    monkeypatch.setattr(node.database._ledgers.of("b/"), "forward", real)
    done = node.run_once()
    assert [(each.collection, each.error) for each in done] == [("a/", "ZeroDivisionError: of our own"), ("b/", "")]


def test_one_round_does_all_whoever_has_the_turn_and_marks_its_end(rig: Rig) -> None:
    fill(rig, "a", "b")
    other = rig.started()
    rig.clock.advance(1)
    done = rig.node().run_once()
    assert [(each.collection, each.through, each.entries, each.error) for each in done] == [
        ("a/", 1, 1, ""),
        ("b/", 1, 1, ""),
    ]
    assert other.is_well
    assert decode_heartbeat(rig.store.get(".worm.nodes/1").body, name="", node=1).state == "stopped"


def test_nodes_share_what_they_see(rig: Rig) -> None:
    """One that has just looked in vain hears of news by the heartbeat of another."""
    fill(rig, "a")
    one, two = rig.started(), rig.started()
    live(rig, 700, one, two)
    assert one.ring() == two.ring() == (0, 1)
    assert one.watchlist.known["a/"].quiet > 3
    rig.database()["a"].insert({"id": "y"})
    two.watchlist.known["a/"].found_written(2, rig.clock.monotonic())
    live(rig, 1, two)
    two.beat()
    one._look_at_peers()
    live(rig, 30, one, two)
    assert lags(rig, "a") == [0]


def test_the_other_node_takes_over_within_two_windows_of_the_death_being_seen(rig: Rig) -> None:
    fill(rig, "a", "b", "c", "d")
    one, two = rig.started(), rig.started()
    live(rig, 61, one, two)
    client = rig.database()
    for name in "abcd":
        client[name].insert({"id": "y"})
    two.ended.set()  # and no heartbeat says so
    interval = one.pace.interval
    live(rig, 6 * 3 * interval, one)
    assert one.ring() == (0,)
    for name in "abcd":
        client[name].insert({"id": "z"})
        one.watchlist.known[f"{name}/"].found_written(3, rig.clock.monotonic())
        one.watchlist.known[f"{name}/"].rests_until = 0
    live(rig, 2 * interval, one)
    assert lags(rig, *"abcd") == [0, 0, 0, 0]


# --- upkeep ---


def test_the_log_is_trimmed_past_its_retention(rig: Rig) -> None:
    fill(rig, "a")
    settings = Settings(forward="manual", forward_interval_ms=0, log_retention_ms=LOG_RETENTION_MS_MIN)
    node = Node(rig.database(settings), pace=SLOW, clock=rig.clock)
    node.start()
    live(rig, 3 * HOUR, node)
    rig.database()["a"].insert({"id": "y"})
    live(rig, 2 * HOUR, node)
    assert not rig.store.probe(EnginePaths.of_collection("a/").entry(LogNumber(1))).found
    assert rig.database()["a"].count() == 2


def test_the_trash_is_emptied_of_what_expired_and_not_before(rig: Rig) -> None:
    database = rig.database()
    database._declared.schema = read_schema(KEPT)
    notes = database.model("Note")
    notes.insert({"id": "n", "text": "x"})
    notes.delete("n")
    node = rig.started(pace=SLOW)
    live(rig, 20 * HOUR, node)
    assert len(notes.list_trashed()) == 1
    live(rig, 6 * HOUR, node)
    assert notes.list_trashed() == []
    assert notes.find_by_id("n") is None


def test_documents_that_end_are_removed_with_their_files_while_nothing_writes(rig: Rig) -> None:
    database = rig.database()
    database._declared.schema = read_schema(ENDING)
    notes = database.model("Note")
    notes.insert_many([{"id": f"n{number}", "text": "x"} for number in range(3)])
    notes.delete("n0")
    rig.clock.advance(10)
    node = rig.started(pace=SLOW)
    live(rig, HOUR, node)
    assert [one.op for one in notes.watch()] == ["create", "create", "create", "delete"]
    notes.modify("n2", lambda one: one | {"text": "again"})
    assert rig.store.probe("notes/n1.json").found
    live(rig, 1.5 * HOUR, node)
    assert [(one.op, one.id) for one in notes.watch()][-1] == ("expire", "n1")
    assert not rig.store.probe("notes/n1.json").found
    assert rig.store.probe("notes/n2.json").found
    live(rig, HOUR, node)
    assert [(one.op, one.id) for one in notes.watch()][-1] == ("expire", "n2")
    assert lags(rig, "notes") == [0]


def test_a_machine_with_a_wrong_clock_purges_nothing(rig: Rig) -> None:
    database = rig.database()
    database._declared.schema = read_schema(KEPT)
    notes = database.model("Note")
    notes.insert({"id": "n", "text": "x"})
    notes.delete("n")
    node = rig.started(pace=SLOW, skew_ms=600_000)
    live(rig, 26 * HOUR, node)
    assert "the clock of this machine is 600 s off the store's" in node.watchlist.known["notes/"].error
    assert len(notes.list_trashed()) == 1


def test_readable_files_are_complete_without_another_write(rig: Rig) -> None:
    database = rig.database()
    database._declared.schema = read_schema(KEPT)
    notes = database.model("Note")
    node = rig.started()
    live(rig, 1, node)
    notes.insert_many([{"id": f"n{number}", "text": "x"} for number in range(20)])
    live(rig, 200, node)
    (status,) = rig.database().files.status(["notes"])
    assert (status.enabled, status.lag_entries, status.pending, status.is_filling) == (True, 0, 0, False)


# --- the bill ---


@pytest.mark.parametrize(
    ("collections", "gets", "lists", "puts"), [(1, 126, 78, 120), (100, 3_661, 162, 120)], ids=["one", "a hundred"]
)
def test_an_idle_hour(rig: Rig, collections: int, gets: int, lists: int, puts: int) -> None:
    """Exactly: 120 heartbeats, a list of nodes and a look at the schema a minute, and a look at each log a minute, or
    at one log a second; the rest are searches for collections, less often if there are many.
    """
    fill(rig, *(f"org/c{number}" for number in range(collections)))
    node = rig.started()
    live(rig, HOUR / 3, node)
    rig.requests.clear()
    usage = used(node, rig, HOUR)
    counts = Counter(
        "heartbeat" if each.key.startswith(".worm.nodes/") and each.kind == "put" else "other" for each in rig.requests
    )
    assert counts["heartbeat"] == puts
    assert (usage.gets, usage.lists, usage.puts, usage.deletes) == (gets, lists, puts, 0)
    assert usage.dollars_at(S3_STANDARD) * HOURS_OF_A_MONTH <= 3.0


def test_an_idle_node_beats_rarely_and_says_so(rig: Rig) -> None:
    fill(rig, "a")
    node = rig.started()
    live(rig, HOUR, node)
    before = decode_heartbeat(rig.store.get(".worm.nodes/0").body, name="", node=0)
    assert before.interval_ms == 30_000
    live(rig, 31, node)
    assert node.is_well
    rig.database()["a"].insert({"id": "y"})
    live(rig, 75, node)
    assert decode_heartbeat(rig.store.get(".worm.nodes/0").body, name="", node=0).interval_ms == 5_000


# --- how long entries wait for others ---


@given(
    entries=st.integers(0, 10_000),
    seconds=st.floats(0.1, 1e6),
    each=st.integers(0, 5_000),
    leaves=st.floats(0, 1e5),
    size=st.floats(1, 1e9),
)
def test_waiting_is_bounded_and_gains_something(
    entries: int, seconds: float, each: int, leaves: float, size: float
) -> None:
    pace = Pace()
    load = CollectionLoad(entries=entries, seconds=seconds, changes=entries * each, leaves=leaves, entry_bytes=size)
    most, longest = pace.breath(load)
    assert pace.breath_entries <= most <= pace.shared_entries
    assert pace.breath_seconds <= longest <= pace.shared_seconds + 1e-6
    if (most, longest) != (pace.breath_entries, pace.breath_seconds):
        # While it waits each leaf gets a change at least, and no more bytes come than may.
        rate = entries / max(seconds, pace.interval)
        assert rate * pace.shared_seconds * each >= leaves > 0
        assert most == pace.breath_entries or most * size <= pace.shared_bytes
        assert min(most, rate * longest) * each <= pace.leaf_changes * leaves + pace.breath_entries * each + 1


def test_indexes_let_changes_wait_that_share_their_leaves() -> None:
    pace = Pace()
    default = pace.breath_entries, pace.breath_seconds
    busy = CollectionLoad(entries=30, seconds=30, changes=30_000, leaves=1_000, entry_bytes=50_000)
    assert pace.breath(busy) == (300, 300.0)
    assert list(pace.breath(replace(busy, entry_bytes=200_000))) == pytest.approx([167, 167.8], abs=0.1)
    assert list(pace.breath(replace(busy, leaves=200))) == pytest.approx([102, 102.4])
    assert pace.breath(replace(busy, leaves=2)) == default, "it is written rarely enough"
    assert pace.breath(replace(busy, changes=30)) == default, "few changes share no leaf, however long they wait"
    assert pace.breath(replace(busy, leaves=0)) == default


def test_a_node_waits_longer_where_indexes_are_large(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wormdb.jobs.node.caretaker.LEAF_ENTRIES", 1)
    pace = Pace(leaf_changes=10)
    client = rig.database()["indexed"]
    client.create_index("n")
    client.insert_many([{"id": number, "n": number} for number in range(8)])
    client.forward()
    node = rig.started(pace=pace)
    for turn in range(8):
        client.update_many({}, {"$set": {"n": turn}})
        live(rig, pace.interval, node)
    (watched,) = node.watchlist.known.values()
    # The same documents change again and again: the longer they wait, the fewer times their leaves are written.
    assert watched.rests_until - watched.forwarded_at == pytest.approx(pace.shared_seconds)
