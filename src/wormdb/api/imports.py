"""Records of files into one collection: in batches of bounded size, the bad ones set aside.

A batch is checked as a whole, which is fast, and record by record only if something is wrong in it. Which ids exist is
looked up before; if another writer changes them meanwhile, the batch starts again. If one record takes a value of a
unique index that another has, the batch is divided until that record is alone.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from hashlib import shake_256
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar

from wormdb.api.records import Record
from wormdb.engine.commit.operations import Insert, ReadVersion, Save
from wormdb.engine.state.view import id_key
from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    UniqueViolationError,
    WormError,
)
from wormdb.schema.cells import CellReader
from wormdb.schema.identity import new_id
from wormdb.settings import IMPORT_BYTES, IMPORT_RECORDS
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from wormdb.api.access import Access
    from wormdb.api.document import Author
    from wormdb.engine.commit.operations import Operation
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.errors import Problem
    from wormdb.schema.model import Model

__all__ = ["CONFLICT_RULES", "ImportOptions", "ImportResult", "Importer", "Rejection", "with_given_id"]

ConflictRule = Literal["error", "replace", "ignore"]
CONFLICT_RULES: Final[tuple[ConflictRule, ...]] = ("error", "replace", "ignore")
_MADE: Final = frozenset({"uuid", "ulid", "objectid"})
_IDS: Final = ("id", "_id")

T = TypeVar("T")


class ImportOptions(TypedDict, total=False):
    """Options of an import."""

    on_conflict: ConflictRule
    """What becomes of a record whose id exists, in the collection or before it: `error` rejects it, which is so without
    the option, `replace` replaces the document, `ignore` leaves it as it is."""
    id_field: str | None
    """The field that is the id; without it `id` or `_id` is. It stays a field too if the model declares it."""
    source: bytes | None
    """A digest of the file. With it the ids that are made depend on it and on the place of the record alone, so that a
    second run finds the documents of the first."""
    from_line: int
    """Records that begin before this line are passed over."""
    rejects_max: int | None
    """The import stops when more records are rejected; without it all are read."""
    told: Callable[[ImportResult], None] | None
    """Told after each batch how far it is."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A record that was not imported, and why."""

    record: Record
    reason: str
    fix: str = ""
    problems: tuple[Problem, ...] = ()
    """Every field that does not fit the model."""


