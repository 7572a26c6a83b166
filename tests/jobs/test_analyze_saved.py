"""What an analysis found is kept for plans of queries, and only if it is asked for and true of the newest state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wormdb
from tests.jobs.rig import customers, empty_place, pipeline
from wormdb.format.field_statistics import decode_field_statistics
from wormdb.jobs.analyze import AnalyzeOptions
from wormdb.query.sources.engine import EngineSource

if TYPE_CHECKING:
    from wormdb.format.field_statistics import FieldStatistics
    from wormdb.query.sources.source import Facts


def kept(db: wormdb.Database, name: str = "Customer") -> dict[str, FieldStatistics]:
    """What the root has, as a process sees it that knows nothing."""
    ledger = db.model(name)._access.ledger
    ledger.forget()
    place = ledger.view().place
    return {} if place is None else {one.path: one for one in decode_field_statistics(place.root.statistics)}


def facts(db: wormdb.Database) -> Facts:
    ledger = db.model("Customer")._access.ledger
    ledger.forget()
    return EngineSource(ledger.view(), ledger).facts


def test_the_root_keeps_it_and_queries_are_planned_with_it() -> None:
    with customers() as db:
        found = pipeline(db, "Customer").analyze(AnalyzeOptions(filter={}))
        assert found.is_saved
        fields = kept(db)
        assert sorted(fields) == sorted(["_id", *(field.name for field in found.fields if field.name != "id")])
        status = fields["status"]
        assert (status.number, status.rows, status.distinct) == (found.number, found.documents, 2)
        assert sum(each.count for each in status.top) + status.nulls + status.missing == status.rows
        assert status.misc
        assert sorted(facts(db).fields) == sorted(fields)
        answer = sorted(one["id"] for one in db.model("Customer").find_all({"status": "active", "age": {"$gt": 50}}))
        again = pipeline(db, "Customer").analyze(AnalyzeOptions(save=False))
        assert answer == sorted(
            one["id"] for one in db.model("Customer").find_all() if one["status"] == "active" and one["age"] > 50
        )
        assert again.fields == found.fields


def test_it_is_not_used_when_half_of_the_documents_changed() -> None:
    with customers(count=40) as db:
        model = db.model("Customer")
        pipeline(db, "Customer").analyze()
        for changed, number in enumerate(range(130, 130 + model.count()), 1):
            model.save({"id": f"c{number:04}", "status": "new"})
            if changed == 10:
                assert facts(db).fields
        assert not facts(db).fields
        model.forward()
        assert not facts(db).fields
        assert kept(db)
        pipeline(db, "Customer").analyze(AnalyzeOptions(fields=("status",)))
        assert list(facts(db).fields) == ["status"]
        assert "age" in kept(db), "what was not looked at again stays as it was"
        pipeline(db, "Customer").analyze()
        assert "age" in facts(db).fields


def test_what_is_not_of_the_newest_state_is_not_kept() -> None:
    with customers(count=20) as db:
        jobs = pipeline(db, "Customer")
        before = db.model("Customer")._access.ledger.view().place
        for options in (
            AnalyzeOptions(save=False),
            AnalyzeOptions(filter={"status": "new"}),
            AnalyzeOptions(as_of="1"),
        ):
            assert not jobs.analyze(options).is_saved
        assert kept(db) == {}
        after = db.model("Customer")._access.ledger.view().place
        assert before is not None
        assert after is not None
        assert after.root == before.root


def test_without_a_root_there_is_nothing_to_keep_it_in() -> None:
    with wormdb.connect(empty_place(), settings=wormdb.Settings(forward="manual")) as db:
        db["logs"].insert({"id": "a", "n": 1})
        jobs = pipeline(db, collection="logs")
        assert not jobs.analyze().is_saved
        db["logs"].forward()
        assert jobs.analyze().is_saved


def test_a_mapping_makes_it_useless() -> None:
    """It changes documents without changing their revisions."""
    url, settings = empty_place(), wormdb.Settings(forward="manual")
    with wormdb.connect(url, schema=_schema(1), apply=True, settings=settings) as db:
        db.model("Customer").insert_many([{"id": f"{number}", "n": number} for number in range(20)])
        db.model("Customer").forward()
        assert pipeline(db, "Customer").analyze().is_saved
        assert facts(db).fields
    with wormdb.connect(url, schema=_schema(2), settings=settings) as db:
        db.apply_schema(mappings={"Customer": {"$inc": {"n": 100}}})
        assert not facts(db).fields
        db.model("Customer").forward()
        assert not facts(db).fields
        assert db.model("Customer").count({"n": {"$gte": 100}}) == 20


def _schema(version: int) -> dict[str, Any]:
    model = {"path": "@customers/(id:string)", "version": version, "fields": {"n": {"type": "integer"}}}
    return {"schemaVersion": "1.0", "models": {"Customer": model}}
