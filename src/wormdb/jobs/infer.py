"""A model for records that are about to be imported."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.records import read_records
from wormdb.engine.bulk.rows import RowReader
from wormdb.format.packed import unpack
from wormdb.jobs.place import absolute
from wormdb.jobs.records import rows_of
from wormdb.jobs.target import store_at
from wormdb.schema.infer import Inference
from wormdb.schema.path import folder_texts, parse_template
from wormdb.schema.proposal import propose_paths
from wormdb.settings import FILE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.api.imports.rows import Rows
    from wormdb.api.records import Form
    from wormdb.jobs.import_ import FileRecords
    from wormdb.schema.proposal import PathProposal
    from wormdb.storage.store import Store

__all__ = ["RECORDS_MAX", "InferredModel", "infer_files", "infer_layout", "infer_rows"]

RECORDS_MAX: Final = 100_000
"""Records that are looked at, at most: some of each piece."""
_FEWEST: Final = 1_000
_PAGES_MAX: Final = 10
_MODELS_MAX: Final = 20
_DIGITS: Final = re.compile("[0-9]{1,18}", re.ASCII)


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
    """The models of a folder or bucket whose files have documents, one or many each, as they lie; or none.

    The first 10,000 files are listed, for 1 LIST for each 1,000, and up to `limit` of each model read, for 1 GET each.
    Their mode is readonly: they can be read in place, and adopted where a file has one. A folder is that of one model:
    of files of several kinds the most count.
    """
    folder = source if "://" in source else absolute(source)
    store = store_at(folder)
    keys = [info.key for page in islice(store.list(), _PAGES_MAX) for info in page.objects]
    found = []
    proposals = {proposal.folder: proposal for proposal in reversed(propose_paths(keys))}
    for proposal in list(reversed(proposals.values()))[:_MODELS_MAX]:
        inference = Inference(enums=enums)
        whole = _see_proposed(inference, proposal, store, limit)
        if inference.count:
            model = inference.model(proposal.folder)
            template = parse_template(proposal.path)
            is_named = not (template.is_deep or template.holds_many)
            path = model["path"].removesuffix("/[data].json") + proposal.suffix if is_named else proposal.path
            left_out = {"files"} if is_named else {"files", "id"}
            shown = {name: value for name, value in model.items() if name not in left_out}
            if not whole:
                _loosen(model["fields"])
            found.append(InferredModel({**shown, "path": path, "mode": "readonly"}, inference.count, whole))
    return found


def _see_proposed(inference: Inference, proposal: PathProposal, store: Store, limit: int) -> bool:
    """Look at up to `limit` documents of files that have a path in common; whether these are all. 1 GET a file."""
    template = parse_template(proposal.path)
    numbers = _whole_numbers(proposal) if template.is_deep else frozenset()
    for key in proposal.keys:
        left = limit - inference.count
        if left <= 0:
            return False
        body = unpack(store.get(key).body, key=key, limit=FILE_BYTES_MAX)
        form: Form = "ndjson" if template.holds_many else "json"
        records = list(islice(read_records(io.BytesIO(body), form), left + 1 if template.holds_many else 2))
        if not template.holds_many and len(records) != 1:
            continue
        identity = proposal.id_of(key)
        told = {
            name: int(text) if name in numbers else text
            for name, text in (folder_texts(str(identity)) if template.is_deep else {}).items()
        }
        for record in records[:left]:
            if record.values is not None:
                own = f"{identity}#{record.line}" if template.holds_many else identity
                found = {**told, **record.values}
                inference.see(found if "id" in found or "_id" in found else {"id": own, **found})
        if len(records) > left:
            return False
    return True


def _whole_numbers(proposal: PathProposal) -> frozenset[str]:
    """The values in names of folders that are whole numbers in all of them: months are, though they are written 05."""
    seen: dict[str, bool] = {}
    for key in proposal.keys:
        for name, text in folder_texts(str(proposal.id_of(key))).items():
            seen[name] = seen.get(name, True) and _DIGITS.fullmatch(text) is not None
    return frozenset(name for name, is_number in seen.items() if is_number)


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
