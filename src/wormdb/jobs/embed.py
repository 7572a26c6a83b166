"""Embed: a function of the user makes vectors of a field, and documents get them by ordinary writes.

First a scan finds the documents that need one. Then batches of them are embedded, each by one call of the function and
one entry of the log. A document is written only if it is still the version whose value was embedded; one that changed
meanwhile is read and embedded again. A batch that was written is not embedded again, so a job that stopped goes on.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from wormdb.bql.aggregation import value_of
from wormdb.bql.nearest import read_given_vector
from wormdb.bql.tree import conjunction
from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.format.path import Path, parse_path
from wormdb.format.vector import pack_vector
from wormdb.jobs.scan import JobScan, cells_along, written_filter
from wormdb.jobs.work import Item, Output, ProgressListener, Runner

if TYPE_CHECKING:
    from array import array

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.options import WrittenFilter
    from wormdb.bql.tree import Filter
    from wormdb.jobs.place import Where

__all__ = ["EmbedFunction", "EmbedOptions", "EmbedResult", "embed", "load_function"]

EmbedFunction: TypeAlias = Callable[[Sequence[Any]], Any]
"""Takes the values of some documents, and gives a vector for each: a list of lists, or an array of numpy."""

BATCH_ROWS: Final = 64
BATCH_ROWS_MAX: Final = 1_000
ITEMS_MAX: Final = 4_096
"""Pieces of work at most: of more documents each has several batches."""
ROUNDS_MAX: Final = 10
"""How often the documents of a batch are read again because one of them changed meanwhile."""
LAG_ENTRIES: Final = 256
"""When the log is this far ahead, it is brought forward between two batches."""
_DIGEST_CHARS: Final = 32

_calling = threading.Lock()


@dataclass(frozen=True, slots=True)
class EmbedOptions:
    """What is embedded, and where vectors go."""

    source: tuple[str, ...]
    """The field whose values the function gets; of several it gets a dict for each document."""
    target: str
    """The field that gets the vectors."""
    filter: WrittenFilter = None
    batch_rows: int = BATCH_ROWS
    """Values for one call of the function."""
    mark: str | None = None
    """A field that says of what a vector was made: then documents whose value changed since are embedded too."""
    again: bool = False
    """Whether documents that have a vector get another one."""
    form: Literal["auto", "packed", "list"] = "auto"
    """How vectors are stored; auto: packed, unless the model declares an array."""
    folder: str = ""
    """Where the module of the function is looked for besides."""
    tasks: int | None = None
    """How many pieces of work find the documents."""


@dataclass(frozen=True, slots=True)
class EmbedResult:
    """What was done."""

    collection: str
    embedded: int
    """Documents that got a vector."""
    changed: int
    """Those of them that were embedded again, because they changed meanwhile."""
    left: int
    """Documents that needed one when it began, and none when it was their turn."""
    batches: int
    """Calls of the function."""
    dimensions: int | None
    """Of the vectors; None if there is none."""


def load_function(name: str, folder: str = "") -> EmbedFunction:
    """The function MODULE:FUNCTION, looked for in `folder` too. Raises InvalidRequestError. No requests."""
    return _loaded(name, folder)


@lru_cache(maxsize=16)
def _loaded(name: str, folder: str) -> EmbedFunction:
    if folder and folder not in sys.path:
        sys.path.insert(0, folder)
    module, _, rest = name.partition(":")
    try:
        found: EmbedFunction = attrgetter(rest)(importlib.import_module(module))
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise InvalidRequestError(
            f"the function {name!r:.100}",
            reason=str(error),
            fix="write MODULE:FUNCTION, and run it where MODULE is; workers of Spark must have it too",
        ) from error
    if not callable(found):
        raise InvalidRequestError(f"the function {name!r:.100}", reason="it cannot be called", fix="name a function")
    return found


def embed(
    where: Where,
    function: str | EmbedFunction,
    options: EmbedOptions,
    runner: Runner,
    told: ProgressListener | None = None,
) -> EmbedResult:
    """Give documents the vectors that a function makes of them; run again, it goes on where it stopped.

    Documents are embedded that have a value and no vector; with `mark` also those of whose value, or by another
    function, the vector was not made; with `again` all of them. Costs a scan, then for each batch a read of its
    documents and 1 PUT, and as `Collection.forward` at the end and after each LAG_ENTRIES entries. The function is
    called by one thread at a time in each process.

    Raises InvalidRequestError for a function that cannot be found, fails, or gives something else than a vector for
    each value, and what writes raise: ValidationError, ConflictError, UnavailableError, OutcomeUnknownError. The first
    batch is tried alone, so that a mistake stops it at once; behind it all are tried, and the first error is raised.
    """
    plan = _EmbedPlan.of(where, function, options)
    scan = JobScan.of(where, plan.candidates())
    found = runner.run("find documents", _Find(plan, scan), scan.items(options.tasks), told)
    ids = [identity for body in found for identity in msgspec.msgpack.decode(body, type=list[bytes])]
    size = max(options.batch_rows, -(-len(ids) // ITEMS_MAX))
    parts = [ids[start : start + size] for start in range(0, len(ids), size)]
    items = [
        Item(f"documents {number * size + 1:,} to {number * size + len(part):,}", _packed(part), rows=len(part))
        for number, part in enumerate(parts)
    ]
    bodies: list[bytes] = []
    for some in (items[:1], items[1:]):
        bodies += runner.run("embed", _Embed(plan), some, told) if some else []
    done = [msgspec.msgpack.decode(body, type=_Done) for body in bodies]
    if done:
        where.handle().forward()
    return EmbedResult(
        where.name,
        sum(one.embedded for one in done),
        sum(one.changed for one in done),
        sum(one.left for one in done),
        sum(one.batches for one in done),
        next((one.dimensions for one in done if one.dimensions), None),
    )


def _packed(ids: Sequence[bytes]) -> bytes:
    return msgspec.msgpack.encode(ids)


class _Done(msgspec.Struct, frozen=True):
    """What one piece of work did."""

    embedded: int = 0
    changed: int = 0
    left: int = 0
    batches: int = 0
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class _EmbedPlan:
    """What every piece must know: a value that can be sent."""

    where: Where
    function: str | EmbedFunction
    options: EmbedOptions
    filter_text: str
    is_packed: bool

    @classmethod
    def of(cls, where: Where, function: str | EmbedFunction, options: EmbedOptions) -> _EmbedPlan:
        """Raises InvalidRequestError for what cannot be. 1 GET for the schema, and what functions in a filter cost."""
        if isinstance(function, str):
            load_function(function, options.folder)
        names = [*options.source, options.target, *([] if options.mark is None else [options.mark])]
        if not options.source or len(set(names)) < len(names) or {"id", "_id"} & {options.target, options.mark}:
            raise InvalidRequestError(
                f"embedding {', '.join(names)}",
                reason="the fields that are read and written must be different ones, and not the id",
                fix="name one to read and another to write",
            )
        for name in names:
            parse_path(name)
        if not 1 <= options.batch_rows <= BATCH_ROWS_MAX:
            reason = f"it must be a number from 1 to {BATCH_ROWS_MAX:,}"
            raise InvalidRequestError(f"batches of {options.batch_rows:,} documents", reason=reason)
        is_packed = options.form == "packed"
        if options.form == "auto":
            model = where.access().writer.model
            field = None if model is None else model.field_at(options.target)
            is_packed = field is None or field.type != "array"
        return cls(where, function, options, written_filter(where, options.filter).text, is_packed)

    @property
    def name(self) -> str:
        """The function, for people and for marks."""
        function = self.function
        return function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"

    def chosen(self) -> Filter:
        """The filter of the caller."""
        return written_filter(self.where, json.parse(self.filter_text, operators=True))

    def candidates(self) -> Filter:
        """What a scan must look at."""
        if self.options.again or self.options.mark is not None:
            return self.chosen()
        return conjunction([self.chosen(), written_filter(self.where, {self.options.target: None})])

    def call(self) -> EmbedFunction:
        """The function, loaded once in a process."""
        return load_function(self.function, self.options.folder) if isinstance(self.function, str) else self.function

    def digest(self, values: Sequence[Any]) -> str:
        """What a mark says: of which values and by which function a vector was made."""
        version = getattr(self.call(), "version", None)
        body = json.encode([self.name, None if version is None else str(version), *values])
        return sha256(body).hexdigest()[:_DIGEST_CHARS]

    def needs(self, values: Sequence[Any], target: Any, mark: Any) -> bool:
        """Whether a document with these values is to be embedded."""
        if all(value is None for value in values):
            return False
        if self.options.mark is not None:
            return _is_nothing(target) or bool(mark != self.digest(values))
        return self.options.again or _is_nothing(target)


def _is_nothing(value: Any) -> bool:
    return value is None or value is MISSING


@dataclass(frozen=True, slots=True)
class _Find:
    """Finds the documents that need a vector; a value that can be sent."""

    plan: _EmbedPlan
    scan: JobScan

    def __call__(self, body: bytes, /) -> Output:
        """The ids of those of one range."""
        options = self.plan.options
        # Without a mark nothing is compared: the filter has found those without a vector.
        others = [] if options.mark is None else [options.target, options.mark]
        names = ["_id", *options.source, *others]
        found: list[bytes] = []
        rows = 0
        for portion in self.scan.portions(body, names):
            rows += portion.rows
            columns = [cells_along(portion, name) for name in (*options.source, *others)]
            for identity, cells in zip(portion.values("_id"), zip(*columns, strict=True), strict=True):
                values = [None if value is MISSING else value for value in cells[: len(options.source)]]
                target, mark = cells[len(options.source) :] if others else (None, None)
                if self.plan.needs(values, target, mark):
                    found.append(json.encode(identity))
        return Output(_packed(found), rows)


@dataclass(frozen=True, slots=True)
class _Embed:
    """Embeds some documents, batch by batch; a value that can be sent."""

    plan: _EmbedPlan

    def __call__(self, body: bytes, /) -> Output:
        """Write the vectors of some documents. Costs as `embed` says of a batch."""
        ids = [json.decode(one, name="document id") for one in msgspec.msgpack.decode(body, type=list[bytes])]
        collection = self.plan.where.handle()
        size = self.plan.options.batch_rows
        done = [self._batch(collection, ids[start : start + size]) for start in range(0, len(ids), size)]
        total = _Done(
            sum(one.embedded for one in done),
            sum(one.changed for one in done),
            sum(one.left for one in done),
            sum(one.batches for one in done),
            next((one.dimensions for one in done if one.dimensions), None),
        )
        return Output(msgspec.msgpack.encode(total), total.embedded)

    def _batch(self, collection: Collection[Document], ids: list[Any]) -> _Done:
        """One entry of the log: read, embed, write; again while another writer changes one of the documents."""
        known: dict[bytes, array[float]] = {}
        first: dict[str, bytes] | None = None
        calls = 0
        for _ in range(ROUNDS_MAX):
            wanted = self._wanted(collection, ids)
            if not wanted:
                return _Done(left=len(ids), batches=calls)
            fresh = {each.key: each.values for each in wanted if each.key not in known}
            if fresh:
                known |= zip(fresh, self._vectors(list(fresh.values())), strict=True)
                calls += 1
            keys = {repr(each.document["id"]): each.key for each in wanted}
            first = first or keys
            if self._is_written(collection, wanted, known):
                _advance(collection)
                changed = sum(first.get(identity) != key for identity, key in keys.items())
                length = len(known[wanted[0].key])
                return _Done(len(wanted), changed, len(ids) - len(wanted), calls, length)
        raise ConflictError(
            f"{len(ids):,} documents of {collection.name}",
            reason=f"one of them changed {ROUNDS_MAX} times while vectors were made",
            fix="run it again; what is written stays",
        )

    def _wanted(self, collection: Collection[Document], ids: list[Any]) -> list[_Candidate]:
        """Those of some documents that need a vector now. Costs as a `find` of their ids."""
        plan, options = self.plan, self.plan.options
        chosen = conjunction([written_filter(plan.where, {"_id": {"$in": ids}}), plan.chosen()])
        found = []
        for document in collection.find(chosen):
            values = [_value(document, name) for name in options.source]
            mark = None if options.mark is None else _value(document, options.mark)
            if plan.needs(values, _value(document, options.target), mark):
                found.append(_Candidate(document, json.encode(values), values))
        return found

    def _vectors(self, values: list[list[Any]]) -> list[array[float]]:
        """What the function makes of some values."""
        names, what = self.plan.options.source, f"{self.plan.name} of {len(values):,} values"
        given = [dict(zip(names, each, strict=True)) if len(names) > 1 else each[0] for each in values]
        function = self.plan.call()
        try:
            with _calling:
                made = function(given)
            rows = list(made)
        except Exception as error:  # the function is the user's: whatever it raises is told
            reason = f"it raised {type(error).__name__}: {error}"
            raise InvalidRequestError(what, reason=reason, fix="mend it, and run the job again") from error
        if len(rows) != len(values):
            raise InvalidRequestError(what, reason=f"it gave {len(rows):,} vectors", fix="give one for each value")
        vectors = [read_given_vector(each) for each in rows]
        lengths = sorted({len(each) for each in vectors})
        if len(lengths) > 1:
            reason = f"it gave vectors of {lengths[0]:,} and of {lengths[-1]:,} numbers"
            raise InvalidRequestError(what, reason=reason, fix="give vectors of one length")
        return vectors

    def _is_written(
        self, collection: Collection[Document], wanted: Sequence[_Candidate], vectors: Mapping[bytes, array[float]]
    ) -> bool:
        """Whether all of them are written, each as the version that was read; nothing is if one is another now."""
        plan = self.plan
        batch = collection.batch()
        for each in wanted:
            vector = vectors[each.key]
            _put(
                each.document, parse_path(plan.options.target), pack_vector(vector) if plan.is_packed else list(vector)
            )
            if plan.options.mark is not None:
                _put(each.document, parse_path(plan.options.mark), plan.digest(each.values))
            batch.update(each.document)
        try:
            batch.flush()
        except (ConflictError, NotFoundError):
            return False
        return True


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A document that is to get a vector."""

    document: Document
    key: bytes
    """The values as bytes: equal ones have one vector."""
    values: list[Any]


def _value(document: Document, name: str) -> Any:
    path = parse_path(name)
    found = document["id"] if path in {("id",), ("_id",)} else value_of(dict(document), path)
    return None if found is MISSING else found


def _put(document: Document, path: Path, value: Any) -> None:
    """Set a value at a path, in documents that are made where none is. Raises InvalidRequestError."""
    *outer, last = path
    place: Any = document
    for name in outer:
        place = place.setdefault(name, {})
        if not isinstance(place, dict):
            raise InvalidRequestError(
                f"document {document['id']!r:.80}: {'.'.join(path)}",
                reason=f"{name} is no document",
                fix="write vectors to another field",
            )
    place[last] = value


def _advance(collection: Collection[Document]) -> None:
    """Bring the log forward if it is long: every reader reads what is not."""
    view = collection._access.view()  # noqa: SLF001 - this package is a part of the database
    if view.number - view.base_number >= LAG_ENTRIES:
        collection.forward()
