"""Jobs in real workers: the results of one process, and what is said when a part fails."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.cli.printed import worm
from tests.engine.lists.rig import shown_lists
from tests.jobs.rig import customers
from tests.jobs.toy_vectors import vector_of
from wormdb.engine.forward import rebuild_lists
from wormdb.engine.lists.read import read_lists
from wormdb.errors import CorruptionError
from wormdb.jobs import sources
from wormdb.jobs.aggregate import AggregateOptions
from wormdb.jobs.analyze import AnalyzeOptions
from wormdb.jobs.compact import CompactOptions
from wormdb.jobs.embed import EmbedOptions
from wormdb.jobs.export import ExportOptions
from wormdb.jobs.import_ import FileRecords
from wormdb.jobs.pipeline import local_pipeline
from wormdb.jobs.rebuild import RebuildOptions
from wormdb.spark.jobs import history, pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from wormdb.jobs.work import JobProgress


def test_spark_does_what_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    customers(url).close()
    steps: list[JobProgress] = []
    jobs, here = pipeline(spark, url, "Customer", told=steps.append), local_pipeline(url, "Customer")
    asked: dict[str, Any] = {"group_by": "status", "count": True, "sum": ["age", "balance"], "distinct": "age"}
    options = AggregateOptions(filter="age>10", tasks=3)
    assert jobs.aggregate(asked, options) == here.aggregate(asked, options)
    assert (steps[-1].done, steps[-1].items) == (3, 3)
    wanted = ExportOptions(partition_by=("status",), tasks=3)
    done = jobs.export(str(tmp_path / "spark"), wanted)
    assert done == here.export(str(tmp_path / "here"), wanted)
    assert spark.read.parquet(str(tmp_path / "spark")).filter("status is null").count() == sum(
        made.rows for made in done.files if "HIVE" in made.name
    )
    named = [next((tmp_path / place).glob("status=new/part-*")).read_bytes() for place in ("spark", "here")]
    assert named[0] == named[1]


def test_a_broken_block_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with customers(str(tmp_path / "db")) as db:
        block = db.model("Customer").parquet_files().files[0]
    path = tmp_path / "db" / block.key
    path.write_bytes(bytes(path.stat().st_size))
    jobs = pipeline(spark, str(tmp_path / "db"), "Customer")
    with pytest.raises(CorruptionError, match=rf"export stopped at part 1 of 3 of Customer: .*{block.key}"):
        jobs.export(str(tmp_path / "out"), ExportOptions("ndjson", tasks=3))


def test_the_command_takes_a_master(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    customers(url).close()
    asked = ["aggregate", "Customer", "--group-by", "status", "--max", "age", "--url", url]
    done = worm("table", *asked, "--master", spark.conf.get("spark.master") or "", "--tasks", "2")
    assert done.code == 0, done.errors
    assert done.data == worm("table", *asked).data


def test_history_is_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with customers(url, count=20) as db:
        told = db.model("Customer").get_history("c0001")
    frame = history(spark, url, "Customer", tasks=2)
    rows = frame.filter("id = '\"c0001\"'").select("seq", "log", "op", "changed").collect()
    assert [(row.seq, row.log, row.op) for row in rows] == [(entry.seq, entry.rev, entry.op) for entry in told]
    assert rows[-1].changed == ["age"]


def test_files_are_imported_and_checked_by_workers(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = str(tmp_path / "db")
    with customers(url, count=20) as db:
        (tmp_path / "in").mkdir()
        monkeypatch.setattr(sources, "PIECE_BYTES", 300)
        body = (
            "".join(f'{{"id": "n{number}", "age": {number}}}\n' for number in range(40)) + '{"id": "bad", "age": "x"}\n'
        )
        (tmp_path / "in" / "x.ndjson").write_text(body)
        jobs = pipeline(spark, url, "Customer")
        done = jobs.import_files(FileRecords((str(tmp_path / "in"),), job="load"))
        assert (done.read, done.inserted, [each.line for each in done.rejected]) == (41, 40, [41])
        assert jobs.import_files(FileRecords((str(tmp_path / "in"),), job="load")).is_repeated
        assert db.model("Customer").count({"id": {"$regex": "^n"}}) == 40
        db.model("Customer").forward()
        assert jobs.verify() == db.verify(["Customer"])[0]
        options = AnalyzeOptions(fields=("age",))
        assert jobs.analyze(options) == local_pipeline(url, "Customer").analyze(options)


def test_a_table_is_imported_and_its_bad_rows_are_set_aside(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = spark.range(0, 6, 1, 2).selectExpr("concat('k', id % 5) as key", "if(id = 3, null, id) as n")
    rows.createOrReplaceTempView("rows")
    asked = ["import", "--table", "rows", "--model", "Row", "--id", "key", "--url", "db"]
    done = worm(*asked, "--infer", "--master", spark.conf.get("spark.master") or "")
    assert done.text.startswith("rows: 6 records, 5 inserted, 1 rejected"), done.errors
    (line,) = (tmp_path / "Row.rejects.ndjson").read_text().splitlines()
    assert json.loads(line) == {
        "file": "part 2 of the frame",
        "line": 3,
        "reason": "the id 'k0' exists already: the record of line 1 of part 1 of the frame has it",
        "fix": "replace or ignore such records",
        "record": {"id": "k0", "n": 5},
    }
    missing = worm("import", "--table", "none", "--model", "Row", "--url", "db", "--engine", "spark")
    assert (missing.code, "table none" in missing.errors) == (1, True)
    with wormdb.connect("db") as db:
        assert {found.id: found.get("n") for found in db.model("Row").find_all()} == {
            "k0": 0,
            "k1": 1,
            "k2": 2,
            "k3": None,
            "k4": 4,
        }


def test_workers_compact_and_rebuild_what_one_process_would(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with customers(url) as db:
        db.model("Customer").forward()
        expected = list(db.model("Customer").find_all())
    jobs = pipeline(spark, url, "Customer")
    done = jobs.compact(CompactOptions(block_bytes=6_000, everything=True))
    assert (done.is_done, done.runs_after) == (True, 1)
    assert done.blocks_after > 3
    made = jobs.rebuild(RebuildOptions(block_bytes=6_000))
    assert (made.documents, [index.name for index in made.indexes]) == (len(expected), ["byAge"])
    with wormdb.connect(url) as db:
        assert list(db.model("Customer").find_all()) == expected
        found = db.model("Customer").find({"age": {"$gte": 100}}, strategy="index_lookup")
        assert {document["id"] for document in found} == {each["id"] for each in expected if each["age"] >= 100}
        assert jobs.verify() == db.verify(["Customer"])[0]


def stories(url: str) -> None:
    """Vectors and texts, most of them in blocks, some changed and some deleted since."""
    with wormdb.connect(url, settings=wormdb.Settings(forward="manual", block_bytes=24_000)) as db:
        things = db["things"]
        things.create_vector_index("v", dimensions=64, distance="euclidean")
        things.create_text_index(["title^2", "body"], language="english")
        things.insert_many([_story(number) for number in range(600)])
        things.forward()
        things.insert_many([_story(number) for number in range(600, 630)])
        for number in range(0, 600, 50):
            things.delete(f"s{number:04}")
            things.save({**_story(number + 1), "title": "Changed shoes", "v": wide(0.5, number, 1, 2)})


def wide(*numbers: float) -> list[float]:
    """A vector of 64 numbers: so that a few hundred have lists in several pages."""
    return [*numbers, *(0 for _ in range(64 - len(numbers)))]


def _story(number: int) -> dict[str, Any]:
    words = ("red", "blue", "running", "shoes", "leather", "trainers", "light")
    body = " ".join([*(words[(number * step) % 7] for step in range(1, 6)), f"a{number}", f"p{number * 7}"])
    return {
        "id": f"s{number:04}",
        "title": words[number % 7],
        "body": body,
        "v": wide(number % 9, number % 5, 1, number),
    }


def list_contents(url: str) -> dict[str, tuple[Any, Any]]:
    """Of each index of vectors or words what was learned, and every entry of every list."""
    with wormdb.connect(url) as db:
        ledger = db["things"]._ledger
        view = ledger.view()
        readers = {index.name: read_lists(view, index, ledger.trees.lists) for index in view.definition.indexes.lists}
        return {name: (found.trained(), shown_lists(found)) for name, found in readers.items() if found is not None}


def pages(url: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Of each index of vectors or words its objects, without the frames that have their names."""
    with wormdb.connect(url) as db:
        site = db._site("things/")
        root = site.register.read().root
        assert root is not None
        made = {}
        for one in root.indexes:
            assert one.lists is not None
            (run,) = one.lists.runs
            folder = site.paths.index(one.name)
            made[one.name] = [
                (part.first, site.store.get(folder + part.name).body[: part.directory])
                for part in (*run.parts, *run.ids)
            ]
        return made


