"""Change a collection's definition: by a log entry, checked against the state it will rule.

What costs a scan is checked before the batch is on its way, against one view: a commit should not wait for it. What
comes between that view and the commit is found by the build of the index, which fails then.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.commit.operations import Pending
from wormdb.engine.index.unique import DUPLICATES_SHOWN, duplicate_problem, keys_of
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.state.definition import functions_of, settled
from wormdb.engine.state.expiry import expiry_events
from wormdb.engine.state.indexes import PRIMARY, check_index_name
from wormdb.engine.state.upgrade import check_mapped, check_since
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.definition import Index, encode_index
from wormdb.engine.tree.extract import extract
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    LimitExceededError,
    NotFoundError,
    Problem,
)
from wormdb.format import json
from wormdb.format.event import (
    FunctionDropped,
    FunctionRegistered,
    IndexCreated,
    IndexDropped,
    JobAttached,
    ListsCreated,
    SchemaChanged,
)
from wormdb.format.kinds import MISSING
from wormdb.format.membership import key_hash, key_hashes
from wormdb.schema.difference import check_version
from wormdb.schema.model import IndexDefinition
from wormdb.schema.problems import ProblemReport, did_you_mean
from wormdb.schema.rules import check_rules
from wormdb.settings import FUNCTION_BYTES_MAX, FUNCTIONS_MAX, INDEX_FIELDS_MAX
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wormdb.bql.tree import Filter
    from wormdb.engine.state.indexes import IndexEvent, IndexStatus
    from wormdb.engine.state.upgrade import Upgrades
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.format.event import Event, FilesSwitched
    from wormdb.schema.model import Field, Model

__all__ = [
    "DocumentScan",
    "IndexGuard",
    "Requirements",
    "change_definition",
    "create_index",
    "drop_function",
    "drop_index",
    "duplicates",
    "register_function",
]


# --- Whether documents have what a new model requires of them: where it does not say how they get it, nothing does.


@dataclass(frozen=True, slots=True)
class Requirements:
    """The fields that a model requires and the one before did not."""

    model: Model
    before: Mapping[str, Field] = field(default_factory=dict)

    @classmethod
    def of(cls, before: Model | None, after: Model) -> Requirements:
        """What is new in `after`. No requests."""
        return cls(after, {} if before is None else before.fields)

    def check(self, seen: View) -> None:
        """Raise InvalidRequestError if documents of a state lack a field, with how many do and one of them.

        A default brings a field that is missing, when the document is written next; it does not replace null. No
        requests where the statistics of columns tell that all documents have it; otherwise a scan: 1 GET a block.
        """
        if seen.count and any(True for _ in _demanded(self.before, self.model.fields)):
            self._refuse(_documents(seen) if self._may_lack(seen) else _of_tail(seen))

    def check_since(self, seen: View, view: View) -> None:
        """The same for what came after a state that was checked. No requests.

        Raises ConflictError if that cannot be told without reading: then all is checked again.
        """
        if view.number == seen.number or not any(True for _ in _demanded(self.before, self.model.fields)):
            return
        if view.base_number > seen.number or _has_job(view, seen.number):
            raise ConflictError(f"the model {self.model.name}", reason="documents came that were not looked at")
        self._refuse(_of_tail(view, seen.number))

    def _refuse(self, documents: Iterable[tuple[bytes, bytes]]) -> None:
        counts: dict[str, int] = {}
        examples: dict[str, str] = {}
        for identity, document in documents:
            values = json.decode_document(document, name="document")
            for path in dict.fromkeys(_lacking(self.before, self.model.fields, values)):
                counts[path] = counts.get(path, 0) + 1
                examples.setdefault(path, identity.decode())
        if counts:
            raise InvalidRequestError(
                f"the model {self.model.name}",
                problems=[
                    Problem(f"fields.{path}", f"is required, and {_many(count)} it, such as {examples[path]}")
                    for path, count in counts.items()
                ],
                fix="bring it by a mapping or a function, or give the field a default; nothing was written",
            )

    def _may_lack(self, seen: View) -> bool:
        """Whether documents in blocks may lack a field, as far as statistics tell. 1 GET a page of a long list."""
        place = seen.place
        if place is None:
            return False
        demanded = list(_demanded(self.before, self.model.fields))
        if any("." in path for path, _ in demanded) or _has_job(seen, seen.base_number):
            return True
        runs = Runs(Shelf(place.store, place.pool, place.paths.data), place.root.blocks, place.root.block_pages)
        for block in runs.blocks():
            if block.rows == block.deleted:
                continue
            stats = {each.path: each for each in seen.definition.upgrades.stats(block)}
            for path, has_default in demanded:
                known = stats.get(path)
                # A deletion has no value either, so that it may stand for a document here: then the scan tells.
                if known is None or known.nulls or (known.missing and not has_default):
                    return True
        return False


def _many(count: int) -> str:
    return f"{count:,} documents lack" if count > 1 else "1 document lacks"


def _documents(view: View) -> Iterator[tuple[bytes, bytes]]:
    return ((held.id, held.document) for _, held in view.scan() if held.document is not None)


def _of_tail(view: View, after: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Documents that entries after a number changed, as they are in a state; of the whole tail without one."""
    begin = view.base_number if after is None else after
    entries = (entry for entry in view.overlay.entries(view.number) if entry.number > begin)
    keys = {id_key(change.id) for entry in entries for batch in entry.batches for change in batch.changes}
    for held in view.get_many(sorted(keys)).values():
        if held.document is not None:
            yield held.id, held.document


