"""Spans: one for each call, in it one for each request, no values in them, and nothing of it without a tracer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import wormdb
from wormdb import aio, otel
from wormdb.errors import AlreadyExistsError, MissingExtraError
from wormdb.otel import _shown_key
from wormdb.system import tracing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

SECRET = "s3cret-value"


class Recorder:
    """The spans that ended, and what they say."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def taken(self) -> tuple[list[ReadableSpan], list[ReadableSpan]]:
        """Spans of calls, and those in them; they are forgotten."""
        spans = self.exporter.get_finished_spans()
        self.exporter.clear()
        requests = [span for span in spans if span.attributes and "wormdb.request.kind" in span.attributes]
        return [span for span in spans if span not in requests], requests

    def close(self) -> None:
        self.provider.shutdown()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    otel.instrument(made.provider)
    yield made
    otel.uninstrument()
    made.close()


def told(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    found: int = span.context.span_id
    return found


def test_a_call_is_a_span_with_a_child_for_each_request(recorder: Recorder, tmp_path: Path) -> None:
    with wormdb.connect(tmp_path) as db:
        db["org/notes"].insert({"id": SECRET, "text": SECRET})
        recorder.taken()
        before = db.cost().requests
        assert db["org/notes"].find_by_id(SECRET) is not None
        used = db.cost().requests - before
    ((call,), requests) = recorder.taken()
    assert (call.name, call.kind, call.status.status_code) == (
        "find_by_id org/notes",
        SpanKind.CLIENT,
        StatusCode.UNSET,
    )
    assert told(call) == {
        "db.system.name": "wormdb",
        "db.operation.name": "find_by_id",
        "db.namespace": f"file://{tmp_path}",
        "db.collection.name": "org/notes",
    }
    assert len(requests) == used > 0
    assert {parent_of(span) for span in requests} == {id_of(call)}
    assert {(span.name, span.kind) for span in requests} == {("GET", SpanKind.CLIENT)}
    keys = [told(span)["wormdb.request.key"] for span in requests]
    assert all(key.startswith("org/notes/.worm.db/") for key in keys)


def test_every_request_of_calls_has_a_span_also_those_in_threads(recorder: Recorder, tmp_path: Path) -> None:
    with wormdb.connect(tmp_path, settings=wormdb.Settings(forward="manual", cache_bytes=0)) as db:
        notes = db["notes"]
        notes.create_index("n")
        notes.insert_many([{"id": f"{n:03}", "n": n} for n in range(300)])
        db.forward()
        notes.update_one({"n": 3}, {"$set": {"text": SECRET}})
        assert [row["n"] for row in notes.find({"n": {"$gt": 297}}, sort="-n")] == [299, 298]
        assert notes.count({"n": {"$lt": 10}}) == 10
        with db.transaction() as tx:
            tx["notes"].delete("001")
            tx["other"].insert({"id": SECRET})
        requests_made = db.cost().requests
    calls, requests = recorder.taken()
    assert sum(told(span).get("wormdb.request.count", 1) for span in requests) == requests_made
    assert {parent_of(span) for span in requests} <= {id_of(span) for span in calls}
    names = [span.name for span in calls]
    for name in ("create_index notes", "insert_many notes", "forward", "update_one notes", "find notes", "count notes"):
        assert names.count(name) == 1, name
    assert names.count("commit") == 1


def test_no_span_holds_a_value(recorder: Recorder, tmp_path: Path) -> None:
    schema = {
        "schemaVersion": "1.0",
        "sourceOfTruth": "local",
        "models": {"Note": {"path": "@notes/(id:string)/[note].json", "softDelete": True, "oplog": True}},
    }
    with wormdb.connect(tmp_path, schema=schema) as db:
        notes = db.model("Note")
        notes.insert({"id": SECRET, "text": SECRET, "body": notes.put_blob(SECRET.encode())})
        notes.find_all({"text": SECRET})
        with pytest.raises(AlreadyExistsError):
            notes.insert({"id": SECRET})
        notes.delete(SECRET)
        db.forward()
    calls, requests = recorder.taken()
    spans = [*calls, *requests]
    assert len(spans) > 20
    for span in spans:
        assert SECRET not in span.to_json(), span.name
        assert not span.events
        assert span.status.description is None
    failed = [span for span in spans if span.status.status_code is StatusCode.ERROR]
    assert ("insert notes", "AlreadyExistsError") in {(span.name, told(span)["error.type"]) for span in failed}


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("a/.worm.db/committed/00000000000000000001", "a/.worm.db/committed/00000000000000000001"),
        (".worm.tx/0123", ".worm.tx/0123"),
        ("a/.worm.db/blobs/0123abc", "a/.worm.db/blobs/"),
        ("notes/ada/note.json", ""),
        (".worm.trash/notes/ada/note.json", ""),
        ("notes/.worm.index/email.json", ""),
    ],
)
def test_keys_are_shown_where_no_document_is_in_them(key: str, shown: str) -> None:
    assert _shown_key(key) == shown


def test_rows_that_are_streamed_are_one_span_until_the_last(recorder: Recorder) -> None:
    with wormdb.connect("memory://") as db:
        db["n"].insert_many([{"id": str(n)} for n in range(5)])
        recorder.taken()
        rows = iter(db["n"].find())
        next(rows)
        assert recorder.taken()[0] == []
        assert len(list(rows)) == 4
        ((span,), _) = recorder.taken()
        assert (span.name, told(span)["db.response.returned_rows"]) == ("find n", 5)
        some = db["n"].scan()
        next(some)
        some.close()  # type: ignore[attr-defined] # a generator
        ((span,), _) = recorder.taken()
        assert (span.name, told(span)["db.response.returned_rows"], "error.type" in told(span)) == ("scan n", 1, False)


def test_spans_lie_in_that_of_the_program_also_under_an_event_loop(recorder: Recorder) -> None:
    tracer = recorder.provider.get_tracer("program")

    async def work() -> None:
        async with aio.connect("memory://") as db:
            with tracer.start_as_current_span("handler"):
                await db["n"].insert({"id": "a"})

    asyncio.run(work())
    calls, requests = recorder.taken()
    handler, insert = sorted(calls, key=lambda span: span.name)
    assert (handler.name, insert.name, parent_of(insert)) == ("handler", "insert n", id_of(handler))
    assert {parent_of(span) for span in requests} == {id_of(insert)}


def test_without_a_tracer_nothing_is_imported_or_made() -> None:
    assert tracing.tracer is None
    program = """
import sys, wormdb
with wormdb.connect("memory://") as db:
    db["n"].insert({"id": "a"})
    assert db["n"].find_by_id("a") and list(db["n"].find())
found = [name for name in sys.modules if name.startswith("opentelemetry") or name == "wormdb.otel"]
assert not found, found
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_after_the_end_no_more_spans_are_made(recorder: Recorder) -> None:
    otel.uninstrument()
    with wormdb.connect("memory://") as db:
        db["n"].insert({"id": "a"})
    assert recorder.taken() == ([], [])


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingExtraError, match="opentelemetry") as caught:
        otel.instrument()
    assert caught.value.fix == "pip install 'wormdb[otel]'"
