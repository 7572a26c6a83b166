"""How new the state is that a read sees: the newest, one from a number or token on, or one of a bounded age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import InvalidRequestError
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document

    Read = Callable[..., int]

NAME = "consistency"


class Two:
    """A process that reads, and one that writes, on one bucket."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.reader = self._connect(Settings(forward="manual", **settings))
        self.writer = self._connect(Settings(forward="manual"))
        self.there: Collection[Document] = self.writer["things"]
        self.here: Collection[Document] = self.reader["things"]
        self.there.insert({"id": "a", "n": 1})
        assert self.here.count() == 1

    def _connect(self, settings: Settings) -> Database:
        return wormdb.connect(f"memory://{NAME}", clock=self.clock, settings=settings)

    def gets(self, read: Callable[[], object]) -> tuple[object, int]:
        """What a read gives, and how many GETs it takes."""
        before = self.reader.cost().gets
        return read(), self.reader.cost().gets - before


@pytest.fixture
def two() -> Iterator[Two]:
    made = Two()
    yield made
    made.reader.close()
    made.writer.close()
    drop_memory(NAME)


READS: dict[str, Read] = {
    "find": lambda things, **choice: len(list(things.find(**choice))),
    "find_all": lambda things, **choice: len(things.find_all({}, **choice)),
    "find_one": lambda things, **choice: 1 + (things.find_one({"id": "b"}, **choice) is not None),
    "find_by_id": lambda things, **choice: 1 + (things.find_by_id("b", **choice) is not None),
    "exists": lambda things, **choice: 1 + things.exists("b", **choice),
    "count": lambda things, **choice: things.count(**choice),
    "count of a filter": lambda things, **choice: things.count({"n": {"$gt": 0}}, **choice),
    "distinct": lambda things, **choice: len(things.distinct("n", **choice)),
    "aggregate": lambda things, **choice: things.aggregate(count=True, **choice)["count"],
    "cursor": lambda things, **choice: len(things.cursor(**choice).next_batch()),
    "query": lambda things, **choice: _built(things, choice).count(),
    "query, aggregate": lambda things, **choice: _built(things, choice).aggregate(count=True)["count"],
    "handle": lambda things, **choice: things.with_options(**choice).count(),
    "scan": lambda things, **choice: len(list(things.with_options(**choice).scan())),
    "to_arrow": lambda things, **choice: things.with_options(**choice).to_arrow().num_rows,
}
"""How many documents a read shows, of which the second has the id b."""


def _built(things: Collection[Document], choice: dict[str, Any]) -> wormdb.Query[Document]:
    query = things.query()
    for name, value in choice.items():
        query = getattr(query, name)(value)
    return query


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_state_that_is_known_is_read_without_a_request(two: Two, read: Read) -> None:
    two.there.insert({"id": "b", "n": 2})
    assert two.gets(lambda: read(two.here, at_least=1)) == (1, 0)
    assert two.gets(lambda: read(two.here, stale_ms=1000)) == (1, 0)
    assert two.gets(lambda: read(two.here, at_least=1, stale_ms=1000)) == (1, 0)
    # One that is not known is asked for: entry 2 is there, 3 and 4 are not.
    assert two.gets(lambda: read(two.here, at_least=2)) == (2, 3)
    assert two.gets(lambda: read(two.here, at_least=2)) == (2, 0)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_state_that_is_too_old_is_not_read(two: Two, read: Read) -> None:
    two.there.insert({"id": "b", "n": 2})
    two.clock.advance(1.5)
    assert two.gets(lambda: read(two.here, stale_ms=2000)) == (1, 0)
    assert two.gets(lambda: read(two.here, at_least=1, stale_ms=1000)) == (2, 3)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_fresh_is_the_default_and_zero_ms(two: Two, read: Read) -> None:
    two.there.insert({"id": "b", "n": 2})
    assert two.gets(lambda: read(two.here, stale_ms=0)) == (2, 3)
    two.there.insert({"id": "c", "n": 2})
    two.there.delete("c")
    assert two.gets(lambda: read(two.here))[0] == 2


def test_a_token_of_a_write_makes_another_process_see_it(two: Two) -> None:
    document = two.there.insert({"id": "b", "n": 2})
    assert two.gets(lambda: two.here.find_by_id("b", at_least=two.there.token)) == (document, 3)
    assert two.here.find_by_id("b", at_least=document.rev) == document
    two.there.delete("b")
    assert two.gets(lambda: two.here.find_by_id("b", at_least=document.rev)) == (document, 0)
    assert two.gets(lambda: two.here.find_by_id("b", at_least=two.there.token))[0] is None
    two.there.insert_many([{"id": "m", "n": 1}, {"id": "n", "n": 1}])
    assert two.here.count(at_least=two.there.token) == 3


def test_a_token_is_also_of_what_was_read_and_never_goes_back(two: Two) -> None:
    """So reads that hand it on are monotonic, through whichever process."""
    assert two.reader["nothing"].token == two.reader["nothing"].token
    assert two.reader["nothing"].count(at_least=two.reader["nothing"].token) == 0
    two.there.insert({"id": "b", "n": 2})
    assert two.here.count() == 2
    token = two.here.token
    assert token == two.there.token
    two.here._ledger.forget()  # as after an unknown outcome
    assert two.here.token == token
    assert two.gets(lambda: two.here.count(at_least=token))[0] == 2
    assert two.there.count(at_least=token) == 2