def _has_job(view: View, after: int) -> bool:
    entries = (entry for entry in view.overlay.entries(view.number) if entry.number > after)
    return any(isinstance(event, JobAttached) for entry in entries for event in entry.events)


def _demanded(before: Mapping[str, Field], after: Mapping[str, Field], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The paths that are required now and were not, and whether each has a default."""
    for name, declared in after.items():
        old = before.get(name)
        if declared.required and (old is None or not old.required):
            yield prefix + name, declared.default is not MISSING
        inner, known = declared, old
        while inner.items is not None:
            inner, known = inner.items, None if known is None else known.items
        yield from _demanded({} if known is None else known.properties, inner.properties, f"{prefix}{name}.")


def _lacking(
    before: Mapping[str, Field], after: Mapping[str, Field], values: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """The paths of what a document lacks."""
    for name, declared in after.items():
        old = before.get(name)
        value = values.get(name, MISSING)
        if declared.required and (old is None or not old.required):
            is_brought = value is MISSING and declared.default is not MISSING
            if value is None or (value is MISSING and not is_brought and name not in {"_id", "id"}):
                yield prefix + name
        yield from _inside(old, declared, value, f"{prefix}{name}.")


def _inside(old: Field | None, declared: Field, value: Any, prefix: str) -> Iterator[str]:
    if isinstance(value, list) and declared.items is not None:
        for item in value:
            yield from _inside(None if old is None else old.items, declared.items, item, prefix)
    elif isinstance(value, dict):
        yield from _lacking({} if old is None else old.properties, declared.properties, value, prefix)


_SLICE_DOCUMENTS = 1_000


def change_definition(  # noqa: PLR0913 - one door with keyword-only options
    batch_id: str,
    model: Model,
    *,
    seen: View,
    actor: str | None = None,
    files: FilesSwitched | None = None,
    mapping: bytes | None = None,
    now_ms: int = 0,
) -> Pending:
    """The batch that puts `model` in force, where `seen` is the state before. One scan if an index is new and unique.

    `files` switches readable files with it. `mapping`, as `encode_mapping` writes it, is what becomes of all documents:
    a scan more, of all that is there. If documents end otherwise from then on, that is since `now_ms`.

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

    events: tuple[Event, ...] = (schema, *expiry_events(before.model, model, now_ms))
    if files is not None:
        events += (files,)
    guard = _ModelGuard(model, seen, upgrades, None if mapping is not None else required)
    return Pending(batch_id, events=events, actor=actor, guard=guard)


@dataclass(frozen=True, slots=True)
class _ModelGuard:
    """Refuses a new model if another one came between, or documents that it does not take."""

    model: Model
    seen: View
    upgrades: Upgrades
    required: Requirements | None
    """None if a mapping says what becomes of documents."""

    def check(self, view: View) -> None:
        now, before = view.definition, self.seen.definition
        if (now.body, now.versions) != (before.body, before.versions):
            raise ConflictError(f"the definition of {self.model.name}", reason="another process changed it meanwhile")
        if self.required is None:
            check_since(self.model, self.upgrades, self.seen, view)
        else:
            self.required.check_since(self.seen, view)


def create_index(batch_id: str, index: Index, *, seen: View, actor: str | None = None) -> Pending:
    """The batch that makes an index beside those of the model, where `seen` is the state before; of lists as well.

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
    if index.kind:
        kind_for(index)
    if definition.model is not None and (held is None or not held.declared):
        _check_paths(definition.model, index)
    _check_unique([index], seen)
    event = ListsCreated if index.kind else IndexCreated
    created = event(name=index.name, definition=encode_index(index))
    return Pending(batch_id, events=(created,), actor=actor, guard=IndexGuard(created))


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
    dropped = IndexDropped(name=name)
    return Pending(batch_id, events=(dropped,), actor=actor, guard=IndexGuard(dropped))


@dataclass(frozen=True, slots=True)
class IndexGuard:
    """Refuses an event of an index where the index no longer is what it must be for it."""

    event: IndexEvent

    def check(self, view: View) -> None:
        """See `Guard`; raises ConflictError."""
        view.definition.indexes.check(self.event)


class DocumentScan(Protocol):
    """All documents of a state."""

    def scan(self) -> Iterator[tuple[bytes, StoredVersion]]:
        """Each id with what is under it, in order of key."""
        ...


def duplicates(index: Index, view: DocumentScan) -> list[Problem]:
    """Each value that several documents have in an index, with their ids; the first hundred.

    One scan, and a second one if there are any. Raises InvalidRequestError for a document that it cannot take.
    """
    hashes = key_hashes(key for _, keys in _keys(index, view) for key in keys)
    suspects = {one for one, other in pairwise(sorted(hashes)) if one == other}
    if not suspects:
        return []
    owners: dict[bytes, list[StoredVersion]] = {}
    for held, keys in _keys(index, view):
        for key in keys:
            if key_hash(key) in suspects:
                owners.setdefault(key, []).append(held)
    several = islice(((key, held) for key, held in owners.items() if len(held) > 1), DUPLICATES_SHOWN)
    return [
        duplicate_problem(index, keys_of(index, held[0].document)[key], [one.id for one in held])
        for key, held in several
    ]


def _keys(index: Index, view: DocumentScan) -> Iterator[tuple[StoredVersion, list[bytes]]]:
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


def _type_of(index: Index) -> Literal["standard", "multiValue", "compound", "text"]:
    """What a model would call it, as far as that decides where it may be."""
    if index.kind:  # lists have no readable file, so they may be over the fields of another index
        return "text"
    return "multiValue" if index.multi_valued else "compound" if index.compound else "standard"


def _check_paths(model: Model, index: Index) -> None:
    """Raise InvalidRequestError if the model, with the index in it, would have mistakes."""
    wanted = IndexDefinition(
        index.fields,
        unique=index.unique,
        type=_type_of(index),
        sparse=index.sparse,
    )
    report = ProblemReport()
    check_rules(replace(model, indexes={**model.indexes, index.name: wanted}), report)
    if report.errors:
        raise InvalidRequestError(f"index {index.name}", problems=report.errors)


# --- Named filters.

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}", re.ASCII)


def register_function(batch_id: str, name: str, tree: Filter, *, collection: str, actor: str | None) -> Pending:
    """The batch that has a name stand for a filter, in place of what it may have stood for. No requests.

    Raises InvalidRequestError for what is no name, LimitExceededError for too long a filter. The commit raises
    NotFoundError for a function that the filter names and that is not there, InvalidRequestError if it would use
    itself, LimitExceededError for too many or too large ones. Nothing is written then.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"function {name!r:.100}",
            reason="its name must begin with a letter, and have letters, digits, _ . - only, 100 at most",
            fix="choose another name",
        )
    body = tree.text.encode()
    if len(body) > FUNCTION_BYTES_MAX:
        raise LimitExceededError(
            f"function {name} of {len(body):,} bytes",
            reason=f"FUNCTION_BYTES_MAX is {FUNCTION_BYTES_MAX:,}",
            fix="split it into several that it names",
        )
    registered = FunctionRegistered(name=name, filter=body)
    return Pending(batch_id, events=(registered,), actor=actor, guard=_RegisterGuard(name, tree, collection))


