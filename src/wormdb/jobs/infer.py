"""A model for records that are about to be imported."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.records import read_records
from wormdb.engine.bulk.rows import RowReader
from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError
from wormdb.files.contents.document import read_entity
from wormdb.format.packed import unpack
from wormdb.jobs.place import absolute
from wormdb.jobs.records import rows_of
from wormdb.jobs.target import store_at
from wormdb.schema.infer import Inference
from wormdb.schema.path import folder_texts, is_hidden, parse_template
from wormdb.schema.proposal import has_data, propose_paths, show_keys
from wormdb.settings import FILE_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from wormdb.api.imports.rows import Rows
    from wormdb.api.records import Form
    from wormdb.jobs.import_ import FileRecords
    from wormdb.schema.proposal import PathProposal
    from wormdb.storage.store import Store

__all__ = [
    "FOLDER_FILES",
    "RECORDS_MAX",
    "InferredLayout",
    "InferredModel",
    "infer_files",
    "infer_layout",
    "infer_rows",
]

RECORDS_MAX: Final = 100_000
"""Records that are looked at, at most: some of each piece."""
_FEWEST: Final = 1_000
FOLDER_FILES: Final = 10_000
"""Files of one folder at the top that are listed, or some more: other folders have their turn."""
_FILES_MAX: Final = 50_000
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


@dataclass(frozen=True, slots=True)
class InferredLayout:
    """The models of files as they lie, and what a person should know of them."""

    models: tuple[InferredModel, ...]
    notes: tuple[str, ...]
    """What no model has, and why: a sentence each."""


def infer_layout(source: str, limit: int = _FEWEST, *, enums: bool = False) -> InferredLayout:
    """The models of a folder or bucket whose files have documents, one or many each, as they lie; or none.

    The first 10,000 files of each folder are listed, 50,000 in all, for 1 LIST for each 1,000, and up to `limit` of
    each model read, for 1 GET each. Their mode is readonly: they can be read in place, and adopted. A folder is that of
    one model: of files of several kinds the most count. Files that reading in place would refuse are left out.
    """
    store = store_at(source if "://" in source else absolute(source))
    keys, cut = _list_some(store)
    notes = [f"of {folder}/ only the first files were looked at, {FOLDER_FILES:,} or more" for folder in cut]
    found: list[InferredModel] = []
    fitting: set[str] = set()
    proposals = {proposal.folder: proposal for proposal in reversed(propose_paths(keys))}
    for proposal in list(reversed(proposals.values()))[:_MODELS_MAX]:
        inference = Inference(enums=enums)
        is_whole, broken = _see_proposed(inference, proposal, store, limit)
        fitting.update(proposal.keys)
        if broken:
            (key, reason), *others = broken.items()
            more = f", and {len(others):,} more" if others else ""
            notes.append(f"{key} does not fit {proposal.path}: {reason}{more}")
        if inference.count:
            is_whole = is_whole and proposal.keys[0].partition("/")[0] not in cut
            found.append(_proposed(inference, proposal, is_whole=is_whole))
    rest = [key for key in keys if has_data(key) and key not in fitting and not is_hidden(key.split("/"))]
    if rest:
        count = f"{len(rest):,} files fit" if len(rest) > 1 else "1 file fits"
        notes.append(f"{count} no path of a model: {show_keys(rest)}")
    return InferredLayout(tuple(found), tuple(notes))


def _list_some(store: Store) -> tuple[list[str], list[str]]:
    """Keys of every folder at the top, of each not too many; and the folders of which there are more."""
    keys: list[str] = []
    cut: list[str] = []
    after: str | None = None
    while len(keys) < _FILES_MAX:
        own = 0
        for page in store.list(after=after):
            keys += [info.key for info in page.objects]
            folder = keys[-1].partition("/")[0]
            own = own + len(page.objects) if page.objects[0].key.startswith(f"{folder}/") else 0
            if own >= FOLDER_FILES:
                cut.append(folder)
                after = f"{folder}0"  # 0 is the sign behind the slash: all that follows is in other folders
                break
        else:
            break
    return keys, cut


def _proposed(inference: Inference, proposal: PathProposal, *, is_whole: bool) -> InferredModel:
    model = inference.model(proposal.folder)
    template = parse_template(proposal.path)
    is_named = not (template.is_deep or template.holds_many)
    path = model["path"].removesuffix("/[data].json") + proposal.suffix if is_named else proposal.path
    left_out = {"files"} if is_named else {"files", "id"}
    shown = {name: value for name, value in model.items() if name not in left_out}
    if not is_whole:
        _loosen(model["fields"])
    return InferredModel({**shown, "path": path, "mode": "readonly"}, inference.count, is_whole)


def _see_proposed(
    inference: Inference, proposal: PathProposal, store: Store, limit: int
) -> tuple[bool, dict[str, str]]:
    """Look at up to `limit` documents of files that have a path in common; whether these are all. 1 GET a file.

    And by key why a file, or a line of it, is not read where it is.
    """
    template = parse_template(proposal.path)
    numbers = _whole_numbers(proposal) if template.is_deep else frozenset()
    broken: dict[str, str] = {}
    for key in proposal.keys:
        left = limit - inference.count
        if left <= 0:
            return False, broken
        identity = proposal.id_of(key)
        records = _records_of(store, key, identity, broken, left + 1, holds_many=template.holds_many)
        told = {
            name: int(text) if name in numbers else text
            for name, text in (folder_texts(str(identity)) if template.is_deep else {}).items()
        }
        for line, values in records[:left]:
            found = {**told, **values}
            own = f"{identity}#{line}" if template.holds_many else identity
            inference.see(found if "id" in found or "_id" in found else {"id": own, **found})
        if len(records) > left:
            return False, broken
    return True, broken


def _records_of(
    store: Store, key: str, identity: Any, broken: dict[str, str], most: int, *, holds_many: bool
) -> list[tuple[int, dict[str, Any]]]:
    """Lines and values of the documents of a file that can be read where it is; what cannot is told. 1 GET."""
    try:
        body = unpack(store.get(key).body, key=key, limit=FILE_BYTES_MAX)
        if not holds_many:
            read_entity(body, key=key, model=None, identity=identity)
    except (CorruptionError, InvalidRequestError, LimitExceededError) as error:
        broken[key] = error.reason or error.what
        return []
    form: Form = "ndjson" if holds_many else "json"
    found = []
    for record in islice(read_records(io.BytesIO(body), form), most):
        if record.values is None:
            broken[f"{key}:{record.line}"] = record.problem
        else:
            found.append((record.line, record.values))
    return found


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
