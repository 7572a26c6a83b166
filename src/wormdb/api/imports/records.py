"""Imports by a caller's program: records of any number into one collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from wormdb.api.imports.intake import Rejection
from wormdb.api.imports.rows import Replay, RowSpool, pack_record, some_rows, unpack_record
from wormdb.api.imports.run import ImportResult, ImportRules, run_import
from wormdb.api.imports.stream import Stream
from wormdb.api.records import Record
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from wormdb.api.access import Access
    from wormdb.api.calls import Author

__all__ = ["CONFLICT_RULES", "ConflictRule", "ImportOptions", "ImportResult", "Rejection", "import_records"]

ConflictRule = Literal["error", "replace", "ignore"]
CONFLICT_RULES: Final[tuple[ConflictRule, ...]] = ("error", "replace", "ignore")


class ImportOptions(TypedDict, total=False):
    """Options of an import."""

    on_conflict: ConflictRule
    """What becomes of a record whose id exists, in the collection or before it: `error` rejects it, which is the
    default, `replace` replaces the document, `ignore` leaves it as it is."""
    id_field: str | None
    """The field that is the id; without it `id` or `_id` is. It stays a field too if the model declares it."""
    source: bytes | None
    """A digest of the file. With it the ids that are made depend on it and on the place of the record alone, so that a
    second run finds the documents of the first."""
    from_line: int
    """Records that begin before this line are passed over."""
    rejects_max: int | None
    """Nothing is imported if more records are rejected; without it there is no limit."""
    job: str
    """A name: with the same one again nothing is imported twice."""
    told: Callable[[ImportResult], None] | None
    """Told after every 10,000 records, and at the end, how far it is."""


def import_records(
    access: Access[Any],
    by: Author,
    records: Iterable[Record | Mapping[str, Any]],
    rejected: Callable[[Rejection], None] | None,
    options: ImportOptions,
) -> ImportResult:
    """Import records, all by one entry of the log; costs and raises as `run_import`.

    Raises InvalidRequestError for a rule that there is not, PermissionDeniedError if nothing may be written.
    """
    rule = options.get("on_conflict", "error")
    if rule not in CONFLICT_RULES:
        raise InvalidRequestError(
            f"on_conflict={rule!r:.40}", reason="there is no such rule", fix=f"use one of {CONFLICT_RULES}"
        )
    source, told, job = options.get("source"), options.get("told"), options.get("job", "")
    rules = ImportRules(
        options.get("id_field"),
        rule,
        job,
        rejects_max=options.get("rejects_max"),
        needs_ids=rule == "ignore" and not job,
        forwards=access.settings.forward != "manual",
    )
    kept: Replay[Record] | list[Record | Mapping[str, Any]]
    kept = records if isinstance(records, list) else Replay(_records(records), RowSpool(pack_record, unpack_record))
    first = options.get("from_line", 0)
    stream = Stream(access, lambda: some_rows("", _records(kept), source, first), rules.rejects_max, told)
    try:
        result = run_import(access, by, rules, lambda: stream, rejected or _forget)
    finally:
        stream.close()
        if isinstance(kept, Replay):
            kept.close()
    if told is not None:
        told(result)
    return result


def _records(records: Iterable[Record | Mapping[str, Any]]) -> Iterator[Record]:
    for place, given in enumerate(records, 1):
        yield given if isinstance(given, Record) else _record(place, given)


def _record(place: int, given: Mapping[str, Any]) -> Record:
    values = dict(given)
    return Record(place, values, len(str(values)))


def _forget(rejected: Rejection) -> None:
    """For a caller that does not want to know."""