def test_workers_rebuild_vectors_and_words_as_one_process_does_and_shuffle_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that the runs of each index are joined by several tasks, by ranges of lists.
    monkeypatch.setattr(rebuild_lists, "SPAN_BYTES", 2_500)
    monkeypatch.setattr(rebuild_lists, "PACKED_SPAN_BYTES", 2_500)
    there, here = str(tmp_path / "there"), str(tmp_path / "here")
    stories(there)
    shutil.copytree(there, here)
    store: Any = spark.sparkContext._jsc.sc().statusStore()
    before = store.executorSummary("driver").totalShuffleWrite()
    options = RebuildOptions(block_bytes=10_000)
    steps: list[JobProgress] = []
    done = pipeline(spark, there, collection="things", told=steps.append).rebuild(options)
    assert done.blocks >= 3
    assert max(step.items for step in steps if step.job == "join indexes") >= 5, "ranges of each, and ids"
    assert all(len(made) > 2 for made in pages(there).values())
    assert [(one.name, one.entries > 600) for one in done.indexes] == [("text", True), ("v", True)]
    assert store.executorSummary("driver").totalShuffleWrite() == before
    assert done == local_pipeline(here, collection="things").rebuild(options)
    assert pages(there) == pages(here)
    made = list_contents(there)
    assert made == list_contents(here)
    assert made["v"][0] is not None
    assert len(made["v"][1]) > 1
    with wormdb.connect(there) as db, wormdb.connect(here) as other:
        assert db.verify(["things"])[0].findings == ()
        for asked in ({"search": "run -shoe"}, {"near": {"v": {"vector": wide(1, 2, 1, 300), "k": 20}}}):
            found = [(row["id"], score) for row, score in db["things"].find(**asked).scored()]
            assert found == [(row["id"], score) for row, score in other["things"].find(**asked).scored()]
            assert len(found) >= 20


