"""What is written is what is read; what cannot be written is said; what is run again is written once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

import wormdb
from tests.spark.read.rig import read
from tests.spark.sink_rig import Frame
from tests.spark.things import DAY, database, plain
from wormdb.engine.load import JobSpec, abort, open_job
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UniqueViolationError,
)
from wormdb.spark.write import WriteResult, _written, error_in

if TYPE_CHECKING:
    from wormdb import Collection, Database, Document

INNER = spark.StructType([spark.StructField("x", spark.LongType()), spark.StructField("y", spark.StringType())])
KINDS: dict[str, tuple[spark.DataType, st.SearchStrategy[Any]]] = {
    "text": (spark.StringType(), st.text(max_size=5)),
    "long": (spark.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "int": (spark.IntegerType(), st.integers(-9, 9)),
    "double": (spark.DoubleType(), st.floats(allow_nan=False) | st.just(float("nan"))),
    "float": (spark.FloatType(), st.floats(width=32, allow_nan=False)),
    "bool": (spark.BooleanType(), st.booleans()),
    "date": (spark.TimestampType(), st.integers(-(10**12), 10**12).map(lambda ms: DAY + timedelta(milliseconds=ms))),
    "binary": (spark.BinaryType(), st.binary(max_size=4)),
    "decimal": (spark.DecimalType(12, 3), st.decimals(-999, 999, places=3)),
    "longs": (spark.ArrayType(spark.LongType()), st.lists(st.none() | st.integers(-3, 3), max_size=3)),
    "inner": (INNER, st.fixed_dictionaries({"x": st.none() | st.integers(0, 3), "y": st.none() | st.text(max_size=2)})),
    "list": (spark.ArrayType(INNER), st.lists(st.just({"x": 1, "y": None}), max_size=2)),
    "map": (
        spark.MapType(spark.StringType(), spark.LongType()),
        st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3)).map(lambda d: list(d.items())),
    ),
}


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    names = draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True, max_size=5))
    schema = spark.StructType([spark.StructField("id", spark.StringType())])
    for name in names:
        schema.add(name, KINDS[name][0])
    ids = draw(st.lists(st.integers(0, 99).map(lambda n: f"k{n:02}"), unique=True, max_size=12))
    rows = [{"id": i, **{name: draw(st.none() | KINDS[name][1]) for name in names}} for i in ids]
    cut = draw(st.integers(0, len(rows)))
    return Frame(schema, [rows[:cut], rows[cut:]])


@settings(max_examples=15)
@given(frame=frames())
def test_what_is_written_is_what_is_read(frame: Frame) -> None:
    with database() as db, pytest.MonkeyPatch.context() as patch:
        frame.write(patch, {"url": db.url, "collection": "things"})
        if not any(frame.tasks):
            return
        found = read(frame.schema, url=db.url, collection="things")
        expected = [row for rows in frame.tasks for row in rows]
        assert sorted((plain(row) for row in found), key=lambda row: row["id"]) == sorted(
            (plain(row) for row in expected), key=lambda row: row["id"]
        )


IDS = spark.StructType([spark.StructField("id", spark.StringType()), spark.StructField("n", spark.LongType())])


def rows(*ids: str, n: int = 1) -> list[dict[str, Any]]:
    return [{"id": identity, "n": n} for identity in ids]


def state(db: Database, name: str = "things") -> dict[Any, Any]:
    return {document["id"]: document.get("n") for document in db[name].find_all()}


def found_in(things: Collection[Document], identity: str) -> Document:
    document = things.find_by_id(identity)
    assert document is not None
    return document


def test_modes_and_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        where = {"url": db.url, "collection": "things"}
        Frame(IDS, [rows("a", "c"), rows("b")]).write(monkeypatch, where)
        Frame(IDS, [rows("a", "d", n=2)]).write(monkeypatch, where, "ignore")
        assert state(db) == {"a": 1, "b": 1, "c": 1, "d": 2}
        Frame(IDS, [rows("a", n=3)]).write(monkeypatch, where, "replace")
        assert state(db) == {"a": 3, "b": 1, "c": 1, "d": 2}
        with pytest.raises(AlreadyExistsError, match="document 'b'"):
            Frame(IDS, [rows("b")]).write(monkeypatch, where)
        Frame(IDS, [rows("b", n=4), rows("x", n=4)]).write(monkeypatch, where, overwrite=True)
        assert state(db) == {"b": 4, "x": 4}
        told = sorted((entry.seq, entry.op) for entry in db["things"].get_history("b"))
        assert told == [(1, "create"), (2, "update")]


def test_a_job_that_is_run_again_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        where = {"url": db.url, "collection": "things", "job": "nightly"}
        frame = Frame(IDS, [rows("a"), rows("b")])
        lost = frame.writer(where)
        reports: list[Any] = list(frame.run(lost, monkeypatch))
        lost.abort(reports)
        frame.write(monkeypatch, where)
        number = found_in(db["things"], "a").rev
        frame.write(monkeypatch, where)
        lost.commit(reports)  # a driver that was thought dead
        lost.abort(reports)
        assert {document.rev for document in db["things"].find_all()} == {number}
        assert state(db) == {"a": 1, "b": 1}


def test_a_job_without_a_name_is_given_up_when_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        frame = Frame(IDS, [rows("a")])
        writer = frame.writer({"url": db.url, "collection": "things"})
        reports: list[Any] = list(frame.run(writer, monkeypatch))
        writer.abort([None])
        with pytest.raises(ConflictError, match="it was aborted"):
            writer.commit(reports)
        assert state(db) == {}


SCHEMA = {
    "version": "1",
    "models": {
        "Person": {
            "path": "@people/(id:string)",
            "files": False,
            "id": "ulid",
            "fields": {
                "email": {"type": "string", "required": True},
                "born": {"type": "datetime"},
                "tags": {"type": "array"},
            },
            "indexes": {"byEmail": {"field": "email", "unique": True}},
        },
        "Entry": {"path": "@entries/(id:string)", "files": False, "mode": "append"},
        "Note": {"path": "@notes/(id:seq)", "files": False},
    },
}
PEOPLE = spark.StructType(
    [
        spark.StructField("email", spark.StringType()),
        spark.StructField("born", spark.StringType()),
        spark.StructField("tags", spark.StringType(), metadata={"wormdb": "json"}),
    ]
)


def people(*emails: str | None) -> list[dict[str, Any]]:
    return [{"email": email, "born": "2001-02-03", "tags": '["x"]'} for email in emails]


@pytest.fixture
def modelled() -> Any:
    url = f"memory://sink-{id(object())}"
    with wormdb.connect(url, schema=SCHEMA, apply=True) as db:
        yield db


def test_documents_are_checked_and_converted_by_the_model(modelled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    where = {"url": modelled.url, "model": "Person"}
    Frame(PEOPLE, [people("a@x"), people("b@x", "c@x")]).write(monkeypatch, where)
    found = modelled.model("Person").find_all()
    assert [document["email"] for document in found] == ["a@x", "b@x", "c@x"], "ids of a task lie together"
    assert {(document["born"], *document["tags"]) for document in found} == {(datetime(2001, 2, 3, tzinfo=UTC), "x")}
    assert len({document["createdAt"] for document in found}) == 1
    with pytest.raises(InvalidRequestError, match=r"row 4 of task 1: .*email"):
        Frame(PEOPLE, [[], people("d@x", "e@x", "f@x", "g@x", None)]).write(monkeypatch, where)
    with pytest.raises(UniqueViolationError, match="email='b@x' already exists"):
        Frame(PEOPLE, [people("b@x")]).write(monkeypatch, where)
    with pytest.raises(UniqueViolationError, match="email='h@x' already exists"):
        Frame(PEOPLE, [people("h@x"), people("h@x")]).write(monkeypatch, where)
    assert modelled.model("Person").count() == 3


def test_times_of_a_document_that_is_replaced(modelled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    people = modelled.model("Person")
    first = people.insert({"id": "a", "email": "a@x"})
    people.insert({"id": "b", "email": "b@x"})
    schema = spark.StructType(
        [spark.StructField("id", spark.StringType()), spark.StructField("email", spark.StringType())]
    )
    given = [{"id": "a", "email": "new@x"}, {"id": "b", "email": "b@x"}]
    Frame(schema, [given]).write(monkeypatch, {"url": modelled.url, "model": "Person"}, "replace")
    a, b = found_in(people, "a"), found_in(people, "b")
    assert (a["email"], a["createdAt"], a.seq) == ("new@x", first["createdAt"], 2)
    assert a["updatedAt"] >= first["updatedAt"]
    assert b.seq == 1, "what is the same stays as it is"


def test_what_a_model_does_not_allow(modelled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    entries = {"url": modelled.url, "model": "Entry"}
    Frame(IDS, [rows("a")]).write(monkeypatch, entries)
    with pytest.raises(PermissionDeniedError, match="append-only"):
        Frame(IDS, [rows("a", n=2)]).write(monkeypatch, entries, "replace")
    with pytest.raises(PermissionDeniedError, match="append-only"):
        Frame(IDS, [rows("b")]).write(monkeypatch, entries, overwrite=True)
    unnumbered = spark.StructType([spark.StructField("n", spark.LongType())])
    with pytest.raises(InvalidRequestError, match="numbered by the commit"):
        Frame(unnumbered, [[{"n": 1}]]).write(monkeypatch, {"url": modelled.url, "model": "Note"})
    with pytest.raises(InvalidRequestError, match="it is the collection of model Entry"):
        Frame(IDS, [rows("b")]).write(monkeypatch, {"url": modelled.url, "collection": "entries"})


def test_whole_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = spark.StructType(
        [spark.StructField("_doc", spark.StringType()), spark.StructField("_rev", spark.LongType())]
    )
    with database() as db:
        where = {"url": db.url, "collection": "things"}
        texts = ['{"_id":"a","n":{"$numberDecimal":"1.50"}}', '{"_id":7}']
        Frame(schema, [[{"_doc": text, "_rev": 9} for text in texts]]).write(monkeypatch, where)
        assert [str(document.get("n")) for document in db["things"].find_all()] == ["None", "1.50"]
        with pytest.raises(InvalidRequestError, match="row 1 of task 0: this is not valid JSON"):
            Frame(schema, [[{"_doc": '{"_id":"b"}'}, {"_doc": "{"}]]).write(monkeypatch, where)
        both = spark.StructType([*schema.fields, spark.StructField("n", spark.LongType())])
        with pytest.raises(InvalidRequestError, match="'n' stands beside it"):
            Frame(both, [[{"_doc": "{}", "n": 1}]]).write(monkeypatch, where)


def test_options_that_cannot_be() -> None:
    with database() as db:
        for options, text in (
            ({"on_conflict": "merge"}, "no such rule"),
            ({"on_conflit": "error"}, "no such option"),
        ):
            with pytest.raises(InvalidRequestError, match=text):
                Frame(IDS, []).writer({"url": db.url, "collection": "things", **options})


def test_decimals_keep_their_value(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = spark.StructType(
        [spark.StructField("id", spark.StringType()), spark.StructField("d", spark.DecimalType(20, 4))]
    )
    with database() as db:
        Frame(schema, [[{"id": "a", "d": Decimal("1200.5000")}, {"id": "b", "d": Decimal(1200)}]]).write(
            monkeypatch, {"url": db.url, "collection": "things"}
        )
        assert [str(document["d"]) for document in db["things"].find_all()] == ["1200.5", "1200"]


def test_an_error_of_ours_is_found_in_what_spark_says() -> None:
    text = (
        "Job aborted\n  File x\nwormdb.errors.AlreadyExistsError: document 'a' in things/: it exists\n SQLSTATE: 38000"
    )
    found = error_in(text)
    assert isinstance(found, AlreadyExistsError)
    assert str(found).startswith("document 'a' in things/: it exists")
    assert error_in("something else") is None


def test_the_log_tells_what_became_of_a_job_whose_answer_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    with database() as db:
        Frame(IDS, [rows("a")]).write(monkeypatch, {"url": db.url, "collection": "things", "job": "done"})
        access = db["things"]._access
        number = access.present().number
        assert _written(access, "done") == WriteResult("done", number)
        for name in ("open", "aborted"):
            open_job(access.ledger, JobSpec(name))
        abort(access.ledger, "aborted", "test")
        with pytest.raises(OutcomeUnknownError, match="may still be attached"):
            _written(access, "open")
        with pytest.raises(UnavailableError, match="it was aborted"):
            _written(access, "aborted")
        monkeypatch.setattr(access.ledger, "view", _unavailable)
        with pytest.raises(OutcomeUnknownError, match="nothing is written twice"):
            _written(access, "done")


def _unavailable(**_: object) -> None:
    raise UnavailableError("the store")
