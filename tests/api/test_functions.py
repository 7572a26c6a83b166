"""Named filters: a filter with functions answers as the filter that they stand for, in every process and every plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import empty_place
from wormdb.bql.functions import Functions
from wormdb.bql.parse import parse_filter
from wormdb.errors import InvalidRequestError, LimitExceededError, NotFoundError, UnsupportedFormatError, WormError
from wormdb.format import entry as entry_format
from wormdb.format import event
from wormdb.format.frame import FrameKind, decode_frame
from wormdb.query.request import STRATEGIES
from wormdb.storage.memory import drop_memory
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb import Collection, Database, Document

MANUAL = wormdb.Settings(forward="manual", forward_interval_ms=0, block_bytes=4_000)
PEOPLE = [
    {"id": f"p{number:02}", "age": number, "city": ("Bern", "Rome", "Oslo")[number % 3], "tags": ["a", str(number % 4)]}
    for number in range(40)
]


@pytest.fixture
def people() -> Iterator[Collection[Document]]:
    with wormdb.connect("memory://", settings=MANUAL) as database:
        database["people"].insert_many(PEOPLE)
        yield database["people"]


# --- the same as the filter ---

conditions: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"age": {"$gte": 18}},
        {"age": {"$lt": 30}},
        {"city": "Bern"},
        {"city": {"$in": ["Rome", "Oslo"]}},
        {"tags": "2"},
        {"tags": {"$all": ["a", "3"]}},
        {"id": "p07"},
        {"nothing": {"$exists": True}},
        {},
    ]
)


def filters(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Filters that may use some functions."""
    calls: list[dict[str, Any]] = [{"$fn": name} for name in names]
    leaves: st.SearchStrategy[dict[str, Any]] = conditions | st.sampled_from(calls) if names else conditions
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda some: {"$and": some}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda some: {"$or": some}, st.lists(inner, min_size=1, max_size=3)),
            st.builds(lambda one: {"$not": one}, inner),
        ),
        max_leaves=4,
    )


@st.composite
def registries(draw: st.DrawFn) -> tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]]:
    """Functions, each of which may use those before it, and a filter that may use all."""
    names: list[str] = []
    found = []
    for name in ("one", "two", "three"):
        found.append((name, draw(filters(names))))
        names.append(name)
    return found, draw(filters(names))


def substituted(written: Any, bodies: dict[str, Any]) -> Any:
    """The filter that it stands for, said in the simplest way."""
    if isinstance(written, list):
        return [substituted(each, bodies) for each in written]
    if not isinstance(written, dict):
        return written
    parts = [
        substituted(bodies[value], bodies) if name == "$fn" else {name: substituted(value, bodies)}
        for name, value in written.items()
    ]
    return {"$and": parts} if len(parts) > 1 else parts[0] if parts else {}


def answers(people: Collection[Document], asked: dict[str, Any]) -> list[Any]:
    """What every kind of call says."""
    found: list[Any] = [
        [each["id"] for each in people.find_all(asked)],
        people.count(asked),
        people.aggregate(group_by="city", sum="age", filter=asked),
        people.distinct("city", asked),
        people.find(asked, select=["age"]).to_arrow().to_pydict(),
    ]
    for strategy in STRATEGIES:
        try:
            found.append([each["id"] for each in people.find_all(asked, strategy=strategy)])
        except InvalidRequestError as error:
            found.append(str(error.reason))
    page = people.find(asked, limit=5, sort="-age")
    found += [[each["id"] for each in page], page.next_page is None]
    return found


