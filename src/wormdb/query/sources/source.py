"""Where documents come from: what an executor asks, and what a planner knows.

The engine's view of a collection is one source, readable files are another. A source is one state that does
not move: asked twice, it answers the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, TypeGuard, runtime_checkable

from wormdb.query.plan import ALL_IDS
from wormdb.schema.model import SYSTEM_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from wormdb.bql.nearest import Distance, Near
    from wormdb.bql.search.fields import SearchFields
    from wormdb.engine.blocks.portion import Portion
    from wormdb.engine.lists.nearest import Fetch, KnownRow
    from wormdb.engine.lists.postings import TextReader
    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.entries import Entry, Range
    from wormdb.engine.tree.statistics import IndexStatistics
    from wormdb.format.field_statistics import FieldStatistics
    from wormdb.format.kinds import Document
    from wormdb.format.list_run import Calibration
    from wormdb.format.path import Path

__all__ = [
    "NOTHING_KEPT",
    "Candidates",
    "CountingSource",
    "Entries",
    "Facts",
    "IndexFacts",
    "ListSource",
    "NearestSource",
    "NothingKept",
    "QuerySource",
    "Residency",
    "TextFacts",
    "Traits",
    "VectorFacts",
    "is_list_source",
    "is_nearest_source",
]


class Entries(Protocol):
    """The entries of one index: (key of the values and of the id, id as JSON and covered values)."""

    def scan(self, span: Range = ..., *, reverse: bool = ..., limit: int | None = ...) -> Iterator[Entry]:
        """The entries of a range in order of key, or against it; `limit` says how many will be taken at most."""
        ...

    def ranges(self, spans: Sequence[Range]) -> list[list[Entry]]:
        """The entries of each of some ranges, read side by side."""
        ...

    def count(self, span: Range = ...) -> int:
        """How many entries a range has, without reading what lies inside."""
        ...


class QuerySource(Protocol):
    """One state of a collection. Every method may raise CorruptionError, SnapshotTooOldError, UnavailableError."""

    @property
    def facts(self) -> Facts:
        """What is known without requests."""
        ...

    def scan(
        self,
        names: Sequence[str],
        *,
        span: Range = ALL_IDS,
        bounds: Mapping[str, Range] | None = None,
        in_order: bool = True,
        rows: int | None = None,
    ) -> Iterator[Portion]:
        """Columns of all documents whose id's key is in `span`, as `engine.columns.scan.scan_columns` gives them.

        Names are dotted paths, `_id`, DOCUMENT, and VERSION. `bounds` may leave out blocks without a value in one of
        them, and without an array at its path or on the way. In order of id, unless `in_order` is False: then as is
        cheapest, still each document once. `rows` says about how many will be taken: then no more is read ahead.
        """
        ...

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """The live documents under some keys of ids, read side by side; without those that do not exist."""
        ...

    def entries(self, name: str) -> Entries:
        """An index by its name, one of `facts.indexes`. No requests yet."""
        ...


@runtime_checkable
class CountingSource(Protocol):
    """A source that knows how many documents there are."""

    def count_all(self) -> int:
        """The exact number of documents. No requests."""
        ...


@runtime_checkable
class ListSource(Protocol):
    """A source that has indexes of lists."""

    def expect_documents(self) -> None:
        """Begin to read what documents anywhere need first, and do not wait for it."""
        ...

    def texts(self, name: str) -> TextReader | None:
        """A text index by its name; None if it cannot answer for this state. Costs as `read_lists`, once a state."""
        ...


def is_list_source(source: object) -> TypeGuard[ListSource]:
    """Whether a source is a `ListSource`, by one of its methods: to ask a protocol takes longer than many a query."""
    return hasattr(type(source), "expect_documents")


@runtime_checkable
class NearestSource(Protocol):
    """A source with indexes of vectors."""

    def nearest(self, name: str) -> Candidates:
        """The candidates of an index by its name, one of `facts.vectors`. No requests yet."""
        ...


def is_nearest_source(source: object) -> TypeGuard[NearestSource]:
    """Whether a source is a `NearestSource`, by its method."""
    return hasattr(type(source), "nearest")


class Candidates(Protocol):
    """What an index of vectors tells."""

    is_asked: bool
    """Whether it was asked before: then what a first question needs is likely kept."""

    def candidates(
        self, near: Near, probes: int | None, among: AbstractSet[bytes] | None = ..., *, first: int = ...
    ) -> Iterator[list[bytes]]:
        """Keys of ids, about the nearest first, of `probes` lists or all, and of the tail; with `among` only these.

        In parts, the first of about `first` keys.
        """
        ...

    def rows(self, keys: Sequence[bytes], fetch: Fetch) -> list[KnownRow | None]:
        """The documents of some keys of this state, with their vectors; None for one that is not there."""
        ...


# --- What a planner knows of a source without reading: how much there is, which columns, which indexes.


class Residency(Protocol):
    """What of a source this process keeps, so that reading it again takes no requests: shares from 0 to 1, about.

    A few things of each kind are looked at, and nothing is read.
    """

    @property
    def level(self) -> int:
        """A number that changes when far more or far less is kept; 0 if nothing is kept."""
        ...

    def columns(self, names: Sequence[str]) -> float:
        """The share of blocks whose columns are kept, for a scan."""
        ...

    def documents(self) -> float:
        """The share of stored block bytes that is kept."""
        ...

    def maps(self) -> float:
        """The share of blocks whose page map is kept: it is needed before parts of a block are read."""
        ...

    def nodes(self, name: str, spans: Sequence[Range], *, reverse: bool = ...) -> float:
        """The share of index nodes on the way to some ranges that is kept."""
        ...

    def rows(self, name: str, spans: Sequence[Range], *, reverse: bool = ..., first: int | None = ...) -> float:
        """The share of documents with entries in ranges of an index, or of the first of them, that is kept."""
        ...

    def has_tail(self, name: str) -> bool:
        """Whether the entries of an index that the tail changed are known."""
        ...

    def keys(self, keys: Sequence[bytes]) -> float:
        """The share of documents under some keys of ids that is kept."""
        ...

    def all_rows(self) -> float:
        """The share of all documents that is kept."""
        ...


class NothingKept:
    """The residency of a process that has read nothing yet."""

    level = 0

    def columns(self, names: Sequence[str]) -> float:  # noqa: ARG002 - nothing is kept
        """Nothing."""
        return 0.0

    def documents(self) -> float:
        """Nothing."""
        return 0.0

    def maps(self) -> float:
        """Nothing."""
        return 0.0

    def nodes(self, name: str, spans: Sequence[Range], *, reverse: bool = False) -> float:  # noqa: ARG002 - nothing is kept
        """Nothing."""
        return 0.0

    def rows(
        self,
        name: str,  # noqa: ARG002 - nothing is kept
        spans: Sequence[Range],  # noqa: ARG002 - nothing is kept
        *,
        reverse: bool = False,  # noqa: ARG002 - nothing is kept
        first: int | None = None,  # noqa: ARG002 - nothing is kept
    ) -> float:
        """Nothing."""
        return 0.0

    def has_tail(self, name: str) -> bool:  # noqa: ARG002 - nothing is kept
        """Nothing."""
        return False

    def keys(self, keys: Sequence[bytes]) -> float:  # noqa: ARG002 - nothing is kept
        """Nothing."""
        return 0.0

    def all_rows(self) -> float:
        """Nothing."""
        return 0.0


NOTHING_KEPT: Final = NothingKept()


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """One index that can answer for every document of the state."""

    index: Index
    height: int
    """Levels of its tree; 0 if it is empty."""
    statistics: IndexStatistics | None
    """None if they have not been measured yet."""
    may_have_arrays: tuple[bool, ...]
    """For each field whether some document may have an array at it or on the way: then two bounds on it may hold for
    two elements, and an entry's value is not the whole value of the field."""
    may_have_texts: tuple[bool, ...] = ()
    """For each field whether some document may have a text there outside of arrays: then $contains may mean a part of
    the text, which no entry tells. Empty if it is not known."""

    def has_texts(self, place: int) -> bool:
        """Whether documents may have plain texts at one of the fields."""
        return not self.may_have_texts or self.may_have_texts[place]


