"""Blocks that a list of pages names are written again like those in the root."""

from __future__ import annotations

from typing import Any

import wormdb

ROWS = 600


def schema(fields: dict[str, Any]) -> dict[str, Any]:
    return {"models": {"Thing": {"path": "@things/(id:string)", "files": False, "fields": fields}}}


def test_blocks_of_a_paged_list_are_written_again() -> None:
    url, settings = "memory://versions-pages", wormdb.Settings(block_bytes=500, forward_interval_ms=0)
    with wormdb.connect(url, schema=schema({"a": {"type": "integer"}}), apply=True, settings=settings) as db:
        db.model("Thing").insert_many({"id": f"t{number:05}", "a": number} for number in range(ROWS))
        db.forward()
        assert db._ledgers.site("things/").register.read().root.block_pages  # type: ignore[union-attr] # it was forwarded
    with wormdb.connect(url, schema=schema({"b": {"type": "integer"}}), settings=settings) as db:
        db.apply_schema(mappings={"Thing": {"$rename": {"a": "b"}}})
        things = db.model("Thing")
        assert things.count({"b": {"$gte": 0}}) == ROWS
        while db.status(["Thing"])[0].older_blocks:
            db.forward()
        assert things.count({"b": {"$gte": 0}}) == ROWS
        assert [found["b"] for found in things.find({"b": {"$lt": 3}}, sort="b")] == [0, 1, 2]
        (verified,) = db.verify(["Thing"])
        assert verified.is_sound
