"""A model for records that are about to be imported."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.records import read_records
from wormdb.engine.bulk.rows import RowReader
from wormdb.jobs.place import absolute
from wormdb.jobs.records import rows_of
from wormdb.jobs.target import store_at
from wormdb.schema.infer import Inference
from wormdb.schema.proposal import propose_paths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.api.imports.rows import Rows
    from wormdb.jobs.import_ import FileRecords

__all__ = ["RECORDS_MAX", "InferredModel", "infer_files", "infer_layout", "infer_rows"]

RECORDS_MAX: Final = 100_000
"""Records that are looked at, at most: some of each piece."""
_FEWEST: Final = 1_000
_PAGES_MAX: Final = 10
_MODELS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class InferredModel:
    """What records have in common."""

    model: dict[str, Any]
    """As in schema.json."""
    seen: int
    is_whole: bool
    """Whether all records were looked at: if not, no field is required."""


def infer_files(records: FileRecords, folder: str) -> InferredModel:
    """The model of the records of files, at a path such as `@customers`. Costs as `pieces_of` and reading them.

    Raises InvalidRequestError for what cannot be read.
    """
    pieces = records.pieces()
    most = max(RECORDS_MAX // len(pieces), _FEWEST)
    inference = Inference(id_field=records.id_field)
    is_whole = True
    for piece in pieces:
        is_whole &= _see(inference, rows_of(piece, None, records.reading), most)
    return _told(inference, folder, is_whole=is_whole)


def infer_layout(source: str, limit: int = _FEWEST, *, enums: bool = False) -> list[InferredModel]:
    """The models of a folder or bucket whose files have one document each, as they lie; none if there are no such.

    The first 10,000 files are listed, for 1 LIST for each 1,000, and up to `limit` of each model read, for 1 GET each.
    Their mode is readonly: they can be read in place, and adopted.
    """
    folder = source if "://" in source else absolute(source)
    store = store_at(folder)
    keys = [info.key for page in islice(store.list(), _PAGES_MAX) for info in page.objects]
    found = []
    for proposal in propose_paths(keys)[:_MODELS_MAX]:
        inference = Inference(enums=enums)
        for key in proposal.keys[:limit]:
            records = list(islice(read_records(io.BytesIO(store.get(key).body), "json"), 2))
            if len(records) == 1 and records[0].values is not None:
                values = records[0].values
                inference.see(values if "id" in values or "_id" in values else {"id": proposal.id_of(key), **values})
        if inference.count:
            model = inference.model(proposal.folder)
            path = model["path"].removesuffix("/[data].json") + proposal.suffix
            shown = {name: value for name, value in model.items() if name != "files"}
            whole = len(proposal.keys) <= limit
            if not whole:
                _loosen(model["fields"])
            found.append(InferredModel({**shown, "path": path, "mode": "readonly"}, inference.count, whole))
    return found


def infer_rows(rows: Iterable[Rows], folder: str, id_field: str | None) -> InferredModel:
    """The model of some rows of a table, of which there may be more. No requests."""
    inference = Inference(id_field=id_field)
    _see(inference, rows, RECORDS_MAX)
    return _told(inference, folder, is_whole=False)


def _see(inference: Inference, rows: Iterable[Rows], most: int) -> bool:
    """Look at records, and not at many more than `most`; whether these are all."""
    begun = inference.count
    for some in rows:
        if inference.count - begun >= most:
            return False
        if some.batch is not None:
            for values in RowReader(some.batch.schema).rows(some.batch):
                if isinstance(values, dict):
                    inference.see(values)
        for record in some.records:
            if record.values is not None:
                (inference.see_cells if record.is_text else inference.see)(record.values)
    return True


def _told(inference: Inference, folder: str, *, is_whole: bool) -> InferredModel:
    model = inference.model(folder)
    if not is_whole:
        _loosen(model["fields"])
    return InferredModel(model, inference.count, is_whole)


def _loosen(fields: dict[str, Any]) -> None:
    """Require nothing: a record that was not looked at may lack it."""
    for definition in fields.values():
        definition.pop("required", None)
        inner = definition.get("items", definition)
        _loosen(inner.get("properties", {}))
