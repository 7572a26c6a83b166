"""Records that stand against documents or against each other are set aside one by one: the first has what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import empty_place, pipeline
from wormdb.errors import ConflictError
from wormdb.format import json
from wormdb.jobs import sources
from wormdb.jobs.import_ import FilePieces, FileRecords
from wormdb.jobs.target import store_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from wormdb import Database
    from wormdb.api.imports.load import LoadRules
    from wormdb.api.imports.run import Loads

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "models": {
        "Person": {
            "path": "@people/(id:string)",
            "fields": {"email": {"type": "string"}, "n": {"type": "integer"}},
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        }
    },
}


def people() -> Database:
    settings = wormdb.Settings(forward="manual")
    return wormdb.connect(empty_place(), schema=SCHEMA, apply=True, settings=settings)


@pytest.fixture
def db() -> Iterator[Database]:
    with people() as found:
        yield found


KEYS = st.sampled_from("abcdef")
RECORDS = st.lists(st.tuples(KEYS, KEYS | st.none()), max_size=12)


@settings(max_examples=20)
@given(before=RECORDS, after=RECORDS, step=st.sampled_from([20, 45, 1_000]), rule=st.sampled_from(["error", "ignore"]))
def test_what_is_set_aside_is_what_one_by_one_would_be(
    before: list[tuple[str, str | None]], after: list[tuple[str, str | None]], step: int, rule: Any
) -> None:
    with people() as db:
        model = db.model("Person")
        ids: dict[str, int] = {}
        emails: set[str] = set()

        def fits(identity: str, email: str | None) -> bool:
            if identity in ids or (email is not None and email in emails):
                return False
            ids[identity] = len(ids)
            emails.update([email] if email is not None else [])
            return True

        model.insert_many([{"id": i, "email": e, "n": -1} for i, e in before if fits(i, e)])
        model.forward()
        rejected, ignored = [], 0
        for line, (identity, email) in enumerate(after, 1):
            is_known = identity in ids
            if fits(identity, email):
                continue
            if is_known and rule == "ignore":
                ignored += 1
            else:
                rejected.append(line)
        body = b"".join(json.encode({"id": i, "email": e, "n": n}) + b"\n" for n, (i, e) in enumerate(after)) or b"\n"
        source = empty_place()
        store_at(source).put("x.ndjson", body)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sources, "PIECE_BYTES", step)
            done = pipeline(db, "Person").import_files(FileRecords((f"{source}/x.ndjson",), on_conflict=rule))
        assert [record.line for record in done.rejected] == rejected
        assert (done.read, done.unchanged) == (len(after), ignored)
        assert {found.id for found in model.find_all()} == set(ids)
        assert done.inserted == len(after) - ignored - len(rejected)


def test_reasons_and_rows_of_parquet_are_told(db: Database, tmp_path: Path) -> None:
    db.model("Person").insert({"id": "a", "email": "a@x"})
    table = pa.table({"key": ["b", "a", "c", "b"], "email": ["b@x", "d@x", "a@x", "e@x"], "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "x.parquet")
    done = pipeline(db, "Person").import_files(FileRecords((str(tmp_path),), id_field="key"))
    assert done.inserted == 1
    assert [(each.line, each.reason) for each in done.rejected] == [
        (2, "the id 'a' exists already"),
        (3, "Unique constraint violation: email='a@x' already exists on entity 'a'"),
        (4, "the id 'b' exists already: the record of line 1 has it"),
    ]
    assert json.parse(done.rejected[0].to_line().decode())["record"] == {"id": "a", "email": "d@x", "n": 2}


def test_a_value_that_an_index_cannot_take_is_set_aside(db: Database, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(f"id,email\na,{'x' * 5_000}\nb,b@x\n")
    done = pipeline(db, "Person").import_files(FileRecords((str(tmp_path),)))
    assert (done.inserted, [each.line for each in done.rejected]) == (1, [2])


def test_a_unique_value_is_not_taken_by_replacing(db: Database, tmp_path: Path) -> None:
    db.model("Person").insert({"id": "a", "email": "a@x"})
    (tmp_path / "x.csv").write_text("id,email\nb,a@x\nc,c@x\n")
    done = pipeline(db, "Person").import_files(FileRecords((str(tmp_path),), on_conflict="replace"))
    assert (done.inserted, [each.line for each in done.rejected]) == (1, [2])
    assert done.rejected[0].reason == "Unique constraint violation: email='a@x' already exists on entity 'a'"


def rival(patch: pytest.MonkeyPatch, write: Any) -> None:
    """Call `write` behind each reading of the files."""
    real = FilePieces.load

    def load(own: Any, rules: LoadRules, losers: Any) -> Loads:
        found = real(own, rules, losers)
        write()
        return found

    patch.setattr(FilePieces, "load", load)


def test_who_writes_the_same_id_meanwhile_comes_first(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.csv").write_text("id,n\na,1\nb,1\n")
    people = db.model("Person")
    rival(monkeypatch, lambda: people.save({"id": "a", "n": 9}))
    done = pipeline(db, "Person").import_files(FileRecords((str(tmp_path),)))
    assert (done.inserted, [each.reason for each in done.rejected]) == (1, ["the id 'a' exists already"])
    assert {found.id: found["n"] for found in people.find_all()} == {"a": 9, "b": 1}


def test_who_always_writes_meanwhile_ends_it(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("id,n\n" + "".join(f"k{n},1\n" for n in range(20)))
    names = iter(range(20))
    rival(monkeypatch, lambda: db.model("Person").save({"id": f"k{next(names)}", "n": 9}))
    with pytest.raises(ConflictError, match="5 times in a row"):
        pipeline(db, "Person").import_files(FileRecords((str(tmp_path),)))
    assert db.model("Person").count() == 5