def test_workers_embed_each_document_once(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    with wormdb.connect(url) as db:
        things = db["things"]
        things.create_vector_index("v", dimensions=3, distance="euclidean")
        things.insert_many([{"id": number, "title": f"t{number}"} for number in range(50)])
        things.update_one({"_id": 7}, {"$set": {"v": [1.0, 2.0, 3.0]}})
        number = db["things"]._ledger.view().number
        steps: list[JobProgress] = []
        jobs = pipeline(spark, url, collection="things", told=steps.append)
        options = EmbedOptions(("title",), "v", batch_rows=10, folder=str(Path.cwd()))
        done = jobs.embed("tests.jobs.toy_vectors:of_texts", options)
        assert (done.embedded, done.batches, done.dimensions) == (49, 5, 3)
        assert db["things"]._ledger.view().number == number + 5
        assert (steps[-1].job, steps[-1].done) == ("embed", 4)
        assert jobs.embed("tests.jobs.toy_vectors:of_texts", options).embedded == 0
        found = things.find(near={"v": {"vector": vector_of("t33"), "k": 10, "exact": True}})
        assert [(row["id"], score) for row, score in found.scored()] == [(number, 1.0) for number in range(30, 40)]


def test_tables_take_an_engine(spark: SparkSession, tmp_path: Path) -> None:
    url = str(tmp_path / "db")
    customers(url, count=30).close()
    for asked in (
        ["aggregate", "Customer", "--group-by", "status", "--max", "age"],
        ["export", "Customer", "--format", "csv", "--filter", "age>5"],
        ["export", "Customer", "--select", "name,age"],
        ["export", "Customer", "--format", "json"],
    ):
        done = worm("table", *asked, "--url", url, "--engine", "spark")
        assert done.code == 0, done.errors
        assert done.data == worm("table", *asked, "--url", url, "--engine", "local").data