def test_own_writes_are_seen_without_a_request(two: Two) -> None:
    two.here.insert({"id": "b", "n": 2})
    assert two.gets(lambda: two.here.find_by_id("b", at_least=two.here.token)["n"]) == (2, 0)  # type: ignore[index] # there
    two.clock.advance(100)
    assert two.gets(lambda: two.here.count(at_least=two.here.token)) == (2, 0)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_number_that_the_log_has_not_reached_is_refused_after_a_look(two: Two, read: Read) -> None:
    before = two.reader.cost().gets
    with pytest.raises(InvalidRequestError, match=r"at least of log number 7.*its log ends at 1"):
        read(two.here, at_least=7)
    assert two.reader.cost().gets == before + 1


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize(
    ("choice", "told"),
    [
        ({"stale_ms": -1}, "stale_ms must be a number of 0 or more, not -1"),
        ({"stale_ms": "1"}, "stale_ms must be a number of 0 or more, not '1'"),
        ({"stale_ms": True}, "stale_ms must be a number"),
        ({"stale_ms": float("nan")}, "stale_ms must be a number"),
        ({"stale_ms": float("inf")}, "stale_ms must be a number"),
        ({"at_least": -1}, "at_least must be a log number or a token, not -1"),
        ({"at_least": 1.5}, "at_least must be a log number or a token, not 1.5"),
        ({"at_least": True}, "at_least must be a log number or a token, not True"),
        ({"at_least": 2**70}, "at_least must be a log number or a token"),
        ({"at_least": "7"}, "it is damaged, or not a token"),
        ({"at_least": ""}, "it is damaged, or not a token"),
    ],
)
def test_nonsense_is_refused_without_a_request(two: Two, read: Read, choice: dict[str, Any], told: str) -> None:
    before = two.reader.cost().gets
    with pytest.raises(InvalidRequestError) as caught:
        read(two.here, **choice)
    assert told in str(caught.value)
    assert two.reader.cost().gets == before


def test_a_token_of_another_collection_is_refused(two: Two) -> None:
    two.writer["others"].insert({"id": "x"})
    with pytest.raises(InvalidRequestError, match="it is for another collection than things"):
        two.here.count(at_least=two.writer["others"].token)
    page = two.there.find({}, limit=1).next_page
    with pytest.raises(InvalidRequestError, match="it is a token for something else"):
        two.here.count(at_least=page)


@pytest.mark.parametrize("name", ["find", "find_by_id", "exists", "count", "distinct", "aggregate", "cursor", "query"])
def test_a_moment_and_a_choice_of_states_are_refused_together(two: Two, name: str) -> None:
    with pytest.raises(InvalidRequestError, match="as_of names one state, and at_least allows several"):
        READS[name](two.here, as_of=1, at_least=1)
    with pytest.raises(InvalidRequestError, match="as_of names one state, and stale_ms allows several"):
        READS[name](two.here, as_of=1, stale_ms=1)


def test_settings_are_the_default_and_a_call_says_otherwise() -> None:
    two = Two(staleness_ms=1000)
    try:
        two.there.insert({"id": "b", "n": 2})
        assert two.gets(two.here.count) == (1, 0)
        assert two.gets(lambda: two.here.count(stale_ms=500)) == (1, 0)
        assert two.gets(lambda: two.here.with_options().count()) == (2, 3)
        two.there.insert({"id": "c", "n": 2})
        assert two.gets(two.here.count) == (2, 0)
        assert two.gets(lambda: two.here.count(stale_ms=0)) == (3, 3)
    finally:
        two.reader.close()
        two.writer.close()
        drop_memory(NAME)


def test_writes_of_a_relaxed_handle_are_checked_against_the_newest_state(two: Two) -> None:
    two.there.save({"id": "a", "n": 5})
    relaxed = two.here.with_options(at_least=1)
    found = relaxed.find_by_id("a")
    assert found is not None
    assert found["n"] == 1
    with pytest.raises(wormdb.ConflictError):
        relaxed.save(found | {"n": 6})
    assert relaxed.update_many({"n": 5}, {"$inc": {"n": 1}}).modified == 1
    assert relaxed.modify("a", lambda it: {**it, "n": it["n"] + 1})["n"] == 7


def test_files_of_another_program_have_no_numbers(tmp_path: Any) -> None:
    fields = {"n": {"type": "integer"}}
    model = {"models": {"T": {"path": "@t/(id:string)/[profile].json", "mode": "readonly", "fields": fields}}}
    (tmp_path / "t" / "a").mkdir(parents=True)
    (tmp_path / "t" / "a" / "profile.json").write_text('{"id": "a", "n": 1}')
    with wormdb.connect(tmp_path, schema=model) as database:
        things = database.model("T")
        assert things.count(stale_ms=1000) == 1
        with pytest.raises(InvalidRequestError, match="has no log"):
            things.count({}, at_least=1)
