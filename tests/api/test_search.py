"""Text search, as callers ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import parse_written_search
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

COLOURS = ("red", "blue", "green", "crimson red")
THINGS = ("shoes", "running shoe", "boots", "leather shoe", "adidas trainers")
ROWS: dict[str, Any] = {
    f"p{number:02}": {
        "title": f"{COLOURS[number % 4]} {THINGS[number % 5]}",
        "body": {"text": [f"Ran {number} miles", "A shoe for running " * (number % 3)]},
        "price": number,
    }
    for number in range(40)
}
FIELDS: dict[str, Any] = {"fields": ["title^3", "body.text"], "language": "english"}


@pytest.fixture
def products() -> Iterator[Collection[Document]]:
    with wormdb.connect(MemoryStore(), settings=wormdb.Settings(forward="manual")) as database:
        made = database["products"]
        names = list(ROWS)
        made.insert_many([{"id": name, **ROWS[name]} for name in names[:30]])
        made.insert({"id": "gone", "title": "red red shoes"})
        made.forward()
        made.insert_many([{"id": name, **ROWS[name]} for name in names[30:]])
        made.delete("gone")
        yield made


def asked(text: str) -> dict[str, Any]:
    return {"query": text, **FIELDS}


def truth(text: str, rows: dict[str, Any] = ROWS) -> list[tuple[str, float]]:
    query = parse_written_search(asked(text))
    assert query.fields is not None
    found = rank_documents(query.over(query.fields), [{"_id": key, **row} for key, row in rows.items()])
    return [(document["_id"], score) for score, document in found]


def told(found: Any) -> list[tuple[str, float]]:
    return [(row["id"], score) for row, score in found.scored()]


@pytest.mark.parametrize(
    "text", ["red shoes", "shoe -leather", '"running shoe"', "adi* OR boot", "title:(red OR blue) run", "nothing"]
)
def test_blocks_and_tail_are_searched_as_one_state(products: Collection[Document], text: str) -> None:
    found = products.find(search=asked(text))
    assert told(found) == truth(text)
    assert [row.id for row in found] == [key for key, _ in truth(text)]
    assert found.count() == len(truth(text))


def test_a_filter_narrows_rows_and_leaves_scores_as_they_are(products: Collection[Document]) -> None:
    cheap = [(key, score) for key, score in truth("red shoes") if ROWS[key]["price"] < 20]
    found = products.find({"price": {"$lt": 20}}, search=asked("red shoes"))
    assert told(found) == cheap
    assert told(found.skip(1).limit(2)) == cheap[1:3]
    assert found.first() == products.find_by_id(cheap[0][0])
    assert products.find({"price": {"$lt": 20}, "$and": [{"price": {"$gt": 30}}]}, search=asked("red")).to_list() == []


def test_a_sort_is_kept_and_rows_still_have_scores(products: Collection[Document]) -> None:
    by_price = sorted(truth("red shoes"), key=lambda each: -ROWS[each[0]]["price"])
    assert told(products.find(search=asked("red shoes"), sort="-price")) == by_price
    assert told(products.query().search("red shoes", **FIELDS).sort("-price").limit(3).find()) == by_price[:3]


def test_a_moment_is_searched_as_it_was(products: Collection[Document]) -> None:
    then = products.refresh()
    products.delete_many({"price": {"$lt": 10}})
    later = {key: row for key, row in ROWS.items() if row["price"] >= 10}
    assert told(products.find(search=asked("red shoes"))) == truth("red shoes", later)
    assert told(products.find(search=asked("red shoes"), as_of=then)) == truth("red shoes")
    products.forward()
    assert told(products.find(search=asked("red shoes"))) == truth("red shoes", later)
    assert told(products.find(search=asked("red shoes"), as_of=then)) == truth("red shoes")


def test_parts_raw_rows_and_tables_have_scores(products: Collection[Document]) -> None:
    expected = truth("red shoes")
    found = products.find(select=["price"], search=asked("red shoes"))
    assert told(found) == expected
    assert all(set(row) == {"id", "price"} for row in found)
    table = found.to_arrow()
    assert table.column_names == ["id", "price", "_score"]
    assert list(zip(table["id"].to_pylist(), table["_score"].to_pylist(), strict=True)) == expected
    raw = products.find(search=asked("red shoes"), raw=True)
    assert [row[:12] for row in raw] == [f'{{"id":"{key}",'.encode() for key, _ in expected]


def test_words_are_highlighted_also_in_fields_that_are_not_selected(products: Collection[Document]) -> None:
    chosen: list[dict[str, Any]] = [{}, {"select": ["price"]}, {"raw": True}]
    for options in chosen:
        found = products.find({"_id": "p00"}, search=asked("red run"), **options)
        assert found.to_list() == []
        found = products.find(
            {"_id": "p20"}, search=asked('red "running for"* -nothing') | {"query": "red run"}, **options
        )
        ((_, marks),) = found.highlights()
        assert [(each.field, each.marked()) for each in marks] == [
            ("title", "<em>red</em> shoes"),
            ("body.text", "A shoe for <em>running</em> A shoe for <em>running</em> "),
        ]


def test_mongodb_spells_it_as_text(products: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="there is no text index"):
        products.find({"$text": {"$search": "red"}}).to_list()
    with pytest.raises(InvalidRequestError, match="at the top"):
        products.find({"$or": [{"$text": {"$search": "red"}}, {"price": 3}]})
    with pytest.raises(InvalidRequestError, match="at the top"):
        products.delete_many({"$text": {"$search": "red"}})
    with pytest.raises(InvalidRequestError, match="one text search"):
        products.find({"$and": [{"$text": {"$search": "red"}}, {"$text": {"$search": "red"}}]})
    with pytest.raises(InvalidRequestError, match="search and \\$text"):
        products.find({"$text": {"$search": "red"}}, search="red")
    with pytest.raises(InvalidRequestError, match="capitals and accents"):
        products.find({"$text": {"$search": "red", "$caseSensitive": True}})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"search": "red"}, "there is no text index"),
        ({"search": {"query": "red", "index": "words"}}, "there is no text index 'words'"),
        ({"search": 3}, "it must be text"),
        ({"search": {"query": "red", "felds": ["a"]}}, "no such option"),
        ({"search": {"query": "red", "language": "english"}}, "belong to fields"),
        ({"search": asked('"red')}, "a quote is not closed"),
        ({"search": asked("-red")}, "leave out"),
        ({"search": asked("red"), "page": "x"}, "page"),
        ({"search": asked("red"), "strategy": "index_lookup"}, "every document is read"),
        ({"search": {"query": "red", "fields": ["a"], "index": "b"}}, "no fields"),
    ],
)
def test_a_search_that_cannot_be_is_refused(products: Collection[Document], options: Any, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        products.find(**options).to_list()
    assert reason in str(caught.value)


def test_what_only_ranked_rows_have_is_refused_of_others(products: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="ranked"):
        products.find().scored()
    with pytest.raises(InvalidRequestError, match="words to mark"):
        products.find().highlights()
    with pytest.raises(LimitExceededError, match="max_scanned"):
        products.find(search=asked("red"), max_scanned=10).to_list()
    assert products.find(search=asked("red"), limit=2).next_page is None


def test_explain_says_what_is_read(products: Collection[Document]) -> None:
    explained = products.explain({"price": 3}, search=asked("red shoes"), limit=5, analyze=True)
    assert explained.strategy == "full_scan"
    assert explained.reason == "every document is read and scored"
    assert explained.plan.name == "Part"
    assert "'red shoes' in title^3, body.text in english" in str(explained)
    assert explained.rows == len([key for key, _ in truth("red shoes") if ROWS[key]["price"] == 3])


def test_sums_and_counts_are_of_what_is_found(products: Collection[Document]) -> None:
    found = [ROWS[key]["price"] for key, _ in truth("red shoes")]
    query = products.query().search("red shoes", **FIELDS)
    assert query.count() == len(found)
    assert query.aggregate(sum="price", count=True) == {"count": len(found), "sum": sum(found)}
    assert query.lt("price", 9).distinct("price") == sorted(price for price in found if price < 9)


def test_a_transaction_that_searched_depends_on_every_document() -> None:
    with wormdb.connect(MemoryStore()) as database:
        notes = database["notes"]
        notes.insert({"id": "a", "text": "red"})
        transaction = database.transaction()
        inside = transaction["notes"]
        assert len(inside.find(search={"query": "red", "fields": ["text"]}).to_list()) == 1
        notes.insert({"id": "b", "text": "blue"})
        inside.insert({"id": "c"})
        with pytest.raises(wormdb.ConflictError):
            transaction.commit()