@dataclass(slots=True)
class ImportResult:
    """What an import did."""

    read: int = 0
    """Records that were looked at."""
    inserted: int = 0
    replaced: int = 0
    """Documents, or records earlier in the file, that a record replaced."""
    unchanged: int = 0
    """Records that would replace a document by the same."""
    ignored: int = 0
    """Records whose id exists, by the rule `ignore`."""
    rejected: int = 0
    line: int = 0
    """Every record that begins up to this line is dealt with."""
    is_stopped: bool = False
    """Whether too many records were rejected."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        names = {"is_stopped": "stopped"}
        return {names.get(name, name): value for name, value in asdict(self).items()}


@dataclass(slots=True)
class _BatchPlan:
    """What becomes of some records, if the state stays as it is."""

    operations: list[Operation] = field(default_factory=list)
    rejects: list[Rejection] = field(default_factory=list)
    replaced: int = 0
    unchanged: int = 0
    ignored: int = 0


_Item = tuple[Record, dict[str, Any]]


class Importer(Generic[T]):
    """One import. Not thread-safe."""

    def __init__(
        self, access: Access[T], by: Author, rejected: Callable[[Rejection], None] | None, options: ImportOptions
    ) -> None:
        """Raises InvalidRequestError for a rule that there is not, PermissionDeniedError if nothing may be written."""
        self._access = access
        self._by = by
        self._rejected = rejected or _forget
        self._options = options
        self._rule = options.get("on_conflict", "error")
        if self._rule not in CONFLICT_RULES:
            raise InvalidRequestError(
                f"on_conflict={self._rule!r:.40}", reason="there is no such rule", fix=f"use one of {CONFLICT_RULES}"
            )
        access.writer.check_mode()
        self._cells = CellReader(access.writer.model)
        self._result = ImportResult()
        self._waiting: list[_Item] = []
        self._size = 0

    def run(self, records: Iterable[Record | Mapping[str, Any]]) -> ImportResult:
        """Import them all. For each batch 1 GET, the look-up of its ids, and a commit; memory for one batch."""
        last = 0
        for place, given in enumerate(records, 1):
            record = given if isinstance(given, Record) else _record(place, given)
            if record.line < self._options.get("from_line", 0):
                continue
            if len(self._waiting) >= IMPORT_RECORDS or self._size >= IMPORT_BYTES:
                self._flush(last)
            if self._result.is_stopped:
                return self._result
            self._take(record, place)
            last = record.line
        self._flush(last)
        return self._result

    # --- one record ---

    def _take(self, record: Record, place: int) -> None:
        self._result.read += 1
        if record.values is None:
            self._reject([Rejection(record, record.problem)])
            return
        try:
            values = self._cells.document(record.values) if record.is_text else record.values
            self._waiting.append((record, self._identified(values, place)))
        except InvalidRequestError as error:
            self._reject([_rejected(record, error)])
        self._size += record.size

    def _identified(self, values: dict[str, Any], place: int) -> dict[str, Any]:
        """The values with the id that counts, made if it can be made alike in every run."""
        model = self._access.writer.model
        values = with_given_id(values, self._options.get("id_field"), model)
        if any(name in values for name in _IDS):
            return values
        strategy = "ulid" if model is None else model.id
        source = self._options.get("source")
        if source is not None and strategy in _MADE:
            return {**values, "id": _derived(strategy, source, place)}
        if self._rule == "ignore" and strategy != "given" and not (model is not None and model.is_singleton):
            raise InvalidRequestError(
                "record without an id",
                reason="it has no id, and a second run would insert it again",
                fix="give it one, or do not ignore conflicts",
            )
        return values

    # --- one batch ---

    def _flush(self, last: int) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting and not self._result.is_stopped:
            self._import(waiting)
        told = self._options.get("told")
        if not self._result.is_stopped:
            self._result.line = max(self._result.line, last)
        if told is not None:
            told(self._result)

    def _import(self, items: Sequence[_Item]) -> None:
        attempts = self._access.context.settings.modify_attempts
        for _ in range(attempts):
            plan = self._plan(items)
            if self._is_too_many(len(plan.rejects)):
                self._reject(plan.rejects)
                return
            try:
                if plan.operations:
                    self._access.commit(plan.operations, self._by)
            except UniqueViolationError as error:
                self._divide(items, error)
                return
            except (AlreadyExistsError, ConflictError):
                continue  # another writer wrote one of them meanwhile: look again
            self._done(plan)
            return
        raise ConflictError(
            f"import into {self._access.name}", reason=f"others wrote the same documents {attempts} times in a row"
        )

    def _divide(self, items: Sequence[_Item], error: UniqueViolationError) -> None:
        """Import the halves one after the other, so that the first record with a value has it."""
        if len(items) == 1:
            self._reject([_rejected(items[0][0], error)])
            return
        middle = len(items) // 2
        for half in (items[:middle], items[middle:]):
            if not self._result.is_stopped:
                self._import(half)

    def _plan(self, items: Sequence[_Item]) -> _BatchPlan:
        plan = _BatchPlan()
        checked = self._operations(items, plan)
        keys = [_key(operation) for _, operation in checked]
        view = self._access.present()
        wanted = [key for key in dict.fromkeys(keys) if key is not None]
        found = view.get_many(wanted) if wanted else {}
        chosen: dict[bytes, Operation | None] = {}
        firsts: dict[bytes, Record] = {}
        for ((record, values), operation), key in zip(checked, keys, strict=True):
            if key is None:
                plan.operations.append(operation)
                continue
            held = found.get(key)
            is_there = held is not None and held.document is not None
            if not is_there and key not in firsts:
                chosen[key], firsts[key] = operation, record
            elif self._rule == "replace":
                plan.replaced += chosen.get(key) is not None
                chosen[key] = self._replacing(values, held, view) if held is not None and is_there else operation
                plan.unchanged += chosen[key] is None
                firsts[key] = record
            elif self._rule == "ignore":
                plan.ignored += 1
            else:
                plan.rejects.append(_duplicate(record, values, firsts.get(key)))
        made = [operation for operation in chosen.values() if operation is not None]
        plan.replaced += sum(isinstance(operation, Save) for operation in made)
        plan.operations += made
        return plan

    def _operations(self, items: Sequence[_Item], plan: _BatchPlan) -> list[tuple[_Item, Operation]]:
        """What inserts each record; those that fit no document are rejected."""
        writer = self._access.writer
        try:
            return list(zip(items, writer.inserts([values for _, values in items]).operations, strict=True))
        except WormError:
            pass
        found: list[tuple[_Item, Operation]] = []
        for item in items:
            try:
                found.append((item, writer.prepare("insert", item[1]).operation))
            except WormError as error:
                plan.rejects.append(_rejected(item[0], error))
        return found

    def _replacing(self, values: dict[str, Any], held: StoredVersion, view: View) -> Operation | None:
        """What replaces a document; None if it stays as it is."""
        writer = self._access.writer
        shape = writer.shape("replace", values, ReadVersion(held, view.number, writer.origin))
        assert shape.id is not None
        return None if shape.is_unchanged else Save(shape.id, shape.body, shape.loaded)

    def _done(self, plan: _BatchPlan) -> None:
        result = self._result
        result.inserted += sum(not isinstance(operation, Save) for operation in plan.operations)
        result.replaced += plan.replaced
        result.unchanged += plan.unchanged
        result.ignored += plan.ignored
        self._reject(plan.rejects)

    # --- rejects ---

    def _reject(self, rejects: Sequence[Rejection]) -> None:
        self._result.rejected += len(rejects)
        for each in rejects:
            self._rejected(each)
        self._result.is_stopped = self._is_too_many(0)

    def _is_too_many(self, more: int) -> bool:
        most = self._options.get("rejects_max")
        return most is not None and self._result.rejected + more > most


def _forget(rejected: Rejection) -> None:
    """For a caller that gave no `rejected`."""


class _DerivedChance:
    """Bytes that are always the same for one place in one file."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def fraction(self) -> float:
        """Not by chance at all."""
        return 0.0

    def token(self, count: int) -> bytes:
        """`count` bytes."""
        return shake_256(self._seed).digest(count)


