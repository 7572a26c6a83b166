"""Change a collection's definition: by a log entry, checked against the state it will rule.

What costs a scan is checked before the batch is on its way, against one view: a commit should not wait for it. What
comes between that view and the commit is found by the build of the index, which fails then.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Protocol

from wormdb.engine.index.unique import keys_of
from wormdb.engine.index_check import DUPLICATES_SHOWN, duplicate_problem
from wormdb.engine.required_check import Requirements
from wormdb.engine.state.definition import settled
from wormdb.engine.state.indexes import PRIMARY, check_index_name
from wormdb.engine.state.operations import Pending
from wormdb.engine.tree.definition import Index, encode_index
from wormdb.engine.tree.extract import extract
from wormdb.engine.version_check import check_mapped, check_since
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, LimitExceededError, NotFoundError
from wormdb.format.event import IndexCreated, IndexDropped, SchemaChanged
from wormdb.format.filter_run import key_hash, key_hashes
from wormdb.schema.model import IndexDefinition
from wormdb.schema.report import Report, did_you_mean
from wormdb.schema.rules import check_rules
from wormdb.schema.version import check_version
from wormdb.settings import INDEX_FIELDS_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.engine.state.indexes import IndexEvent, IndexStatus
    from wormdb.engine.state.view import Held, View
    from wormdb.errors import Problem
    from wormdb.format.event import Event, FilesSwitched
    from wormdb.schema.model import Model

__all__ = ["Scanned", "change_definition", "create_index", "drop_index", "duplicates"]

_SLICE_DOCUMENTS = 1_000


def change_definition(
    batch_id: str,
    model: Model,
    *,
    seen: View,
    actor: str | None = None,
    files: FilesSwitched | None = None,
    mapping: bytes | None = None,
) -> Pending:
    """The batch that puts `model` in force, where `seen` is the state before. One scan if an index is new and unique.

    `files` switches readable files with it. `mapping`, as `encode_mapping` writes it, is what becomes of all documents:
    a scan more, of all that is there.

    Without a mapping, a field that is required now and was not must be in every document, or have a default: where
    statistics of columns do not tell, that is a scan too.

    Raises InvalidRequestError for a version that is frozen, for a field that documents lack, listing all
    values that such an index finds more than once, for a document that it cannot take, and listing the documents that
    cannot be mapped. The commit raises ConflictError if another definition came between. Nothing is written then.
    """
    before = seen.definition
    if before.model is not None:
        check_version(before.version, before.model, model, is_mapped=mapping is not None)
    schema = SchemaChanged(definition=model.canonical(), mapping=mapping)
    (settled_schema,) = settled((schema,), is_empty=seen.count == 0)
    following = replace(seen, definition=before.after((settled_schema,), LogNumber(seen.number + 1)))
    upgrades = following.definition.upgrades
    required = Requirements.of(before.model, model)
    if mapping is not None:
        check_mapped(model, upgrades, seen)
    else:
        required.check(seen)
    after = following.definition.indexes
    new = [status.index for status in after if _is_new(status, before.indexes.get(status.index.name))]
    _check_unique(new, following)

    def guard(view: View) -> None:
        if (view.definition.body, view.definition.versions) != (before.body, before.versions):
            raise ConflictError(f"the definition of {model.name}", reason="somebody else changed it meanwhile")
        if mapping is not None:
            check_since(model, upgrades, seen, view)
        else:
            required.check_since(seen, view)

    events: tuple[Event, ...] = (schema,)
    if files is not None:
        events += (files,)
    return Pending(batch_id, events=events, actor=actor, guard=guard)


def create_index(batch_id: str, index: Index, *, seen: View, actor: str | None = None) -> Pending:
    """The batch that makes an index beside those of the model, where `seen` is the state before.

    It waits to be built, or is ready at once if there is no document. One that failed may be created again. One scan
    if it is unique. Raises AlreadyExistsError, LimitExceededError for too many fields, and InvalidRequestError for a
    name or path that cannot be and as `change_definition` does; the commit raises ConflictError if the index came
    between. Nothing is written then.
    """
    check_index_name(index.name)
    if len(index.fields) > INDEX_FIELDS_MAX:
        raise LimitExceededError(
            f"index {index.name} over {len(index.fields)} fields",
            reason=f"INDEX_FIELDS_MAX is {INDEX_FIELDS_MAX}",
            fix="index fewer fields",
        )
    definition = seen.definition
    held = definition.indexes.get(index.name)
    if held is not None and held.state not in {"failed", "dropped"}:
        raise AlreadyExistsError(
            f"index {index.name}", reason=f"it is there already, and {held.state}", fix="choose another name"
        )
    if held is not None and held.declared and held.definition != encode_index(index):
        raise InvalidRequestError(
            f"index {index.name}", reason="the model has it with another definition", fix="change the model"
        )
    if definition.model is not None and (held is None or not held.declared):
        _check_paths(definition.model, index)
    _check_unique([index], seen)
    return _pending(batch_id, IndexCreated(name=index.name, definition=encode_index(index)), actor)


def drop_index(batch_id: str, name: str, *, seen: View, actor: str | None = None) -> Pending:
    """The batch that drops an index, where `seen` is the state before. No requests.

    Raises NotFoundError, and InvalidRequestError for the primary index and for one that the model has. The commit
    raises ConflictError if the index went meanwhile. Nothing is written then.
    """
    if name == PRIMARY:
        raise InvalidRequestError(
            f"index {name}", reason="the primary index is the documents themselves", fix="drop the collection instead"
        )
    indexes = seen.definition.indexes
    held = indexes.get(name)
    if held is None or held.state == "dropped" or held.index.is_owners:
        known = [status.index.name for status in indexes if status.state != "dropped" and not status.index.is_owners]
        raise NotFoundError(f"index {name}", reason="there is none of this name", fix=did_you_mean(name, known))
    if held.declared:
        raise InvalidRequestError(
            f"index {name}", reason="the model has it", fix="remove it from the model, and apply the schema"
        )
    return _pending(batch_id, IndexDropped(name=name), actor)


class Scanned(Protocol):
    """All documents of a state."""

    def scan(self) -> Iterator[tuple[bytes, Held]]:
        """Each id with what is under it, in order of key."""
        ...


def duplicates(index: Index, view: Scanned) -> list[Problem]:
    """Each value that several documents have in an index, with their ids; the first hundred.

    One scan, and a second one if there are any. Raises InvalidRequestError for a document that it cannot take.
    """
    hashes = key_hashes(key for _, keys in _keys(index, view) for key in keys)
    suspects = {one for one, other in pairwise(sorted(hashes)) if one == other}
    if not suspects:
        return []
    owners: dict[bytes, list[Held]] = {}
    for held, keys in _keys(index, view):
        for key in keys:
            if key_hash(key) in suspects:
                owners.setdefault(key, []).append(held)
    several = islice(((key, held) for key, held in owners.items() if len(held) > 1), DUPLICATES_SHOWN)
    return [
        duplicate_problem(index, keys_of(index, held[0].document)[key], [one.id for one in held])
        for key, held in several
    ]


def _keys(index: Index, view: Scanned) -> Iterator[tuple[Held, list[bytes]]]:
    documents = (held for _, held in view.scan() if held.document is not None)
    while some := list(islice(documents, _SLICE_DOCUMENTS)):
        keys = extract(index, [held.id for held in some], [held.document for held in some]).keys
        yield from zip(some, map(list, keys), strict=True)


def _is_new(status: IndexStatus, before: IndexStatus | None) -> bool:
    if status.state not in {"waiting", "ready"}:
        return False
    if before is None or before.state == "dropped" or before.definition != status.definition:
        return True
    return status.state == "waiting" and before.state == "ready"


def _check_unique(indexes: list[Index], seen: View) -> None:
    problems = [problem for index in indexes if index.unique for problem in duplicates(index, seen)]
    if problems:
        raise InvalidRequestError(
            f"index {problems[0].path.removeprefix('indexes.')}",
            problems=problems,
            fix="make the values different first, or make the index without unique",
        )


def _check_paths(model: Model, index: Index) -> None:
    """Raise InvalidRequestError if the model, with the index in it, would have mistakes."""
    wanted = IndexDefinition(
        index.fields,
        unique=index.unique,
        type="multiValue" if index.multi_valued else "compound" if index.compound else "standard",
        sparse=index.sparse,
    )
    report = Report()
    check_rules(replace(model, indexes={**model.indexes, index.name: wanted}), report)
    if report.errors:
        raise InvalidRequestError(f"index {index.name}", problems=report.errors)


def _pending(batch_id: str, event: IndexEvent, actor: str | None) -> Pending:
    def guard(view: View) -> None:
        view.definition.indexes.check(event)

    return Pending(batch_id, events=(event,), actor=actor, guard=guard)
