"""A model for records that are about to be imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.bulk.rows import RowReader
from wormdb.jobs.records import rows_of
from wormdb.schema.infer import Inference

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.api.imports.rows import Rows
    from wormdb.jobs.import_ import FileRecords

__all__ = ["RECORDS_MAX", "InferredModel", "infer_files", "infer_rows"]

RECORDS_MAX: Final = 100_000
"""Records that are looked at, at most: some of each piece."""
_FEWEST: Final = 1_000


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
