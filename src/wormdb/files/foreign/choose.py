"""Which of the four strategies answers a query over files, and why not another: in a fixed order, as S3WORM has it.

    1  index_lookup    the filter names ids, or asks one indexed field for values; not if 2 needs no documents at all
    2  manifest_scan   the manifest has every field of filter, order and selection
    3  manifest_fetch  the manifest has fields of the filter, or the order: which documents to fetch
    4  full_scan       all documents

An index that answers only a part of the filter is used where 2 and 3 are impossible. What costs requests is read as the
order comes to it, so the answer to "why not" is known for everything that was tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.bql.match import compile_filter
from wormdb.bql.projection import Branch, fields_needed
from wormdb.bql.tree import Compare, Filter, In, MatchNone
from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.errors import InvalidRequestError
from wormdb.files.contents.names import id_text
from wormdb.files.contents.values import to_canonical
from wormdb.files.foreign.indexes import IndexedCondition, indexed_conditions, read_index
from wormdb.files.foreign.manifest import ForeignManifest, RefusedManifest
from wormdb.files.foreign.rows import DamagedRowsError
from wormdb.files.foreign.source import FileSource, Witness
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, parse_path, resolve
from wormdb.query.logical.rules import simplify
from wormdb.query.physical.question import Candidate, Question, filter_paths, find_ids, finish, join_names, order_paths
from wormdb.query.physical.scans import propose_columns, propose_documents, why_no_fetch, why_no_scan
from wormdb.query.plan import Cost, Empty, Fetch, IdLookup, Node, Order, Part, QueryPlan, RejectedPlan, Residual, Scan
from wormdb.query.request import STRATEGIES, QueryRequest, Strategy
from wormdb.query.sources.source import Facts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.engine.state.view import StoredVersion
    from wormdb.files.foreign.files import ForeignFiles

__all__ = ["FilePlan", "choose", "matches_condition", "matches_row"]


# --- Fetched documents against what led to them: a contradiction means that the guide is older than the files.

_ABSENT: Final = "missing"


def matches_condition(matches: Callable[[Document], bool], name: str) -> Witness:
    """An index led there: the document must be there, and have one of the values."""

    def witness(_: bytes, held: StoredVersion | None) -> str | None:
        if held is None:
            return f"index {name} is stale: a document that it names is not there"
        if not matches(_decoded(held)):
            return f"index {name} is stale: {held.id.decode()} has another value"
        return None

    return witness


def matches_row(manifest: ForeignManifest, fields: Sequence[str]) -> Witness:
    """The manifest led there: the document must be there, and have what its row has."""
    paths: list[tuple[str, Path]] = [(name, parse_path(name)) for name in manifest.available(fields) if name != "_id"]
    places: dict[bytes, int] = {key: row for row, key in enumerate(manifest.rows.keys)}

    def witness(key: bytes, held: StoredVersion | None) -> str | None:
        if held is None:
            return "manifest is stale: a document that it names is not there"
        document = _decoded(held)
        try:
            row = manifest.rows.document(places[key])
        except DamagedRowsError as error:
            return f"manifest is stale: {error}"
        for name, path in paths:
            if _written(row, path) != _written(document, path):
                return f"manifest is stale: {held.id.decode()} has another {name}"
        return None

    return witness


def _decoded(held: StoredVersion) -> Document:
    assert held.document is not None, "files hold live documents"
    return json.decode_document(held.document, name=f"document {held.id.decode()}")


def _written(document: Document, path: Path) -> list[Any]:
    """What is at a path, as it can be compared with a row, which has names sorted."""
    found = resolve(document, path)
    return [_ABSENT if value is MISSING else to_canonical(msgspec.json.decode(json.encode(value))) for value in found]


@dataclass(frozen=True, slots=True)
class FilePlan:
    """A plan over files."""

    plan: QueryPlan
    source: FileSource
    requests: int
    """What was read to choose, and what a full scan or a look-up of ids reads at least; without matches."""
    manifest: ForeignManifest | None = None
    """The manifest, if it was read and may be used."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of the manifest that may be used."""
        if self.manifest is None:
            return ()
        return tuple(sorted(self.manifest.available(self.source.files.folder.manifest_fields) - {"_id"}))

    @property
    def is_targeted(self) -> bool:
        """Whether documents are fetched because something says that they are the right ones."""
        return self.plan.strategy in ("index_lookup", "manifest_fetch")


def choose(request: QueryRequest, files: ForeignFiles, refusal: str | None = None) -> FilePlan:
    """The plan for a request. Costs what is read to choose: index files, the manifest; for a full scan nothing yet.

    With `refusal`, a contradiction that was met, a full scan whatever was asked for. Raises InvalidRequestError if the
    strategy that was asked for cannot answer.
    """
    return _Chooser(request, files, refusal).choose()


