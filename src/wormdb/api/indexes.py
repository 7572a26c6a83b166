"""The indexes of one collection, as users make, see and drop them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from wormdb.api.status import (
    IndexSummary,
    describe_index,
    describe_index_of_files,
    indexes_of,
    indexes_of_files,
)
from wormdb.engine.commit.define import create_index, drop_index
from wormdb.engine.commit.resolve import landed
from wormdb.engine.state.indexes import PRIMARY, check_index_name
from wormdb.engine.tree.definition import Index, read_bson_types
from wormdb.errors import ConflictError, InvalidRequestError, NotFoundError
from wormdb.files.table_state import table_states
from wormdb.schema.problems import did_you_mean
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.access import Access
    from wormdb.api.status import IndexDescription
    from wormdb.files.write.tables import TableKey

__all__ = ["Indexes", "WrittenFields", "read_fields", "read_index", "read_text_index", "read_vector_index"]

T = TypeVar("T")

WrittenFields: TypeAlias = "str | Sequence[str | tuple[str, int]] | Mapping[str, int]"
""""email", ["city", "age"], or with orders: [("city", 1), ("age", -1)]."""

_BUILT_LATER = "it is there, and forward() or a node builds it"


class Indexes(Generic[T]):
    """Makes, shows and drops indexes."""

    def __init__(self, access: Access[T]) -> None:
        """No requests."""
        self._access = access

    def all(self) -> list[IndexSummary]:
        """The primary one first, the others in order of their names. 1 GET in a warm process; of files 1 each."""
        files = self._access.files
        if files is not None:
            return list(indexes_of_files(files))
        view = self._access.view()
        return list(indexes_of(view.definition, None if view.place is None else view.place.root))

    def create(self, index: Index, *, wait: bool) -> IndexSummary:
        """Make an index, and with `wait` build it. Raises as `Collection.create_index` says."""
        access = self._access
        access.check_mode()
        check_index_name(index.name)
        seen = access.present()
        known = seen.definition.indexes.get(index.name)
        if known is not None and known.index == index and known.state not in {"failed", "dropped"}:
            if wait and known.state != "ready":
                access.log.forward()
            return self._made(index.name)
        pending = create_index(access.ledger.batch_id(), index, seen=seen, actor=access.author.actor)
        committed = access.ledger.commit(pending, seconds=access.settings.commit_seconds)
        with landed(f"index {index.name}", committed, rest=_BUILT_LATER):
            if wait:
                access.log.forward()
            return self._made(index.name)

    def describe(self, name: str) -> IndexDescription:
        """One index in detail, and its readable file. 1 GET in a warm process; of files 1 each. Raises NotFoundError.

        Where files are kept, 1 GET for each file of the index and 1 more.
        """
        _check_name(name)
        files = self._access.files
        if files is not None:
            described = describe_index_of_files(files, name)
            if described is None:
                raise self._unknown(name, indexes_of_files(files))
            return described
        view = self._access.view()
        found = describe_index(view, name)
        if found is None:  # perhaps it is new, and the state is old
            view = self._access.present()
            found = describe_index(view, name)
        if found is None:
            raise self._unknown(name, indexes_of(view.definition))
        if found.state != "ready":
            return found
        key: TableKey = ("index", found.fields)
        file = table_states(self._access.home.files.site(self._access.ledger), [key]).get(key)
        return found if file is None else replace(found, file=file.state, file_reason=file.reason)

    def build(self, name: str) -> IndexSummary:
        """Build one index that is not ready. Costs as `Collection.forward`; raises as `Collection.build_index` says."""
        _check_name(name)
        access = self._access
        found = access.present().definition.indexes.get(name)
        if name != PRIMARY and (found is None or found.state == "dropped" or found.index.is_owners):
            raise self._unknown(name, self.all())
        committed = None
        if found is not None and found.state == "failed":
            access.check_mode()
            pending = create_index(
                access.ledger.batch_id(), found.index, seen=access.present(), actor=access.author.actor
            )
            committed = access.ledger.commit(pending, seconds=access.settings.commit_seconds)
        with landed(f"index {name}", committed, rest=_BUILT_LATER):
            access.log.forward()
            if found is not None:
                access.write_tables([("index", found.index.fields)])
            made = self._made(name)
            if made.task != "renew":
                return made
            access.ledger.tend_lists(lambda lists: lists.renew(name))
            return self._made(name)

    def measure(self, name: str) -> None:
        """Measure what an index of vectors finds, after all is brought forward; nothing for others.

        Costs as `ListRenewal.measure`.
        """
        _check_name(name)
        found = self._access.view().definition.indexes.get(name)
        if self._access.files is None and found is not None and found.index.kind == "vector":
            self._access.ledger.tend_lists(lambda lists: lists.measure(name))

    def build_all(self) -> list[IndexSummary]:
        """Build what waits. Costs as `Collection.forward`, 1 GET, and as `Access.write_tables`."""
        access = self._access
        access.log.forward()
        access.write_tables([("index", each.fields) for each in access.ledger.known().definition.indexes.ready])
        return self.all()

    def _unknown(self, name: str, known: Iterable[IndexSummary]) -> NotFoundError:
        kind = "model" if self._access.writer.model is not None else "collection"
        return NotFoundError(
            f"Unknown index {name!r} on {kind} {self._access.name}",
            fix=did_you_mean(name, [each.name for each in known]),
        )

    def _made(self, name: str) -> IndexSummary:
        """An index that was to be built; raises if it is not there, or failed."""
        made = next((each for each in self.all() if each.name == name), None)
        if made is None:
            raise ConflictError(f"index {name}", reason="another process dropped it meanwhile")
        if made.state == "failed":
            raise InvalidRequestError(
                f"index {name}",
                reason=made.reason or "it failed",
                fix="change the documents, and create it again",
            )
        return made

    def drop(self, name: str) -> None:
        """Drop an index. Raises as `Collection.drop_index` says."""
        access = self._access
        access.check_mode()
        pending = drop_index(access.ledger.batch_id(), name, seen=access.present(), actor=access.author.actor)
        access.ledger.commit(pending, seconds=access.settings.commit_seconds)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        reason = f"an index is named by a string, not {type(name).__name__}"
        raise InvalidRequestError(f"index {name!r:.100}", reason=reason, fix="look at indexes() for the names")


def read_fields(fields: WrittenFields) -> tuple[str, ...]:
    """The dotted names that an index is over, in order; an order of 1 or -1 behind each says nothing. No requests.

    Raises InvalidRequestError.
    """
    if isinstance(fields, Mapping):
        given: tuple[Any, ...] = tuple(fields.items())
    else:
        given = (fields,) if isinstance(fields, str) or not isinstance(fields, Iterable) else tuple(fields)
    pairs = [each if isinstance(each, list | tuple) and len(each) == 2 else (each, 1) for each in given]
    for path, order in pairs:
        if isinstance(order, bool) or order not in (1, -1):
            is_text = str(order) == "text"
            raise InvalidRequestError(
                f"index over {path!r} with {order!r}",
                reason="an index here is of values in their order",
                fix=f"write create_text_index({path!r})" if is_text else "write 1 or -1, or the name alone",
            )
    paths = tuple(path for path, _ in pairs)
    if not paths or not all(isinstance(path, str) for path in paths):
        raise InvalidRequestError(
            f"index over {fields!r}", reason="fields are dotted names", fix='give "email", or ["city", "age"]'
        )
    return paths


def read_index(
    fields: WrittenFields, name: str | None, *, unique: bool, sparse: bool, bson_type: str | Sequence[str] | None
) -> Index:
    """The index that a caller describes; raises InvalidRequestError. No requests."""
    paths = read_fields(fields)
    if len(set(paths)) < len(paths):
        raise InvalidRequestError(f"index over {fields!r}", reason="it names a field twice", fix="name each once")
    name = name or "_".join(paths)
    types = read_bson_types(bson_type, paths, name=name)
    return Index(name, paths, unique=unique, sparse=sparse, bson_types=types)


def read_text_index(fields: object, name: str | None, *, language: object, stop_words: object) -> Index:
    """The text index that a caller describes; raises InvalidRequestError, MissingExtraError. No requests."""
    from wormdb.bql.search.fields import parse_fields
    from wormdb.engine.lists.definition import list_index
    from wormdb.engine.lists.text_kind import TextKind

    found = parse_fields(fields, language, stop_words)
    _ = found.analyzer  # here is where a missing package is told, not where the index is built
    return list_index(name or "text", TextKind(found))


def read_vector_index(field: object, name: str | None, dimensions: object, distance: object) -> Index:
    """The index of vectors that a caller describes; raises InvalidRequestError, MissingExtraError. No requests."""
    from wormdb.engine.lists.definition import list_index
    from wormdb.engine.lists.vector_kind import make_vector_kind

    load("numpy")
    if isinstance(field, str) and field.partition(".")[0] in {"id", "_id"}:
        reason = "ids are strings, numbers and ObjectIds, and no vectors"
        raise InvalidRequestError(f"a vector index on {field}", reason=reason, fix="name the field of the vectors")
    kind = make_vector_kind({"field": field, "dimensions": dimensions, "distance": distance})
    return list_index(name or kind.field, kind)