@settings(max_examples=settings().max_examples // 2)
@given(registries(), st.sampled_from(["tail", "blocks", "index"]))
def test_a_filter_with_functions_answers_as_what_they_stand_for(
    registry: tuple[list[tuple[str, dict[str, Any]]], dict[str, Any]], where: str
) -> None:
    functions, asked = registry
    with wormdb.connect("memory://", settings=MANUAL) as database:
        people = database["people"]
        people.insert_many(PEOPLE)
        if where == "index":
            people.create_index("city")
            people.create_index("age")
        for name, written in functions:
            people.functions.register(name, written)
        if where != "tail":
            people.forward()
        plain = substituted(asked, dict(functions))
        assert answers(people, asked) == answers(people, plain)
        # The first of them has left in memory what the plan of the second counts on: asked at one moment, they agree.
        assert people.explain(asked).to_dict()["strategy"] == people.explain(plain).to_dict()["strategy"]
        changed = people.update_many(asked, {"$set": {"seen": True}})
        assert changed.matched == people.count(plain)
        assert people.delete_many(asked).deleted == changed.matched
        assert people.count(plain) == 0


def test_jobs_cursors_and_queries_take_them(people: Collection[Document]) -> None:
    people.functions.register("isAdult", "age>=18")
    assert people.query().where({"$fn": "isAdult"}).count() == 22
    with people.cursor({"$fn": "isAdult"}, batch_size=5) as cursor:
        assert next(iter(cursor.next_batch()))["id"] == "p18"
        people.functions.register("isAdult", "age>=38")  # what was begun goes on with what it stood for
        assert sum(1 for _ in people.resume(cursor.token)) == 17
    people.functions.register("isAdult", "age>=18")
    found = people.find_one_and_update({"$fn": "isAdult"}, {"$set": {"x": 1}}, sort="age")
    assert found is not None
    assert found["id"] == "p18"


def test_exports_take_them() -> None:
    from wormdb.jobs.aggregate import AggregateOptions
    from wormdb.jobs.pipeline import local_pipeline

    url = empty_place()
    with wormdb.connect(url, settings=MANUAL) as database:
        database["people"].insert_many(PEOPLE)
        database["people"].functions.register("isAdult", "age>=18")
        database["people"].forward()
        pipeline = local_pipeline(url, collection="people")
        assert pipeline.aggregate({"count": True}, AggregateOptions(filter={"$fn": "isAdult"}))["count"] == 22
        with pytest.raises(NotFoundError, match="is not registered"):
            pipeline.aggregate({"count": True}, AggregateOptions(filter={"$fn": "other"}))
    drop_memory(url.removeprefix("memory://"))


# --- every process ---


def two(name: str) -> tuple[Database, Database]:
    return tuple(wormdb.connect(f"memory://{name}", settings=MANUAL) for _ in "12")  # type: ignore[return-value] # two


def test_a_new_definition_is_seen_by_every_process() -> None:
    one, other = two("functions-seen")
    mine, theirs = one["people"], other["people"]
    mine.insert_many(PEOPLE)
    made = mine.functions.register("isAdult", {"age": {"$gte": 18}})
    for _ in range(3):  # the plan of its shape is remembered
        assert theirs.count({"$fn": "isAdult"}) == 22
    again = mine.functions.register("isAdult", {"age": {"$gte": 21}})
    assert (made.hash != again.hash, again.number > made.number) == (True, True)
    assert theirs.count({"$fn": "isAdult"}) == 19
    assert mine.functions.register("isAdult", {"age": {"$gte": 18}}).hash == made.hash
    mine.forward()
    assert theirs.count({"$fn": "isAdult"}) == 22
    theirs.functions.drop("isAdult")
    with pytest.raises(NotFoundError, match="Function 'isAdult' is not registered in people"):
        mine.count({"$fn": "isAdult"})
    for database in (one, other):
        database.close()
    drop_memory("functions-seen")


def test_they_outlive_the_log() -> None:
    clock = ManualClock()
    with wormdb.connect("memory://functions-kept", settings=MANUAL, clock=clock) as database:
        people = database["people"]
        people.insert_many(PEOPLE)
        people.functions.register("b", {"city": "Bern"})
        people.functions.register("a", {"$fn": "b", "age": {"$gt": 20}})
        people.forward()
        for _ in range(3):
            clock.advance(9 * 24 * 3_600)
            people.insert({"age": 1})
            people.forward()
            database.gc(["people"])
    with wormdb.connect("memory://functions-kept", settings=MANUAL, clock=clock) as database:
        people = database["people"]
        assert [each.name for each in people.functions.list()] == ["a", "b"]
        assert people.functions.get("a").expanded == {"$and": [{"city": {"$eq": "Bern"}}, {"age": {"$gt": 20}}]}
        assert people.count({"$fn": "a"}) == 7
        assert [each.findings for each in database.verify(["people"])] == [()]
    drop_memory("functions-kept")


def test_a_release_that_does_not_know_them_stops(people: Collection[Document], monkeypatch: pytest.MonkeyPatch) -> None:
    """It must not write the next root without them, nor go on behind an entry that it cannot read."""
    store = people._ledger._log.store
    people.functions.register("isAdult", "age>=18")
    number = people._ledger.view().number
    body = store.get(f"people/.worm.db/committed/{number:020}").body
    monkeypatch.setattr(entry_format, "EVENT_KINDS", event.EVENT_KINDS - {"function"})
    with pytest.raises(UnsupportedFormatError, match="does not act on: function"):
        entry_format._refuse_unknown_events(
            decode_frame(
                body, FrameKind.ENTRY, name="e", identity=f"people//{number}", version_max=1, bytes_max=1 << 24
            ).payload,
            "e",
        )
    people.forward()
    root = store.get("people/.worm.db/block0").body
    with pytest.raises(UnsupportedFormatError):
        decode_frame(root, FrameKind.ROOT, name="r", identity="people/", version_max=1, bytes_max=1 << 24)
    people.functions.drop("isAdult")
    people.forward()
    root = store.get("people/.worm.db/block0").body
    frame = decode_frame(root, FrameKind.ROOT, name="r", identity="people/", version_max=1, bytes_max=1 << 24)
    assert frame.version == 1


# --- what is refused ---


@pytest.mark.parametrize(
    ("name", "written", "error"),
    [
        ("", {"a": 1}, InvalidRequestError),
        ("1a", {"a": 1}, InvalidRequestError),
        ("a b", {"a": 1}, InvalidRequestError),
        ("x\x1b", {"a": 1}, InvalidRequestError),
        ("a" * 101, {"a": 1}, InvalidRequestError),
        (5, {"a": 1}, InvalidRequestError),
        ("a", None, InvalidRequestError),
        ("a", {"a": {"$where": "1"}}, InvalidRequestError),
        ("a", {"$fn": 5}, InvalidRequestError),
        ("a", {"$fn": "missing"}, NotFoundError),
        ("a", {"$fn": "a"}, InvalidRequestError),
        ("used", {"$fn": "user"}, InvalidRequestError),
        ("a", {"list": {"$elemMatch": {"x": 1, "$fn": "used"}}}, InvalidRequestError),
        ("a", {"a": "x" * 70_000}, LimitExceededError),
    ],
)
def test_what_cannot_be_a_function_is_refused_before_anything_is_written(
    people: Collection[Document], name: Any, written: Any, error: type[WormError]
) -> None:
    people.functions.register("used", {"age": 1})
    people.functions.register("user", {"$fn": "used"})
    before = people._ledger.view().number
    with pytest.raises(error):
        people.functions.register(name, written)
    assert people._ledger.view().number == before
    assert [each.name for each in people.functions.list()] == ["used", "user"]


def test_one_that_others_use_is_not_dropped(people: Collection[Document]) -> None:
    people.functions.register("used", {"age": 1})
    people.functions.register("user", {"$fn": "used"})
    with pytest.raises(InvalidRequestError, match="user use it"):
        people.functions.drop("used")
    people.functions.drop("user")
    people.functions.drop("used")
    with pytest.raises(NotFoundError):
        people.functions.drop("used")
    assert people.functions.list() == []


def test_two_that_make_a_ring_together_are_refused_by_the_second_commit() -> None:
    """Each is right by the state that it began with."""
    one, other = two("functions-ring")
    one["people"].functions.register("a", {"x": 1})
    one["people"].functions.register("b", {"x": 1})
    assert other["people"].count() == 0
    one["people"].functions.register("a", {"$fn": "b"})
    with pytest.raises(InvalidRequestError, match="b → a → b"):
        other["people"].functions.register("b", {"$fn": "a"})
    for database in (one, other):
        database.close()
    drop_memory("functions-ring")


def test_functions_that_grow_without_end_are_refused() -> None:
    bodies = {"f0": parse_filter({"a": 1, "b": 2})}
    for number in range(1, 40):
        used = {"$fn": f"f{number - 1}"}
        bodies[f"f{number}"] = parse_filter({"$or": [used, used]})
    with pytest.raises(LimitExceededError, match="conditions"):
        Functions(bodies, "people").expanded(parse_filter({"$fn": "f39"}))
