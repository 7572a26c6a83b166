"""The table of changes is what `get_history` tells of each document."""

from __future__ import annotations

import io
from typing import Any

import pyarrow.parquet as pq
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.jobs.rig import customers, empty_place, pipeline
from tests.spark.things import database, follow, steps
from wormdb.format import json
from wormdb.jobs.target import store_at


@settings(max_examples=12, phases=[Phase.generate])
@given(taken=steps, tasks=st.integers(1, 5))
def test_every_change_of_every_document_is_a_row(taken: list[tuple[str, Any]], tasks: int) -> None:
    with database() as db:
        follow(db, taken)
        place = empty_place()
        done = pipeline(db, collection="things").export_history(place, form="ndjson", tasks=tasks)
        rows = [
            json.parse(line)
            for made in done.files
            for line in store_at(place).get(made.name).body.decode().splitlines()
        ]
        ids = dict.fromkeys(change.id for change in db["things"].watch())
        found = {identity: [row for row in rows if json.parse(row["id"]) == identity] for identity in ids}
        assert sum(map(len, found.values())) == len(rows) == done.rows
        for identity, mine in found.items():
            told = db["things"].get_history(identity)
            assert [(row["seq"], row["log"], row["op"], row["time"]) for row in mine] == [
                (entry.seq, entry.rev, entry.op, entry.ts) for entry in told
            ]
            assert [row["changed"] for row in mine] == [
                None if entry.diff is None else sorted(entry.diff) for entry in told
            ]


def test_who_did_it_is_told_in_parquet() -> None:
    with customers(count=20) as db:
        db.as_actor("ada").model("Customer").delete("c0002")
        place = empty_place()
        done = pipeline(db, "Customer").export_history(place, tasks=1)
        (made,) = done.files
        table = pq.read_table(io.BytesIO(store_at(place).get(made.name).body))
        last = next(row for row in table.to_pylist() if row["id"] == '"c0002"' and row["op"] == "delete")
        assert (last["actor"], last["after"]) == ("ada", None)
        assert json.parse(last["before"])["name"] == 'name, "2"'
