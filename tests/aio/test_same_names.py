"""The async side has the names and signatures of the API, and nothing else."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import wormdb
from docs.async_api import CLASSES
from wormdb import aio
from wormdb.api.batch import Batch
from wormdb.api.blobs import BlobReader, BlobTarget
from wormdb.api.functions import FunctionRegistry
from wormdb.api.snapshot import DatabaseSnapshot, SnapshotCollection
from wormdb.api.transaction import Transaction, TransactionCollection

PAIRS: dict[type[Any], type[Any]] = {
    wormdb.Database: aio.AsyncDatabase,
    wormdb.Collection: aio.AsyncCollection,
    wormdb.Results: aio.AsyncResults,
    wormdb.Cursor: aio.AsyncCursor,
    wormdb.Query: aio.AsyncQuery,
    Batch: aio.AsyncBatch,
    FunctionRegistry: aio.AsyncFunctionRegistry,
    wormdb.ReadableFiles: aio.AsyncReadableFiles,
    Transaction: aio.AsyncTransaction,
    TransactionCollection: aio.AsyncTransactionCollection,
    DatabaseSnapshot: aio.AsyncDatabaseSnapshot,
    SnapshotCollection: aio.AsyncSnapshotCollection,
}
LEFT_OUT = {
    wormdb.Database: {"class_change", "removal"},
    Transaction: {"check", "is_over", "open", "room"},
    DatabaseSnapshot: {"collect"},
}
"""What only the command line, the server and collections of a transaction call."""
ADDED = {Transaction: {"isolation", "result", "state"}}
"""Attributes there, properties here."""


def public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("kind", PAIRS, ids=lambda kind: kind.__name__)
def test_every_public_name_is_there(kind: type[Any]) -> None:
    assert (public(kind) - LEFT_OUT.get(kind, set())) | ADDED.get(kind, set()) == public(PAIRS[kind])


def parameters(function: Any) -> list[tuple[str, Any, Any, str]]:
    found = inspect.signature(function).parameters.values()
    return [
        (each.name, each.kind, each.default, str(each.annotation).replace("Async", ""))
        for each in found
        if each.name != "self"
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, id=f"{kind.__name__}.{name}")
        for kind, other in PAIRS.items()
        for name in sorted(public(kind) & public(other))
        if inspect.isfunction(inspect.getattr_static(kind, name))
    ],
)
def test_every_call_takes_the_same_arguments(kind: type[Any], name: str) -> None:
    plain, awaited = (inspect.getattr_static(each, name) for each in (kind, PAIRS[kind]))
    mine = [each for each in parameters(awaited) if each[0] != "timeout"]
    theirs = [each for each in parameters(inspect.unwrap(plain)) if each[0] != "timeout"]
    assert mine == theirs
    shown = str(inspect.signature(plain).return_annotation)
    given = str(inspect.signature(awaited).return_annotation).replace("Async", "")
    assert given == shown


def test_connect_takes_the_same_arguments_and_how_many_calls_run_at_once() -> None:
    assert parameters(aio.connect)[:-1] == parameters(wormdb.connect)
    assert parameters(aio.connect)[-1][0] == "concurrency"


@pytest.mark.parametrize("pair", [(BlobReader, aio.AsyncBlobReader), (BlobTarget, aio.AsyncBlobTarget)])
def test_streams_of_blobs_have_only_names_of_the_api(pair: tuple[type[Any], type[Any]]) -> None:
    assert public(pair[1]) <= public(pair[0])


def test_what_is_called_plain_or_a_stream_is_there() -> None:
    """A name that went would otherwise stay in the list unseen."""
    for one in CLASSES:
        module = __import__(f"wormdb.api.{one.module}", fromlist=["x"])
        names = set(dir(getattr(module, one.name)))
        assert one.plain | one.streams | one.left_out <= names | {"__enter__", "__exit__"}, one.name