@dataclass(frozen=True, slots=True)
class VectorFacts:
    """One index of vectors."""

    name: str
    path: Path
    dimensions: int
    distance: Distance
    is_ready: bool = True
    """Whether it can answer for every document of the state; how vectors are compared does not depend on it."""
    is_built: bool = True
    """Whether it was ready for some process: where the root that is known here is from before, documents answer."""
    entries: int = 0
    """Vectors, without those of the tail."""
    lists: int = 1
    """About."""
    runs: int = 0
    bytes: int = 0
    """Stored bytes of its lists."""
    calibration: Calibration | None = None
    """What its lists find, if that was measured."""
    is_stale: bool = False
    """Whether much has changed since."""


@dataclass(frozen=True, slots=True)
class TextFacts:
    """One index of words."""

    name: str
    fields: SearchFields
    is_ready: bool = False
    """Whether it can answer for every document of the state; what is searched does not depend on it."""


Traits: TypeAlias = "tuple[int, tuple[tuple[Index, tuple[bool, ...], tuple[bool, ...]], ...]]"
"""The version of facts, and of each index what documents may have: if these are equal, the same plans are possible."""


@dataclass(frozen=True)
class Facts:
    """What a planner knows of a state. A value: it decides what is cheap, never what is true."""

    rows: int = 0
    """Documents, the tail included."""
    tail_rows: int = 0
    """Ids that the tail changed: they are in memory already."""
    blocks: int = 0
    """Objects that a scan reads."""
    document_bytes: int = 0
    """Stored bytes of all documents, about."""
    column_bytes: Mapping[str, int] = field(default_factory=dict)
    """Stored bytes of each column, by path, about. A query that needs no others reads no documents of blocks that
    have them. `_id` is always there."""
    lacking_bytes: Mapping[str, int] = field(default_factory=dict)
    """By path the stored bytes of the blocks that lack a column which others have: their documents are read instead."""
    manifest: tuple[str, ...] | None = None
    """The fields that the model gives the manifest, none if it has no manifest; None if all columns are its fields."""
    indexes: tuple[IndexFacts, ...] = ()
    """By name; ids have none of their own, because blocks are sorted by them."""
    vectors: tuple[VectorFacts, ...] = ()
    """The indexes of vectors, by name."""
    texts: tuple[TextFacts, ...] = ()
    """The indexes of words, by name."""
    sample: tuple[Document, ...] = ()
    """Some documents, chosen fairly; long texts in them are shortened."""
    fields: Mapping[str, FieldStatistics] = field(default_factory=dict)
    """By path what was found out about the values of fields, if not too much has changed since."""
    is_distant: bool = True
    """Whether a request goes over a network."""
    kept: Residency = NOTHING_KEPT
    """What this process need not read."""
    version: int = 0
    """The number of the root: plans are made anew when it changes."""

    @property
    def columns(self) -> frozenset[str]:
        """The paths that columns answer."""
        return frozenset(self.column_bytes) | {"_id"}

    @property
    def manifest_fields(self) -> tuple[str, ...]:
        """The fields of the manifest, as they are configured."""
        return tuple(sorted(self.column_bytes)) if self.manifest is None else self.manifest

    def are_in_manifest(self, paths: Iterable[str]) -> bool:
        """Whether the manifest has some paths, or what they are within; each row has the id and the times besides."""
        if self.manifest is None:
            return self.columns.issuperset(paths)
        known = {*self.manifest, *SYSTEM_FIELDS}
        return bool(self.manifest) and all(
            any(path == name or path.startswith(f"{name}.") for name in known) for path in paths
        )

    def find_index(self, name: str) -> IndexFacts | None:
        """The index of that name, if it can be used."""
        return self._by_name.get(name)

    def find_vectors(self, path: Path, distance: Distance | None = None) -> VectorFacts | None:
        """The first index of the vectors at a path that can answer, by one distance or by any."""
        for each in self.vectors:
            if each.is_ready and each.path == path and (distance is None or distance == each.distance):
                return each
        return None

    def find_vectors_named(self, name: str) -> VectorFacts | None:
        """The index of vectors of that name, if it can answer."""
        return next((each for each in self.vectors if each.is_ready and each.name == name), None)

    @cached_property
    def listed_texts(self) -> frozenset[str | None]:
        """The names of the indexes of words that can answer for every document."""
        return frozenset([each.name for each in self.texts if each.is_ready])

    @cached_property
    def _by_name(self) -> dict[str, IndexFacts]:
        return {each.index.name: each for each in self.indexes}

    @cached_property
    def index_definitions(self) -> tuple[Index, ...]:
        """The indexes, without what is known of them."""
        return tuple([each.index for each in self.indexes])

    @cached_property
    def traits(self) -> Traits:
        """What the plans that are possible depend on."""
        return self.version, tuple([(each.index, each.may_have_arrays, each.may_have_texts) for each in self.indexes])
