"""More of what the sweeps run: all that writes blocks, trees and history, with sizes that few documents reach."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.engine.forward.compact_rig import compact_lists, rebuild_trees
from tests.engine.lists.rig import BUCKETS, WORDS, with_kinds
from tests.engine.sweeps.commits import Scenario, State, insert_model, unchanged, world_of
from tests.engine.sweeps.updates import delete_where, update_where
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.engine.commit.define import change_definition, create_index
from wormdb.engine.forward import rebuild_lists
from wormdb.engine.forward.compact import Aim
from wormdb.engine.lists import advance, calibrate, centroids
from wormdb.errors import InvalidRequestError
from wormdb.format import list_columns, list_part
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.engine.forward.renew import ListRenewal

__all__ = ["BUILDS", "FORWARDS", "PROJECTED", "STAGED", "odd_merges", "renew", "searched", "small_spans", "tiny_lists"]

MANUAL = {"forward": "manual", "block_bytes": 400, "forward_interval_ms": 0}
"""Nobody forwards but who is told to; a block has a few documents."""
STAGING = {**MANUAL, "stage_bytes": 300}


@contextmanager
def tiny_lists() -> Iterator[None]:
    """A few vectors are in several lists, and are measured."""
    with (
        mock.patch.object(centroids, "_LEAST", 4),
        mock.patch.object(centroids, "LIST_ROWS", 3),
        mock.patch.object(calibrate, "NEAREST", 2),
        mock.patch.object(calibrate, "ASKED", 5),
    ):
        yield


@contextmanager
def odd_merges() -> Iterator[None]:
    """Runs of lists are merged by no rule of size: often the newest alone, above an older one that stays."""

    def plan(size: int, sizes: Sequence[int], smallest: int) -> int:
        del smallest
        return 0 if len(sizes) < 2 else 1 + size % len(sizes)

    with mock.patch.object(advance, "plan_cascade", plan):
        yield


@contextmanager
def small_spans(size: int) -> Iterator[None]:
    """Pages have a list or two, and runs are joined in pieces of so few bytes."""
    with (
        mock.patch.object(rebuild_lists, "SPAN_BYTES", size),
        mock.patch.object(rebuild_lists, "PACKED_SPAN_BYTES", size),
        mock.patch.object(list_part, "PAGE_BYTES", 40),
        mock.patch.object(list_columns, "COLUMN_PAGE_BYTES", 40),
    ):
        yield


# --- preparation ---


def _documents(names: str, **values: Any) -> list[dict[str, Any]]:
    return [{"id": name, "u": f"{name}@", "tags": [name, "t"], **values} for name in names]


def _three_runs(database: Database) -> None:
    things = database["things"]
    for turn, names in enumerate(("abcde", "b", "d")):
        for document in _documents(names, n=turn):
            things.save(document)
        things.forward()


def _runs_and_tail(database: Database) -> None:
    _three_runs(database)
    things = database["things"]
    things.save({"id": "a", "n": 9, "u": "g@"})
    things.delete("c")
    things.insert({"id": "g", "n": 9, "tags": ["t"], "u": "a@"})


def _indexed(database: Database) -> None:
    things = database["things"]
    things.create_index("u", name="byU", unique=True)
    things.create_index("tags", name="byTag")


def _indexed_runs_and_tail(database: Database) -> None:
    _indexed(database)
    _runs_and_tail(database)


def _two_runs(database: Database) -> None:
    things = database["things"]
    things.insert_many(_documents("abcdef", n=0))
    things.forward()
    things.save({"id": "b", "n": 1, "u": "b@"})
    things.delete("c")
    things.forward()
    things.save({"id": "g", "n": 2, "u": "g@"})


def _waiting(database: Database) -> None:
    _two_runs(database)
    things = database["things"]
    things.create_index("u", name="byU", unique=True, wait=False)
    things.create_index("tags", name="byTag", wait=False)


def _ready(database: Database) -> None:
    _waiting(database)
    database["things"].forward()


def _indexed_runs(database: Database) -> None:
    _indexed(database)
    _three_runs(database)


def _attached_in_the_tail(database: Database) -> None:
    """Saves before and after what a job attached, on top of a root."""
    _indexed(database)
    things = database["things"]
    things.save({"id": "b", "n": 0, "u": "old"})
    things.forward()
    things.save({"id": "c", "n": 1})
    with things.batch() as batch:
        for document in _documents("bcdef", n=2):
            batch.save(document)
    things.save({"id": "d", "n": 3})
    things.delete("e")


def _old_enough(database: Database) -> None:
    _indexed_runs_and_tail(database)
    things = database["things"]
    things.forward()
    things._ledger.trim(0)
    world_of(database.store).manual.advance(7_200)
    things.save({"id": "z", "n": 1})


def _with_lists(database: Database) -> None:
    """Lists in three runs of which the tail changes some, next to be merged; some were there before documents."""
    things = database["things"]
    _create_lists(things)
    for turn, names in enumerate(("abcde", "bc", "d")):
        for document in _documents(names, n=turn, text=f"red {names} {turn}"):
            things.save(document)
        things.forward()
    things.save({"id": "a", "n": 9, "text": "green"})
    things.delete("c")
    things.insert({"id": "g", "n": 11, "text": "red red"})


def _create_lists(things: Collection[Document]) -> None:
    with_kinds()
    for index in (WORDS, BUCKETS):
        ledger = things._ledger
        ledger.commit(create_index(ledger.batch_id(), index, seen=ledger.view()))


def _waiting_lists(database: Database) -> None:
    things = database["things"]
    things.insert_many([*_documents("abcdef", n=4, text="red green"), {"id": "x", "n": 8}])
    things.forward()
    things.save({"id": "b", "n": 1, "text": "blue"})
    things.delete("c")
    _create_lists(things)


def _texts(names: str, *words: str) -> list[dict[str, Any]]:
    return [{"id": name, "title": f"{words[0]} {name}", "parts": [{"text": word} for word in words]} for name in names]


def _create_text(things: Collection[Document], *, wait: bool = True) -> object:
    fields = ["title^3", "parts.text"]
    return things.create_text_index(fields, language="english", name="byText", wait=wait).state


def _with_text(database: Database) -> None:
    """Words in three runs, next to be merged, of which newer ones take back from older ones; the tail changes some."""
    things = database["things"]
    _create_text(things)
    for names, words in (("abcde", ("red shoes", "run")), ("bc", ("running shoe",)), ("d", ("blue", "red red"))):
        for document in _texts(names, *words):
            things.save(document)
        things.forward()
    for document in _texts("ag", "blue running", "shoe"):
        things.save(document)
    things.delete("c")


def _some_texts(database: Database) -> None:
    things = database["things"]
    things.insert_many([*_texts("abcdef", "red shoes", "run"), {"id": "x", "n": 8}])
    things.forward()
    things.save(_texts("d", "running")[0])


def _waiting_text(database: Database) -> None:
    _some_texts(database)
    things = database["things"]
    _create_text(things, wait=False)
    things.save(_texts("b", "blue")[0])
    things.delete("c")


def _renew_text(things: Collection[Document]) -> object:
    done: list[bool] = []
    things._ledger.tend_lists(lambda lists: done.append(lists.renew("byText")))
    return done


def searched(things: Collection[Document]) -> None:
    """An index of words is ready, and finds what the documents say."""
    assert _states(things)["byText"] == "ready"
    documents = [{**row, "_id": row["id"]} for row in things.find(select=["title", "parts"])]
    fields = parse_fields(["title^3", "parts.text"], "english")
    for text in ("shoe", "red run", "blue OR shoe -running", '"running shoe"', "title:r*"):
        truth = rank_documents(SearchQuery(text).over(fields), documents)
        found = things.find(search=text, strategy="index_lookup").scored()
        assert [(score, row["id"]) for row, score in found] == [(score, row["_id"]) for score, row in truth]


def _vectors(numbers: Sequence[int], turn: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"v{number:02}", "v": [number % 7 - 3, (number * 5 + turn) % 11 - 5, 1]} for number in numbers]


def _with_vectors(database: Database) -> None:
    """Lists of vectors in two runs, of which the newer takes back from the older; the tail changes some."""
    things = database["things"]
    things.insert_many(_vectors(range(12)))
    things.forward()
    things.create_vector_index("v", dimensions=3, distance="euclidean", name="byVector")
    for row in _vectors((2, 5), 3):
        things.save(row)
    things.forward()
    for row in _vectors((5, 8, 14), 6):
        things.save(row)
    things.delete("v03")


def _with_several(database: Database) -> None:
    """Two indexes of vectors and one of words, of which documents have all, some or none; the tail changes some."""
    things = database["things"]
    rows = [_several(number) for number in range(12)]
    things.insert_many(rows[:9])
    things.forward()
    things.create_vector_index("deep.v", dimensions=3, distance="cosine", name="byDeep")
    things.create_vector_index("v", dimensions=3, distance="dot_product", name="byVector")
    things.create_text_index("t", name="byText")
    for row in rows[9:]:
        things.save(row)
    things.forward()
    things.save(_several(13, identity="v01"))
    things.save({"id": "v02", "v": None, "deep": {"v": [1, 1, 1]}})
    things.save({"id": "v04", "t": "red red"})
    things.delete("v10")


def _several(number: int, *, identity: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"id": identity or f"v{number:02}", "t": f"red w{number % 3}"}
    if number % 3:
        made["v"] = [number, -1, number % 2]
    if number % 4:
        made["deep"] = {"v": [1, number % 5, 2]}
    return made


def _waiting_vectors(database: Database) -> None:
    things = database["things"]
    things.insert_many([*_vectors(range(10)), {"id": "x", "n": 8}])
    things.forward()
    things.create_vector_index("v", dimensions=3, distance="euclidean", name="byVector", wait=False)
    things.save(_vectors([4], 5)[0])
    things.delete("v03")


def _half_renewed(database: Database) -> None:
    """Lists that are made anew have the first documents, of which the tail changes some."""
    _with_vectors(database)
    things = database["things"]

    def begin(lists: ListRenewal) -> None:
        assert lists._begin("byVector") is None
        assert lists._step("byVector") is None

    things._ledger.tend_lists(begin)


def renew(things: Collection[Document]) -> object:
    """Make the lists of vectors anew."""
    done: list[bool] = []
    things._ledger.tend_lists(lambda lists: done.append(lists.renew("byVector")))
    return done


def _renewed(things: Collection[Document]) -> None:
    """Making lists anew ends, wherever it was broken off; and nothing of what was begun stays."""
    all_ready("byVector")(things)
    renew(things)
    place = things._ledger.view().place
    assert place is not None
    found = place.root.index("byVector")
    assert found is not None
    assert found.successor is None
    assert found.lists is not None
    assert len(found.lists.runs) == 1
    assert found.lists.calibration is not None


def _drop_vectors(things: Collection[Document]) -> object:
    things.drop_index("byDeep")
    return things.forward()


def _drop_lists(things: Collection[Document]) -> object:
    things.drop_index("byWord")
    return things.forward()


# --- operations ---


def _forward(things: Collection[Document]) -> object:
    return things.forward()


def _create(things: Collection[Document]) -> object:
    return things.create_index("u", name="byU", unique=True).state


def _create_over_duplicates(things: Collection[Document]) -> object:
    try:
        things.create_index("n", name="byN", unique=True)
    except InvalidRequestError:
        return "refused"
    return "created"


def _drop(things: Collection[Document]) -> object:
    things.drop_index("byU")
    return things.forward()


def _apply(things: Collection[Document]) -> object:
    indexes = {"byU": {"field": "u", "unique": True}, "byTag": {"field": "tags"}}
    model = load_model("Thing", {"path": "@things/(id:string)", "indexes": indexes})
    ledger = things._ledger
    ledger.commit(change_definition("a" * 32, model, seen=ledger.view()))
    return ledger.forward()


def _load(names: str) -> Callable[[Collection[Document]], object]:
    return lambda things: things.insert_many(_documents(names, n=1))


def _compact(things: Collection[Document]) -> object:
    return compact_lists(things._ledger, Aim(400))


def _rebuild(things: Collection[Document]) -> object:
    return rebuild_trees(things._ledger, Aim(400, everything=True))


def _rebuild_spans(things: Collection[Document]) -> object:
    """The same, with the runs of an index joined by several pieces of work."""
    with small_spans(60):
        return _rebuild(things)


def _trim(things: Collection[Document]) -> object:
    return things._ledger.trim(0)


# --- what must be true in the end ---


def _states(things: Collection[Document]) -> dict[str, str]:
    return {each.name: each.state for each in things.indexes()}


def all_ready(*names: str) -> Callable[[Collection[Document]], None]:
    """Every index there is is ready, and these are there."""

    def check(things: Collection[Document]) -> None:
        assert _states(things) == dict.fromkeys(["_id", *names], "ready")

    return check


def none_waits(things: Collection[Document]) -> None:
    """Every index that there may be is ready."""
    assert set(_states(things).values()) == {"ready"}


def _loaded(names: Sequence[str]) -> Callable[[State], State | None]:
    return insert_model(*((name, {"u": f"{name}@", "tags": [name, "t"], "n": 1}) for name in names))


FORWARDS = (
    Scenario("forward, merging", "things", _runs_and_tail, _forward, unchanged, settings=MANUAL),
    Scenario(
        "forward with indexes",
        "things",
        _indexed_runs_and_tail,
        _forward,
        unchanged,
        settings=MANUAL,
        check=all_ready("byTag", "byU"),
    ),
    Scenario(
        "forward what is attached",
        "things",
        _attached_in_the_tail,
        _forward,
        unchanged,
        settings=STAGING,
        check=all_ready("byTag", "byU"),
    ),
)
BUILDS = (
    Scenario("build", "things", _waiting, _forward, unchanged, settings=MANUAL, check=all_ready("byTag", "byU")),
    Scenario("create index", "things", _two_runs, _create, unchanged, "ready", settings=MANUAL, check=none_waits),
)
STAGED = (Scenario("load", "things", _indexed_runs, _load("xyz"), _loaded("xyz"), ["x", "y", "z"], settings=STAGING),)
_CHANGES = (
    Scenario(
        "update many",
        "things",
        _indexed_runs,
        lambda c: c.update_many({"n": {"$lt": 5}}, {"$inc": {"n": 10}}).modified,
        update_where(lambda values: values["n"] < 5, lambda values: {**values, "n": values["n"] + 10}),
        5,
        settings=STAGING,
    ),
    Scenario(
        "delete many",
        "things",
        _indexed_runs,
        lambda c: c.delete_many({"n": 0}).deleted,
        delete_where(lambda values: values["n"] == 0),
        3,
        settings=STAGING,
    ),
)
PROJECTED = (
    *FORWARDS,
    *BUILDS,
    Scenario(
        "create index over duplicates",
        "things",
        _three_runs,
        _create_over_duplicates,
        unchanged,
        "refused",
        settings=MANUAL,
        check=all_ready(),
    ),
    Scenario("drop index", "things", _ready, _drop, unchanged, settings=MANUAL, check=none_waits),
    Scenario("apply a schema", "things", _two_runs, _apply, unchanged, settings=MANUAL, check=none_waits),
    *STAGED,
    *_CHANGES,
    Scenario("compact", "things", _runs_and_tail, _compact, unchanged, settings=MANUAL),
    Scenario("rebuild indexes", "things", _indexed_runs_and_tail, _rebuild, unchanged, settings=MANUAL),
    Scenario(
        "forward lists",
        "things",
        _with_lists,
        _forward,
        unchanged,
        settings=MANUAL,
        check=all_ready("byBucket", "byWord"),
    ),
    Scenario(
        "build lists",
        "things",
        _waiting_lists,
        _forward,
        unchanged,
        settings=MANUAL,
        check=all_ready("byBucket", "byWord"),
    ),
    Scenario("drop lists", "things", _with_lists, _drop_lists, unchanged, settings=MANUAL, check=none_waits),
    Scenario("forward text", "things", _with_text, _forward, unchanged, settings=MANUAL, check=searched),
    Scenario("build text", "things", _waiting_text, _forward, unchanged, settings=MANUAL, check=searched),
    Scenario(
        "create text index", "things", _some_texts, _create_text, unchanged, "ready", settings=MANUAL, check=none_waits
    ),
    Scenario("rebuild text", "things", _with_text, _rebuild, unchanged, settings=MANUAL, check=searched),
    Scenario("renew text", "things", _with_text, _renew_text, unchanged, [True], settings=MANUAL, check=searched),
    Scenario("rebuild lists", "things", _with_lists, _rebuild_spans, unchanged, settings=MANUAL, check=none_waits),
    Scenario(
        "forward several",
        "things",
        _with_several,
        _forward,
        unchanged,
        settings=MANUAL,
        check=all_ready("byDeep", "byText", "byVector"),
    ),
    Scenario("drop vectors", "things", _with_several, _drop_vectors, unchanged, settings=MANUAL, check=none_waits),
    Scenario("rebuild vectors", "things", _with_vectors, _rebuild_spans, unchanged, settings=MANUAL, check=_renewed),
    Scenario("build vectors", "things", _waiting_vectors, _forward, unchanged, settings=MANUAL, check=_renewed),
    Scenario("forward half renewed", "things", _half_renewed, _forward, unchanged, settings=MANUAL, check=_renewed),
    Scenario("renew vectors", "things", _with_vectors, renew, unchanged, [True], settings=MANUAL, check=_renewed),
    Scenario("trim", "things", _old_enough, _trim, unchanged, settings=MANUAL, is_trimmed=True),
)
