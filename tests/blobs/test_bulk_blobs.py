"""References that come by bulk jobs: checked before they are attached, and owners from then on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.engine.bulk.rig import Loading
from tests.engine.rig import Rig
from wormdb.engine.bulk.columns import DOCUMENT, ID, DocumentTable
from wormdb.engine.bulk.task import BulkTask
from wormdb.engine.commit.operations import Pending
from wormdb.engine.load import BulkOutcome
from wormdb.engine.tree.definition import OWNERS, encode_index
from wormdb.errors import NotFoundError
from wormdb.format import json
from wormdb.format.event import BlobCondemned, IndexCreated

if TYPE_CHECKING:
    from wormdb.engine.bulk.report import BulkTarget
    from wormdb.format.blob import BlobKey

NOWHERE = {"_blob": "sha256:" + "0" * 64}


class Body:
    """A few bytes."""

    size = 4

    def parts(self) -> Any:
        yield b"blob"


def given() -> tuple[Rig, BlobKey]:
    """A collection with one blob that nobody owns."""
    rig = Rig()
    ledger = rig.ledger()
    created = IndexCreated(name=OWNERS.name, definition=encode_index(OWNERS))
    ledger.commit(Pending("1" * 32, events=(created,)))
    return rig, ledger.blobs.write("ab" * 32, Body(), "text/plain")


def rows_task(load: Loading, target: BulkTarget, value: dict[str, Any]) -> bytes:
    return load.task(target, 0, [("a", {"n": 1}), ("b", {"deep": [value]})])


def columns_task(load: Loading, target: BulkTarget, value: dict[str, Any]) -> bytes:
    documents = [json.encode_document({"_id": "a"}), json.encode_document({"_id": "b", "deep": [value]})]
    texts = pa.array([text.decode() for text in documents], pa.large_string())
    table = pa.table({ID: pa.array(["a", "b"], pa.large_string()), DOCUMENT: texts})
    task = BulkTask(load.rig.ledger(), target, None, 0)  # type: ignore[arg-type] # nothing is replaced
    task.add_columns(DocumentTable(table, fresh=False))
    return task.report()


@pytest.mark.parametrize("task", [rows_task, columns_task])
def test_references_of_a_job_own_what_is_there(task: Any) -> None:
    rig, key = given()
    load = Loading(rig)
    target = load.open()
    assert not isinstance(target, BulkOutcome)
    load.attach(target, [task(load, target, {"_blob": str(key)})])
    ledger = rig.ledger()
    assert ledger.blobs.owners(ledger.view(), key) == 1
    ledger.forward()
    assert ledger.blobs.owners(ledger.view(), key) == 1


@pytest.mark.parametrize("task", [rows_task, columns_task])
def test_references_of_a_job_to_nothing_are_refused(task: Any) -> None:
    rig, _ = given()
    load = Loading(rig)
    target = load.open()
    assert not isinstance(target, BulkOutcome)
    with pytest.raises(NotFoundError, match="not there"):
        load.attach(target, [task(load, target, NOWHERE)])
    assert rig.ledger().view().count == 0


def test_what_is_condemned_while_a_job_runs_is_refused() -> None:
    rig, key = given()
    load = Loading(rig)
    target = load.open()
    assert not isinstance(target, BulkOutcome)
    report = rows_task(load, target, {"_blob": str(key)})
    event = BlobCondemned(sha256=bytes.fromhex(key.sha256), suffix=key.suffix)
    rig.ledger().commit(Pending("2" * 32, events=(event,)))
    with pytest.raises(NotFoundError, match="was removed"):
        load.attach(target, [report])
    assert rig.ledger().view().count == 0
