"""worm table files --sql duckdb: the real DuckDB sees the documents that we see."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import worm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Thing": {
            "path": "@things/(id:string)",
            "id": "given",
            "fields": {"n": {"type": "any"}, "_run": {"type": "integer"}, "part": {"type": "number"}},
        }
    },
}
SETTINGS = wormdb.Settings(forward="manual", stage_bytes=2_000, forward_interval_ms=0)


def seen(url: str, name: str) -> tuple[list[str], list[Any]]:
    """The columns of the view, and the documents in it, in order of id."""
    printed = worm("table", "files", name, "--sql", "duckdb", "--url", url)
    assert printed.code == 0
    with duckdb.connect() as connection:
        connection.execute(printed.text)
        found = connection.execute(f'SELECT * FROM "{name}"')
        columns = [column[0] for column in found.description or ()]
        rows = found.fetchall()
    documents = [json.loads(row[columns.index("_doc")]) for row in rows]
    return columns, sorted(documents, key=lambda document: str(document["_id"]))


def known(documents: Any) -> list[Any]:
    shown = [{("_id" if name == "id" else name): value for name, value in each.items()} for each in documents]
    return sorted(shown, key=lambda document: str(document["_id"]))


@given(st.data())
@settings(max_examples=5)
def test_the_view_has_the_newest_of_each(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Over several runs, with deletes, ids of several types, and blocks that a job attached."""
    url = str(tmp_path_factory.mktemp("duckdb"))
    values = st.sampled_from([1, 2.5, "text", None, [1], {"x": 1}, 10**17])
    identities = st.sampled_from(["a", "b", "c", "d", 1, 2, 7.5])
    steps = st.lists(st.tuples(identities, st.just("gone") | values), min_size=1, max_size=6)
    with wormdb.connect(url, settings=SETTINGS) as database:
        things = database["things"]
        for runs in range(data.draw(st.integers(1, 3))):
            things.insert({"id": f"kept {runs}"})
            for identity, value in data.draw(steps):
                if value == "gone":
                    things.delete(identity)
                else:
                    things.save({"id": identity, "n": value})
            if data.draw(st.booleans()):
                things.insert_many([{"id": f"job {runs} {n}", "pad": "x" * 99} for n in range(30)])
            things.forward()
        documents = known(things)
    assert seen(url, "things")[1] == documents


def test_columns_of_a_model_and_what_they_cannot_hold(tmp_path: Path) -> None:
    url = str(tmp_path)
    with wormdb.connect(url, schema=SCHEMA, apply=True, settings=SETTINGS) as database:
        things = database.model("Thing")
        things.insert_many([{"id": f"{n}", "n": n, "_run": 5, "part": n / 2} for n in range(5)])
        things.forward()
        things.save({"id": "3", "n": "three", "part": 1.5})
        things.insert_many([{"id": "x", "n": 1}, {"id": "y", "n": "text"}, {"id": "z", "n": "text"}])
        things.delete("4")
        things.forward()
        things.insert({"id": "later"})
    columns, documents = seen(url, "Thing")
    assert columns == ["_id", "_rev", "_seq", "_run", "n", "part", "createdAt", "updatedAt", "_doc"]
    assert [document["_id"] for document in documents] == ["0", "1", "2", "3", "x", "y", "z"]
    text = worm("table", "files", "Thing", "--sql", "duckdb", "--url", url).lines
    assert text[0] == "-- Thing through log number 5"
    assert text[1] == "-- 1 newer log entry is not in these files: worm table rebuild Thing"
    assert text[2] == "-- as JSON, because files have different types: n"


def test_a_collection_without_a_model_is_a_table(tmp_path: Path) -> None:
    """Columns of several types, that only some files have, or whose names differ in case, across runs and within."""
    url, odd = str(tmp_path), "a/~'x"
    kinds: list[Callable[[int], dict[str, Any]]] = [
        lambda n: {"n": n, "at": {"x": n}, "u": n, "Case": 1, odd: n, "all": n},
        lambda n: {"n": n + 0.5, "at": {"x": n}, "u": [n], "case": "x", odd: "x", "all": n},
        lambda n: {"n": n, "at": "text", "u": "z", "all": n},
    ]
    with wormdb.connect(url, settings=SETTINGS) as database:
        things = database["things"]
        for place, make in enumerate(kinds):
            things.insert_many([{"id": f"{place}{n:02}", **make(n)} for n in range(20)])
            things.forward()
        expected = known(things)
    columns, documents = seen(url, "things")
    assert documents == expected
    assert set(columns) == {"_id", "_rev", "_seq", "_doc", "n", "at.x", "at", "u", "case", odd, "all"}
    printed = worm("table", "files", "things", "--sql", "duckdb", "--url", url)
    with duckdb.connect() as connection:
        connection.execute(printed.text)
        rows = connection.execute('SELECT "all", n, "at.x", u, "case" FROM things ORDER BY _id').fetchall()
    assert [rows[place] for place in (7, 27, 47)] == [
        (7, 7.0, 7, "7", "1"),
        (7, 7.5, 7, "[7]", '"x"'),
        (7, 7.0, None, '"z"', None),
    ]
    assert "-- null for rows of files without such a column, see _doc: at, at.x" in printed.lines


def test_one_run_needs_no_comparison(tmp_path: Path) -> None:
    url = str(tmp_path)
    with wormdb.connect(url, settings=SETTINGS) as database:
        database["it's"].insert_many([{"id": 1}, {"id": 2}])
        database["it's"].forward()
    printed = worm("table", "files", "it's", "--sql", "duckdb", "--url", url)
    assert "QUALIFY" not in printed.text
    assert seen(url, "it's")[1] == [{"_id": 1}, {"_id": 2}]