def _derived(strategy: Any, source: bytes, place: int) -> str:
    clock = ManualClock(int.from_bytes(shake_256(source).digest(5), "big"))
    made = new_id(strategy, clock=clock, chance=_DerivedChance(source + place.to_bytes(8, "big")))
    assert made is not None, "the strategy makes ids"
    return made


def with_given_id(values: dict[str, Any], id_field: str | None, model: Model | None) -> dict[str, Any]:
    """The values of a record with the id that it brings, from `id_field` if that is named: as text if ids are text.

    No requests; raises InvalidRequestError for two ids.
    """
    if id_field is not None and id_field not in _IDS and values.get(id_field, "") != "":
        if any(name in values for name in _IDS):
            raise InvalidRequestError(
                "record with two ids", reason=f"it has an id and {id_field!r}", fix="rename one of them"
            )
        rest = values if model is not None and id_field in model.fields else _without(values, id_field)
        values = {"id": values[id_field], **_without(rest, "id")}
    given = next((name for name in _IDS if name in values), None)
    if given is None or type(values[given]) is not int or not _has_text_ids(model):
        return values
    return {**values, given: str(values[given])}


def _has_text_ids(model: Model | None) -> bool:
    return model is not None and model.path.id is not None and model.path.id.type != "any"


def _record(place: int, given: Mapping[str, Any]) -> Record:
    values = dict(given)
    return Record(place, values, len(str(values)))


def _key(operation: Operation) -> bytes | None:
    """The key of an id that may exist; None for one that cannot."""
    return id_key(operation.id) if isinstance(operation, Insert) and not operation.fresh else None


def _without(values: dict[str, Any], name: str) -> dict[str, Any]:
    return {each: value for each, value in values.items() if each != name}


def _rejected(record: Record, error: WormError) -> Rejection:
    problems = error.problems if isinstance(error, InvalidRequestError) else ()
    return Rejection(record, error.reason or error.what, error.fix, problems)


def _duplicate(record: Record, values: dict[str, Any], first: Record | None) -> Rejection:
    identity = values.get("id", values.get("_id"))
    where = "a document has it" if first is None else f"the record of line {first.line:,} has it"
    return Rejection(record, f"the id {identity!r:.100} exists already: {where}", "replace or ignore such records")
