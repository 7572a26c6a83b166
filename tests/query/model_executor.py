"""Plans carried out by a model: documents in a dict, entries in a list, every node one line of its own meaning.

Whatever a node needs and has not got is an assertion: a filter over columns that were not read, a range that does
not ascend, a row that may not exist. So a plan that passes is one that an executor can follow to the letter.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from wormdb.bql.match import compile_filter
from wormdb.bql.nearest import nearest
from wormdb.bql.search.fusion import fuse
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.sorting import sort_key
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.engine.tree.definition import array_fields
from wormdb.engine.tree.entries import changes_of
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING
from wormdb.format.path import TRAVERSED, get_direct, parse_path
from wormdb.query.physical.question import filter_paths, order_paths
from wormdb.query.plan import (
    Empty,
    Fetch,
    Fused,
    IdLookup,
    IndexCount,
    IndexScan,
    Intersection,
    NearestScan,
    Order,
    Part,
    Rank,
    Residual,
    Scan,
    TextScan,
    Union,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.engine.tree.definition import Index
    from wormdb.engine.tree.entries import Entry, Range
    from wormdb.format.kinds import Document
    from wormdb.query.plan import Node
    from wormdb.query.request import QueryRequest

BLOCK_ROWS = 2


@dataclass(frozen=True)
class Rows:
    """Keys of ids in an order, and what is known of each row."""

    keys: list[bytes]
    known: frozenset[str] | None
    """The columns that were read; None for whole documents."""
    are_sure: bool = True
    """Whether all of them exist."""


class Model:
    """Some documents, and those of the indexes that can hold all of them."""

    def __init__(self, documents: Iterable[Document], indexes: Iterable[Index]) -> None:
        self.documents = {encode_key(document["_id"]): document for document in documents}
        self.entries: dict[str, list[Entry]] = {}
        self.arrays: dict[Index, tuple[bool, ...]] = {}
        for index in indexes:
            try:
                self.entries[index.name] = self._entries(index)
            except InvalidRequestError:  # two arrays in one document: it could not have been written
                continue
            found = [array_fields(index, document) for document in self.documents.values()]
            self.arrays[index] = tuple(map(any, zip(*found, strict=True))) or (False,) * len(index.fields)

    def expected(self, request: QueryRequest) -> list[bytes]:
        """The answer by the pure functions alone: keys of ids in order."""
        order, matches = sort_key(request.sort), compile_filter(request.filter)
        found = sorted((order(document), key) for key, document in self.documents.items() if matches(document))
        rows = [key for place, key in found if request.after is None or place > request.after]
        return rows[request.offset :][: request.limit]

    def run(self, root: Node, request: QueryRequest) -> Rows:
        """The answer by a plan, except for a count of an index."""
        rows = self._run(root, request)
        assert rows.are_sure
        return self._after(rows, request)

    def count(self, root: IndexCount) -> int:
        """The answer of a count."""
        return len(self._within(root.index, root.spans))

    # --- nodes ---

    def _run(self, node: Node, request: QueryRequest) -> Rows:
        match node:
            case Empty():
                return Rows([], None)
            case Scan(names, span, bounds):
                keys = [key for block in self._blocks() if self._may_have(block, bounds) for key in block]
                return Rows([key for key in keys if key in span], None if DOCUMENT in names else frozenset(names))
            case IdLookup() | IndexScan() | Intersection() | Union():
                return self._ids(node)
            case Fetch(child):
                return Rows([key for key in self._run(child, request).keys if key in self.documents], None)
            case Residual(child, tree):
                rows = _told(self._run(child, request), filter_paths(tree))
                matches = compile_filter(tree)
                return Rows([key for key in rows.keys if matches(self.documents[key])], rows.known)
            case Order(child, sort, first):
                rows = self._after(_told(self._run(child, request), order_paths(sort)), request)
                order = sort_key(sort)
                ordered = sorted(rows.keys, key=lambda key: order(self.documents[key]))
                return Rows(ordered[:first], rows.known)
            case Rank() | TextScan() | Fused():
                return self._ranked(node, request)
            case Part(child, offset, limit):
                rows = self._after(self._run(child, request), request)
                assert rows.are_sure
                return Rows(rows.keys[offset:][:limit], rows.known)
            case IndexCount() | NearestScan():
                raise AssertionError("a count has no rows, and candidates are not exact")

    def _ranked(self, node: Rank | TextScan | Fused, request: QueryRequest) -> Rows:
        if isinstance(node, Fused):
            closest, searched = (self._run(child, request).keys for child in (node.nearest, node.searched))
            return Rows([key for key, _ in fuse(closest, searched, node.weight)], frozenset(["_id"]))
        if isinstance(node, Rank):
            best = nearest(node.near, [self.documents[key] for key in self._run(node.child, request).keys])
            return Rows([encode_key(document["_id"]) for _, document in best], None)
        matches = compile_filter(node.filter)
        ranked = rank_documents(node.search, self.documents.values())
        return Rows([encode_key(each["_id"]) for _, each in ranked if matches(each)], frozenset(["_id"]))

    def _ids(self, node: IdLookup | IndexScan | Intersection | Union) -> Rows:
        only_ids = frozenset(["_id"])
        match node:
            case IdLookup(keys):
                assert list(keys) == sorted(set(keys))
                return Rows(list(keys), only_ids, are_sure=False)
            case IndexScan(name, spans, reverse):
                found = self._within(name, spans)
                ids = [encode_key(json.decode(value, name="id")) for _, value in found]
                return Rows(list(dict.fromkeys(reversed(ids) if reverse else ids)), only_ids)
            case Union(children):
                parts = [self._ids(child) for child in children]
                common = {key for part in parts for key in part.keys}
                return Rows(sorted(common), only_ids, all(part.are_sure for part in parts))
            case Intersection(children):
                parts = [self._ids(child) for child in children]
                common = set.intersection(*(set(part.keys) for part in parts))
                return Rows(sorted(common), only_ids, any(part.are_sure for part in parts))

    def _after(self, rows: Rows, request: QueryRequest) -> Rows:
        if request.after is None:
            return rows
        rows, order = _told(rows, order_paths(request.sort)), sort_key(request.sort)
        return Rows([key for key in rows.keys if order(self.documents[key]) > request.after], rows.known)

    # --- what is stored ---

    def _entries(self, index: Index) -> list[Entry]:
        changes = [
            change
            for document in self.documents.values()
            for change in changes_of(index, json.encode(document["_id"]), None, document)
        ]
        return sorted((key, value) for key, value in changes if value is not None)

    def _within(self, name: str, spans: Sequence[Range]) -> list[Entry]:
        assert spans
        for one, other in pairwise(spans):
            assert one.high is not None
            assert one.high <= other.low
        return [entry for span in spans for entry in self.entries[name] if entry[0] in span]

    def _blocks(self) -> list[list[bytes]]:
        keys = sorted(self.documents)
        return [keys[start : start + BLOCK_ROWS] for start in range(0, len(keys), BLOCK_ROWS)]

    def _may_have(self, block: list[bytes], bounds: Mapping[str, Range]) -> bool:
        return all(any(self._has(key, path, span) for key in block) for path, span in bounds.items())

    def _has(self, key: bytes, path: str, span: Range) -> bool:
        value = get_direct(self.documents[key], parse_path(path))
        if value is TRAVERSED or type(value) is list:
            return True
        return encode_key(None if value is MISSING else value) in span


def _told(rows: Rows, paths: frozenset[str]) -> Rows:
    """Rows of which these paths are known."""
    assert rows.are_sure
    assert rows.known is None or paths <= rows.known | {"_id"}
    return rows