@dataclass(slots=True)
class _Chooser:
    request: QueryRequest
    files: ForeignFiles
    refusal: str | None
    reasons: dict[Strategy, str] = field(default_factory=dict)
    """Why each strategy is not used."""
    manifest: ForeignManifest | None = None

    def choose(self) -> FilePlan:
        request = self.request
        tree = simplify(request.filter, arrays=lambda _: True)
        if isinstance(tree, MatchNone):
            plan = QueryPlan(Empty(), request.strategy or "index_lookup", "the filter matches nothing", Cost())
            return FilePlan(plan, FileSource(self.files), 0)
        if self.refusal is not None:
            return self._full(tree, self.refusal)
        found = self._named(tree)
        if found is not None:
            return found
        if request.strategy in (None, "full_scan"):
            return self._full(tree, None)
        reason = self.reasons.get(request.strategy, "no index serves the filter")
        raise InvalidRequestError(
            f"Strategy {request.strategy!r} not available", reason=reason, fix="leave the strategy to the planner"
        )

    def _named(self, tree: Filter) -> FilePlan | None:
        """By an index or the manifest; None if neither can be used."""
        wanted = self.request.strategy
        if wanted == "full_scan":
            return None
        asked = indexed_conditions(Question(self.request, Facts(), tree).conjunction.filters, self.files.folder.model)
        whole = [one for one in asked if one.is_all]
        found: FilePlan | None = None
        if wanted is None and self._may_scan(tree):
            found = self._by_manifest(tree, only="manifest_scan")
        if found is None and wanted in (None, "index_lookup"):
            found = self._by_ids(tree) or self._by_index(tree, whole)
        if found is None and wanted != "index_lookup":
            found = self._by_manifest(tree, only=wanted)
        if found is None and wanted in (None, "index_lookup"):
            found = self._by_index(tree, [one for one in asked if not one.is_all])
        return found

    # --- ids and indexes ---

    def _by_ids(self, tree: Filter) -> FilePlan | None:
        question = Question(self.request, Facts(), tree)
        found = find_ids(question.conjunction)
        ids = _named_ids(question.conjunction.filters)
        if found is None or ids is None or not ids.keys() >= set(found[0].keys):
            self.reasons.setdefault("index_lookup", "no index serves the filter")
            return None
        lookup, covered = found
        plan = self._plan(finish(question, lookup, covered), "index_lookup", "the filter names ids")
        return FilePlan(plan, FileSource(self.files, ids=ids), 0)

    def _by_index(self, tree: Filter, asked: Iterable[IndexedCondition]) -> FilePlan | None:
        for one in asked:
            found = read_index(self.files, one)
            if isinstance(found, str):
                self.reasons["index_lookup"] = found
                continue
            question = Question(self.request, Facts(), tree)
            ids = {encode_key(identity): identity for identity in found.ids}
            root = finish(question, IdLookup(tuple(sorted(ids))), frozenset())
            left = join_names(filter_paths(question.conjunction.without(frozenset([_place(question, one)]))))
            reason = f"index {one.name} covers filter"
            if not one.is_all:
                reason = f"index {one.name} narrows, documents are tested for: {left}"
            witness = matches_condition(compile_filter(one.condition), one.name)
            source = FileSource(self.files, ids=ids, witness=witness)
            return FilePlan(self._plan(root, "index_lookup", reason), source, found.files)
        return None

    # --- the manifest ---

    def _may_scan(self, tree: Filter) -> bool:
        """Whether the manifest alone could answer, if it has all fields that the schema gives it."""
        known = self._within(tree, self.files.folder.manifest_fields)
        facts = Facts(column_bytes=dict.fromkeys(known, 0))
        return why_no_scan(Question(self.request, facts, tree)) is None

    def _within(self, tree: Filter, known: frozenset[str]) -> frozenset[str]:
        """Paths that are needed or known, and lie within known ones."""
        return known | {path for path in self._needed(tree) if _lies_within(path, known)}

    def _needed(self, tree: Filter) -> frozenset[str]:
        projection = self.request.projection
        shown = None if projection is None or projection.arrays else fields_needed(projection)
        names = frozenset(path.partition(".")[0] for path in shown or ())
        return filter_paths(tree) | order_paths(self.request.sort) | names

    def _by_manifest(self, tree: Filter, *, only: Strategy | None) -> FilePlan | None:
        names = sorted({path.partition(".")[0] for path in self._needed(tree)} - {"_id"})
        manifest = self.files.manifest(self._id_texts(tree), names)
        if isinstance(manifest, RefusedManifest):
            self._refuse_manifest(manifest.reason)
            return None
        try:
            known = manifest.available(sorted(self._needed(tree)))
            columns = manifest.rows.columns(sorted(known - {"_id"}))
        except DamagedRowsError as error:
            self._refuse_manifest(f"manifest is stale: {error}")
            return None
        self.manifest = manifest
        compared = filter_paths(tree) | order_paths(self.request.sort)
        # Documents are compared field by field, in their order.
        sorted_within = {path for path in compared & columns.keys() if not columns[path].is_in_order}
        known -= sorted_within
        share = manifest.size_bytes // max(len(known), 1)
        facts = Facts(
            rows=len(manifest.rows),
            blocks=manifest.files,
            document_bytes=manifest.size_bytes,
            column_bytes=dict.fromkeys(sorted(known), share),
        )
        found = self._over(manifest, Question(self.request, facts, tree), only)
        if found is None and sorted_within:
            self._refuse_manifest(f"manifest has documents with sorted names in: {join_names(sorted_within)}")
        return found

    def _over(self, manifest: ForeignManifest, question: Question, only: Strategy | None) -> FilePlan | None:
        self.reasons["manifest_scan"] = why_no_scan(question) or ""
        self.reasons["manifest_fetch"] = why_no_fetch(question) or ""
        for candidate in propose_columns(question):
            if only not in (None, candidate.strategy):
                continue
            if candidate.strategy == "manifest_scan":
                return self._scanning(manifest, question, candidate)
            plan = self._plan(candidate.root, "manifest_fetch", candidate.reason())
            ids = dict(zip(manifest.rows.keys, manifest.rows.ids, strict=True))
            witness = matches_row(manifest, sorted(self.files.folder.manifest_fields))
            source = FileSource(self.files, question.facts, manifest.rows, ids, witness)
            return FilePlan(plan, source, manifest.files, manifest)
        return None

    def _scanning(self, manifest: ForeignManifest, question: Question, candidate: Candidate) -> FilePlan:
        root = candidate.root
        projection = self.request.projection
        is_deep = projection is not None and any(isinstance(one, Branch) for one in projection.parts.parts.values())
        if is_deep:
            # Parts of a value are cut out of the row as out of a document.
            root = _with_documents(root)
        source = FileSource(self.files, question.facts, manifest.rows, are_rows_documents=is_deep)
        return FilePlan(self._plan(root, "manifest_scan", candidate.reason()), source, manifest.files, manifest)

    def _id_texts(self, tree: Filter) -> list[str] | None:
        """The texts of the ids that the filter names: only their partitions are needed."""
        question = Question(self.request, Facts(), tree)
        found, ids = find_ids(question.conjunction), _named_ids(question.conjunction.filters)
        if found is None or ids is None:
            return None
        try:
            return [id_text(ids[key]) for key in found[0].keys]
        except (KeyError, InvalidRequestError):
            return None

    def _refuse_manifest(self, reason: str) -> None:
        self.reasons["manifest_scan"] = self.reasons["manifest_fetch"] = reason

    # --- plans ---

    def _full(self, tree: Filter, contradiction: str | None) -> FilePlan:
        question = Question(self.request, Facts(), tree)
        candidate = next(propose_documents(question))
        reason = contradiction or self.reasons.get("manifest_fetch") or "strategy full_scan was asked for"
        source = FileSource(self.files)
        return FilePlan(self._plan(candidate.root, "full_scan", reason), source, 0, self.manifest)

    def _plan(self, root: Node, strategy: Strategy, reason: str) -> QueryPlan:
        before = STRATEGIES[: STRATEGIES.index(strategy)]
        asked = self.request.strategy
        rejected = tuple(
            RejectedPlan(one, one, None, self.reasons.get(one) or f"strategy {asked} was asked for")
            for one in before
            if self.reasons.get(one) or asked is not None
        )
        return QueryPlan(root, strategy, reason, Cost(), rejected)


def _lies_within(path: str, known: frozenset[str]) -> bool:
    segments = path.split(".")
    return any(".".join(segments[:end]) in known for end in range(1, len(segments) + 1))


def _named_ids(filters: Iterable[Filter]) -> dict[bytes, str] | None:
    """By key the ids that conditions on `_id` name; None if one of them is not a string."""
    found: list[Any] = []
    for one in filters:
        if isinstance(one, Compare | In) and one.path == ("_id",):
            found += one.values if isinstance(one, In) else [one.value]
    if not found or not all(type(value) is str for value in found):
        return None
    return {encode_key(value): value for value in found}


def _place(question: Question, asked: IndexedCondition) -> int:
    return next(place for place, one in enumerate(question.conjunction.filters) if one is asked.condition)


def _with_documents(node: Node) -> Node:
    if isinstance(node, Scan):
        return replace(node, names=(*node.names, DOCUMENT))
    if isinstance(node, Fetch | Residual | Order | Part):
        return msgspec.structs.replace(node, child=_with_documents(node.child))
    return node
