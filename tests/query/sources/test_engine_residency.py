"""What a planner is told of what a process keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.engine.tree.entries import Range
from wormdb.format.key import encode_key
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb.query.sources.source import Residency

ROWS = 2_000
MODEL = {
    "path": "@things/(id:string)",
    "id": "given",
    "fields": {"group": {"type": "string"}},
    "indexes": {"byGroup": {"field": "group"}},
}
SPAN = Range.prefix(encode_key("g3"))
OTHER = Range.prefix(encode_key("g4"))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[wormdb.Database]:
    settings = wormdb.Settings(forward="manual")
    with wormdb.connect(str(tmp_path), schema={"models": {"Thing": MODEL}}, settings=settings) as first:
        things = first.model("Thing")
        things.insert_many([{"id": f"{number:05}", "group": f"g{number % 50}"} for number in range(ROWS)])
        things.forward()
    with wormdb.connect(str(tmp_path), settings=settings) as another:
        yield another


def kept(database: wormdb.Database) -> Residency:
    ledger = database["things"]._ledger
    return EngineSource(ledger.view(), ledger).facts.kept


def test_a_new_process_keeps_nothing(database: wormdb.Database) -> None:
    found = kept(database)
    assert (found.nodes("byGroup", [SPAN]), found.rows("byGroup", [SPAN]), found.all_rows()) == (0.0, 0.0, 0.0)
    assert (found.columns(["_id", "group"]), found.maps(), found.has_tail("byGroup")) == (0.0, 0.0, False)


def test_what_an_index_found_is_kept_and_nothing_else(database: wormdb.Database) -> None:
    before = kept(database).level
    rows = database["things"].find_all({"group": "g3"}, strategy="index_lookup")
    found = kept(database)
    assert (found.nodes("byGroup", [SPAN]), found.rows("byGroup", [SPAN]), found.maps()) == (1.0, 1.0, 1.0)
    assert found.rows("byGroup", [OTHER]) <= found.all_rows()
    assert found.keys([encode_key(row.id) for row in rows]) == 1.0
    assert found.all_rows() == pytest.approx(len(rows) / ROWS)
    assert found.columns(["_id", "group"]) == 0.0
    assert found.has_tail("byGroup")
    assert found.level != before
    level = found.level
    database["things"].find_all({"group": "g3"}, strategy="index_lookup")
    assert kept(database).level == level


def test_columns_are_kept_together(database: wormdb.Database) -> None:
    database["things"].find_all({"group": "g3"}, select=["group"], strategy="manifest_scan")
    found = kept(database)
    assert found.columns(["_id", "group"]) == 1.0
    assert found.columns(["_id", "group", "other"]) == 0.0


def test_a_choice_is_made_again_when_more_is_kept(database: wormdb.Database) -> None:
    things = database["things"]
    assert not things.explain({"group": "g3"}).cached
    assert things.explain({"group": "g4"}).cached
    things.find_all({"group": "g3"}, strategy="index_lookup")
    explained = things.explain({"group": "g3"})
    assert not explained.cached
    assert explained.strategy == "index_lookup"
    assert ", kept" in str(explained)
