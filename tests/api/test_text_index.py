"""Text indexes: under any history they find what the documents say, with the same scores, by every plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.engine.lists import postings
from wormdb.errors import AlreadyExistsError, InvalidRequestError, SchemaError
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

FIELDS = parse_fields(["title^3", "parts.text"], "english")
WORDS = ["run", "running", "shoe", "shoes", "red", "reddish", "blue", "the"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)
BODIES = st.fixed_dictionaries(
    {"title": TEXTS | st.none(), "parts": st.lists(st.fixed_dictionaries({"text": TEXTS}), max_size=2)}
)
IDS = st.sampled_from([0, 1, 2, 7, 8, "a", "b", 'c"', "\u00e9", "z"])
STEPS = st.one_of(
    st.tuples(st.just("save"), IDS, BODIES),
    st.tuples(st.just("save"), IDS, BODIES),
    st.tuples(st.just("many"), st.lists(st.tuples(IDS, BODIES), min_size=1, max_size=6)),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("forward")),
    st.tuples(st.just("look"), st.sampled_from(["red", "run shoe", "shoe -red"])),
    st.tuples(st.just("gc")),
)
SEARCHES = [
    *("red", "run shoe", "red OR blue", "shoe -red", "re*", "title:red", "title:re* OR parts.text:blue"),
    *('"running shoe"', 'blue OR "red shoe"', 'shoe -"red shoe"', "red -(blue OR title:run)"),
]


def truth(text: str, state: dict[Any, Any]) -> list[tuple[Any, float]]:
    documents = [{"_id": key, **body} for key, body in state.items()]
    return [(each["_id"], score) for score, each in rank_documents(SearchQuery(text).over(FIELDS), documents)]


def told(found: Any) -> list[tuple[Any, float]]:
    return [(row["id"], score) for row, score in found.scored()]


def take(things: Collection[Document], state: dict[Any, Any], step: Any) -> None:
    match step:
        case ("save", key, body):
            things.save({"id": key, **body})
            state[key] = body
        case ("many", rows):
            for key, body in dict(rows).items():
                things.save({"id": key, **body})
                state[key] = body
        case ("delete", key):
            things.delete(key)
            state.pop(key, None)
        case ("look", text) if len(things.indexes()) > 1:
            # What a process keeps of words must not be taken for that of a later state.
            assert told(things.find(search=text, select=["_id"], limit=2)) == truth(text, state)[:2]
        case ("gc",):
            things.gc()
        case ("forward",):
            things.forward()


@pytest.fixture(scope="module", autouse=True)
def _few_are_many() -> Iterator[None]:
    """Few entries are pruned as many are."""
    with mock.patch.object(postings, "BEST_KEPT", 2), mock.patch.object(postings, "_PUT_IN_ORDER", 3):
        yield


def check_ways(things: Collection[Document], text: str, expected: list[tuple[Any, float]]) -> None:
    """Every plan, every form of rows and every part of them agree with the truth."""
    found = things.find(search=text)
    assert told(found) == expected
    assert found.count() == len(expected)
    for limit in (1, 2, 5, None):
        ids = things.find(search=text, select=["_id"], limit=limit)
        assert told(ids) == expected[:limit]
        assert ids.to_list() == [{"id": key} for key, _ in expected[:limit]]
    assert told(found.skip(1).limit(2)) == expected[1:3]
    is_ready = things.indexes()[-1].state == "ready"
    low = [each for each in expected if isinstance(each[0], int) and each[0] < 5]
    for strategy in ("full_scan", "index_lookup") if is_ready else ("full_scan",):
        assert told(things.find(search=text, strategy=strategy)) == expected
        assert told(things.find({"_id": {"$lt": 5}}, search=text, strategy=strategy, limit=2)) == low[:2]


@settings(max_examples=settings().max_examples // 5)
@given(state=st.dictionaries(IDS, BODIES, min_size=3), data=st.data())
def test_what_one_run_has_is_pruned_and_kept_as_its_documents_say(state: dict[Any, Any], data: st.DataObject) -> None:
    with wormdb.connect(MemoryStore(), settings=wormdb.Settings(forward="manual")) as database:
        things: Collection[Document] = database["things"]
        things.insert_many([{"id": key, **body} for key, body in state.items()])
        things.forward()
        things.create_text_index(["title^3", "parts.text"], language="english")
        for text in data.draw(st.permutations(["red", "title:run", "run shoe", "red red blue", "shoe OR re*"]))[:3]:
            check_ways(things, text, truth(text, state))
        things.save({"id": "z", "title": "red running shoe"})
        check_ways(things, "red", truth("red", {**state, "z": {"title": "red running shoe"}}))


@settings(max_examples=settings().max_examples // 6)
@given(before=st.lists(STEPS, max_size=5), after=st.lists(STEPS, max_size=14), data=st.data())
def test_any_history_is_searched_as_its_documents(before: list[Any], after: list[Any], data: st.DataObject) -> None:
    store, manual = MemoryStore(), wormdb.Settings(forward="manual")
    with wormdb.connect(store, settings=manual) as one, wormdb.connect(store, settings=manual) as other:
        both: list[Collection[Document]] = [one["things"], other["things"]]
        state: dict[Any, Any] = {}
        for step in before:
            take(both[0], state, step)
        both[0].create_text_index(["title^3", "parts.text"], language="english", wait=data.draw(st.booleans()))
        for turn, step in enumerate(after):
            take(both[turn % 3 == 0], state, step)
        for text in data.draw(st.lists(st.sampled_from(SEARCHES), min_size=2, max_size=4, unique=True)):
            for things in both:
                check_ways(things, text, truth(text, state))
        both[1].forward()
        check_ways(both[0], "run shoe", truth("run shoe", state))
        assert [each for each in one.verify() if not each.is_sound] == []


@pytest.fixture
def shop() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore(), settings=wormdb.Settings(forward="manual")) as database:
        made: Collection[Document] = database["shop"]
        made.insert_many([{"id": n, "title": f"red shoe {n}" if n % 2 else f"blue shoe {n}"} for n in range(300)])
        made.create_text_index("title", language="english")
        yield made


def test_an_index_is_used_and_explain_says_so(shop: Collection[Document]) -> None:
    explained = shop.explain(search="red shoes 7", limit=5, analyze=True)
    assert explained.strategy == "index_lookup"
    assert explained.reason == "text index text has the words"
    assert "TextScan  text, 'red shoes 7' in title in english" in str(explained)
    assert [each.strategy for each in explained.rejected] == ["full_scan"]
    assert explained.rows == 1


def test_mongodb_spells_a_search_as_text(shop: Collection[Document]) -> None:
    found = shop.find(
        {"$text": {"$search": "red 7 -9"}, "_id": {"$lt": 12}},
        {"title": 1, "score": {"$meta": "textScore"}},
        sort=[("score", {"$meta": "textScore"})],  # type: ignore[list-item] # as in MongoDB
        limit=3,
    )
    rows = found.to_list()
    assert [row["id"] for row in rows] == [7, 1, 3]
    assert [row["score"] for row in rows] == [score for _, score in found.scored()]
    assert set(rows[0]) == {"id", "title", "score"}
    assert shop.count({"$text": {"$search": "red"}}) == 150
    assert shop.aggregate(
        count=True, max="_id", filter={"$and": [{"$text": {"$search": "red"}}, {"_id": {"$lt": 8}}]}
    ) == {
        "count": 4,
        "max": 7,
    }
    whole = shop.find_one({"$text": {"$search": "red 7"}}, {"score": {"$meta": "textScore"}})
    assert whole is not None
    assert set(whole) >= {"id", "title", "score"}
    assert shop.find({"$text": {"$search": "-red"}}).to_list() == []
    with pytest.raises(InvalidRequestError, match="of language english"):
        shop.find({"$text": {"$search": "red", "$language": "german"}}).to_list()


def test_an_index_is_made_once_described_and_dropped(shop: Collection[Document]) -> None:
    assert shop.create_text_index(["title"], language="english").state == "ready"
    with pytest.raises(AlreadyExistsError):
        shop.create_text_index(["title^2"], language="english")
    described = shop.describe_index("text")
    assert described.fields == ("title",)
    assert shop.create_text_index(["title^2"], name="heavy").state == "ready"
    with pytest.raises(InvalidRequestError, match="2 text indexes: heavy, text"):
        shop.find(search="red").to_list()
    assert shop.find(search={"query": "reds", "index": "text"}).count() == 150
    assert shop.find(search={"query": "reds", "index": "heavy"}).count() == 0
    shop.drop_index("heavy")
    assert shop.find(search="reds").count() == 150
    same = shop.explain(search={"query": "reds", "fields": ["title"], "language": "english"})
    assert same.strategy == "index_lookup"


def test_a_moment_is_searched_by_the_fields_of_the_index(shop: Collection[Document]) -> None:
    then = shop.refresh()
    shop.delete_many({"_id": {"$gte": 10}})
    shop.forward()
    assert shop.find(search="red").count() == 5
    assert shop.find(search="red", as_of=then).count() == 150
    assert shop.explain(search="red", as_of=then).strategy == "full_scan"


def model_with(index: dict[str, Any], **others: Any) -> dict[str, Any]:
    texts = {name: {"type": "string"} for name in ("title", "body")}
    fields = {**texts, "parts": {"type": "array", "items": {"type": "object"}}}
    model = {"path": "@things/(id:string)", "fields": fields, "indexes": {"words": index, **others}}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}}


def test_a_model_may_declare_it(tmp_path: Path) -> None:
    index = {"type": "text", "fields": ["title^3", "parts.text"], "language": "english", "stopWords": ["the"]}
    schema = model_with(index, byTitle={"field": "title"})
    with wormdb.connect(tmp_path, schema=schema) as database:
        made = database.model("Thing")
        made.insert({"id": "x", "title": "Running the shoes", "parts": [{"text": "red"}]})
        made.insert({"id": "y", "title": "Red"})
        made.forward()
        assert [row["id"] for row in made.find(search="red")] == ["y", "x"]
        with pytest.raises(InvalidRequestError, match="stop words are not indexed"):
            made.find(search="the").count()
        plan = str(made.explain(search="red run"))
        assert "TextScan" in plan
        described = made.describe_index("words")
        assert (described.type, described.declared, described.state) == ("text", True, "ready")
        assert described.options == {
            "fields": ["title^3", "parts.text"], "language": "english", "stop_words": ["the"]
        }  # fmt: skip
        same = made.create_text_index(["title^3", "parts.text"], language="english", stop_words=["the"], name="words")
        assert same.state == "ready"
    with wormdb.connect(tmp_path, schema=schema) as again:
        assert again.model("Thing").describe_index("words") == described


def test_a_model_without_it_drops_it_and_another_language_makes_it_anew(tmp_path: Path) -> None:
    index = {"type": "text", "field": "title", "language": "english"}
    with wormdb.connect(tmp_path, schema=model_with(index)) as database:
        database.model("Thing").insert({"id": "x", "title": "shoes"})
        database.model("Thing").forward()
    with wormdb.connect(tmp_path, schema=model_with({**index, "language": "none"})) as database:
        database.apply_schema()
        things = database.model("Thing")
        things.forward()
        assert things.find(search="shoe").count() == 0
        assert things.find(search="shoes").count() == 1
        assert things.describe_index("words").state == "ready"
    with wormdb.connect(tmp_path, schema=model_with({"field": "body"})) as database:
        database.apply_schema()
        assert database.model("Thing").describe_index("words").type == "standard"


@pytest.mark.parametrize(
    ("index", "path"),
    [
        ({"type": "text", "field": "title", "language": "klingon"}, "language"),
        ({"type": "text", "field": "title^0"}, "field"),
        ({"type": "text", "fields": ["title^x", "body"]}, "fields.0"),
        ({"type": "text", "fields": ["title", "title^2"]}, "fields.1"),
        ({"type": "text", "field": "titel"}, "field"),
        ({"type": "text", "field": "title", "unique": True}, "unique"),
        ({"type": "text", "field": "title", "bsonType": "string"}, "bsonType"),
        ({"type": "text", "field": "title", "dimensions": 3}, "dimensions"),
        ({"type": "text", "field": "title", "stopWords": True}, "stopWords"),
        ({"type": "text", "field": "title", "stopWords": [""]}, "stopWords"),
        ({"type": "text", "field": "title", "stopWords": "the"}, "stopWords"),
        ({"field": "title", "language": "english"}, "language"),
        ({"field": "title", "stopWords": ["the"]}, "stopWords"),
        ({"type": "text", "fields": ["title", *(f"parts.p{number}" for number in range(16))]}, "fields"),
    ],
)
def test_a_model_with_mistakes_of_it_is_refused(index: dict[str, Any], path: str) -> None:
    with pytest.raises(SchemaError) as raised:
        wormdb.connect(MemoryStore(), schema=model_with(index))
    assert [problem.path for problem in raised.value.problems] == [f"models.Thing.indexes.words.{path}"]


def test_a_list_index_may_be_over_the_fields_of_another_index_of_the_model() -> None:
    with wormdb.connect(MemoryStore(), schema=model_with({"field": "title"})) as database:
        things = database.model("Thing")
        things.insert({"id": "x", "title": "red"})
        assert things.create_text_index("title").state == "ready"
        assert things.create_vector_index("parts", dimensions=2).state == "ready"
        with pytest.raises(InvalidRequestError, match="titel"):
            things.create_text_index("titel", name="other")