def drop_function(batch_id: str, name: str, *, collection: str, actor: str | None) -> Pending:
    """The batch that drops a function. No requests.

    The commit raises NotFoundError, and InvalidRequestError if other functions name it. Nothing is written then.
    """
    return Pending(batch_id, events=(FunctionDropped(name=name),), actor=actor, guard=_DropGuard(name, collection))


@dataclass(frozen=True, slots=True)
class _RegisterGuard:
    """Refuses a function that the others do not allow: one that is missing, a circle, too many."""

    name: str
    tree: Filter
    collection: str

    def check(self, view: View) -> None:
        known = functions_of(view.definition, self.collection)
        if self.name not in known.bodies and len(known.bodies) >= FUNCTIONS_MAX:
            raise LimitExceededError(
                f"function {self.name}", reason=f"FUNCTIONS_MAX is {FUNCTIONS_MAX:,}", fix="drop some that are not used"
            )
        known.check(self.name, self.tree)


@dataclass(frozen=True, slots=True)
class _DropGuard:
    """Refuses to drop a function that is not there, or that others name."""

    name: str
    collection: str

    def check(self, view: View) -> None:
        known = functions_of(view.definition, self.collection)
        if self.name not in known.bodies:
            raise known.unknown(self.name)
        users = known.users(self.name)
        if users:
            raise InvalidRequestError(
                f"function {self.name}", reason=f"{', '.join(users[:10])} use it", fix="change or drop these first"
            )
