"""Aggregations as stages, in MongoDB's words: a search or a filter first, then what is done with its rows.

    [{"$vectorSearch": {"path": "embedding", "queryVector": v, "limit": 10, "filter": {"lang": "de"}}},
     {"$project": {"title": 1, "score": {"$meta": "vectorSearchScore"}}}]

The first stage is a query, and so are orders and parts of the rows directly behind a filter. The others go through the
rows one after the other, on whole documents. A row has fields that are computed from it, by expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from wormdb.bql.expressions import parse_expression
from wormdb.bql.match import compile_filter
from wormdb.bql.mistakes import Mistakes
from wormdb.bql.nearest import Near, parse_near
from wormdb.bql.parse import parse_filter
from wormdb.bql.places import check_overlaps, fields_of, is_meta, with_ways
from wormdb.bql.projection import parse_projection, project
from wormdb.bql.row_stages import (
    NOTHING,
    ONLY_ID,
    ComputedField,
    GroupTally,
    RowStage,
    compute,
    is_computed,
    parse_group,
    parse_unwind,
    read_computed,
    replaced,
    tally_of,
)
from wormdb.bql.search.search import take_text
from wormdb.bql.sorting import parse_sort, sort_key
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import parse_path
from wormdb.schema.problems import did_you_mean
from wormdb.settings import NEAR_ROWS_MAX

__all__ = ["ScoredRow", "StagedQuery", "WrittenStages", "parse_stages", "run_stages"]

WrittenStages: TypeAlias = "Sequence[Mapping[str, Any]]"
"""[{"$vectorSearch": {…}}, {"$project": {…}}]."""

CANDIDATES_MAX: Final = 10_000
"""What MongoDB takes as numCandidates."""

_NO_ID: Final = parse_projection({"_id": 0})
_VECTOR_SCORE: Final = "vectorSearchScore"
_TEXT_SCORE: Final = "textScore"
_VECTOR_OPTIONS: Final = ("index", "path", "queryVector", "numCandidates", "limit", "filter", "exact")
_ELSEWHERE: Final[Mapping[str, str]] = {
    "$search": "use $vectorSearch, or $match with $text",
    "$lookup": 'use populate, or a second query: find({"_id": {"$in": [the values of these rows]}})',
    "$graphLookup": "follow the references in your program, one find for each step",
    "$facet": "call aggregate once for each of them",
    "$bucket": "use $group with a $switch as _id",
    "$bucketAuto": "use a table: find(…).to_arrow()",
    "$setWindowFields": "use a table: find(…).to_arrow()",
    "$unionWith": "call aggregate on each collection, and put the rows together",
    "$sample": "choose among the ids in your program: find({}, {'_id': 1})",
    "$out": "write the rows yourself: db[name].insert_many(rows)",
    "$merge": "write the rows yourself: db[name].bulk_write([…])",
    "$geoNear": "places are not searched here: keep a grid cell as a field",
    "$redact": "use $match and $project",
    "$densify": "use a table: find(…).to_arrow()",
    "$fill": "use $addFields with $ifNull",
    "$collStats": "use db.status([name])",
    "$indexStats": "use collection.indexes()",
    "$changeStream": "use watch()",
}
"""Stages that are not here, and what is."""


class ScoredRow(NamedTuple):
    """A document on its way through stages, with the score that the first stage gave it."""

    document: Document
    score: float | None


_Stage: TypeAlias = Callable[[Iterator[ScoredRow]], Iterator[ScoredRow]]


@dataclass(slots=True)
class StagedQuery:
    """What stages ask for: a query, and what is done with its rows. Made by `parse_stages`."""

    filter: Mapping[str, Any] | None = None
    """As it was written: it may have $text."""
    near: Near | None = None
    index: str | None = None
    """The vector index that was named."""
    options: dict[str, Any] = field(default_factory=dict)
    """`sort`, `offset` and `limit` of the query."""
    score: str | None = None
    """The name of the score that rows have."""
    tally: GroupTally | None = None
    """A $group directly behind the filter that one aggregation of columns answers; its rows go into `stages`."""
    stages: list[_Stage] = field(default_factory=list)


def run_stages(query: StagedQuery, rows: Iterable[ScoredRow]) -> Iterator[Document]:
    """What stages make of the rows of their query. No requests."""
    found = iter(rows)
    for stage in query.stages:
        found = stage(found)
    return (row.document for row in found)


def parse_stages(written: WrittenStages) -> StagedQuery:
    """The query and the stages that were written. Raises InvalidRequestError with all mistakes. No requests."""
    mistakes = Mistakes()
    reader = _StageReader(mistakes)
    given: Any = written
    if not isinstance(given, list | tuple):
        mistakes.add("", f"stages are a list, not {type(given).__name__}", 'write [{"$match": {…}}, …]')
        given = ()
    for position, stage in enumerate(given):
        if not isinstance(stage, Mapping) or len(stage) != 1:
            mistakes.add(f"[{position}]", "a stage is a document with one name", 'write {"$match": {…}}')
            continue
        ((name, operand),) = stage.items()
        reader.read(position, str(name), operand)
    mistakes.settle("the aggregation cannot be used")
    return reader.query


class _StageReader:
    """One run: the query so far, and whether stages still belong to it."""

    def __init__(self, mistakes: Mistakes) -> None:
        self.query = StagedQuery()
        self._mistakes = mistakes
        self._is_open = True
        """Whether orders and parts of the rows are still the query's."""
        self._readers: dict[str, Callable[[int, Any, str], None]] = {
            "$vectorSearch": self._vector_search,
            "$match": self._match,
            "$project": self._project,
            "$addFields": self._add,
            "$set": self._add,
            "$unset": self._unset,
            "$sort": self._sort,
            "$skip": self._skip,
            "$limit": self._limit,
            "$count": self._count,
            "$group": self._group,
            "$sortByCount": self._sort_by_count,
            "$unwind": self._unwind,
            "$replaceRoot": self._replace_root,
            "$replaceWith": lambda _, operand, at: self._replace(operand, at),
        }

    def read(self, position: int, name: str, operand: Any) -> None:
        """Take in one stage."""
        at = f"[{position}].{name}"
        reader = self._readers.get(name)
        if reader is None:
            fix = _ELSEWHERE.get(name) or did_you_mean(name, tuple(self._readers))
            self._mistakes.add(at, "there is no such stage", fix)
            return
        reader(position, operand, at)

    # --- the query ---

    def _vector_search(self, position: int, operand: Any, at: str) -> None:
        if position:
            self._mistakes.add(at, "it must be the first stage", "put it first; its filter chooses before it")
            return
        if not isinstance(operand, Mapping):
            self._mistakes.add(at, "it must be a document", 'write {"path": …, "queryVector": …, "limit": 10}')
            return
        self._check_vector_options(operand, at)
        self._vector_filter(operand.get("filter"), f"{at}.filter")
        self.query.score = _VECTOR_SCORE
        self._is_open = False
        if self._mistakes.problems:
            return
        path = operand["path"]
        asked = {"vector": operand.get("queryVector"), "k": operand["limit"], "exact": operand.get("exact", False)}
        before = len(self._mistakes.problems)
        near = self._mistakes.collect(at, lambda: parse_near({path: asked}), below=path)
        for place, problem in enumerate(self._mistakes.problems[before:], before):
            if problem.path == f"{at}.vector":
                self._mistakes.problems[place] = replace(problem, path=f"{at}.queryVector")
        if near is not MISSING:
            self.query.near, self.query.index = near, operand.get("index")

    def _check_vector_options(self, operand: Mapping[Any, Any], at: str) -> None:
        for name in operand:
            if name not in _VECTOR_OPTIONS:
                self._mistakes.add(f"{at}.{name}", "there is no such option", did_you_mean(str(name), _VECTOR_OPTIONS))
        limit, candidates = operand.get("limit"), operand.get("numCandidates")
        if not isinstance(operand.get("path"), str):
            self._mistakes.add(f"{at}.path", "it must be the name of a field", 'write "embedding"')
        if not _is_whole(limit, NEAR_ROWS_MAX):
            self._mistakes.add(f"{at}.limit", f"it must be a whole number from 1 to {NEAR_ROWS_MAX:,}", "write 10")
        elif candidates is not None and not _is_whole(candidates, CANDIDATES_MAX, least=operand["limit"]):
            reason = f"it must be a whole number from limit to {CANDIDATES_MAX:,}"
            self._mistakes.add(f"{at}.numCandidates", reason, "leave it out")
        if not isinstance(operand.get("index", ""), str):
            self._mistakes.add(f"{at}.index", "it must be the name of a vector index", "leave it out")

    def _vector_filter(self, written: Any, at: str) -> None:
        if written is None:
            return
        if not isinstance(written, Mapping):
            self._mistakes.add(at, "it must be a document", 'write {"lang": "de"}')
            return
        if self._mistakes.collect(at, lambda: take_text(written)[1]) is not None:
            self._mistakes.add(at, "$text and vectors are ranked together by find(near=…, search=…)", "leave out $text")
        self.query.filter = written

    def _match(self, position: int, operand: Any, at: str) -> None:
        if not isinstance(operand, Mapping):
            self._mistakes.add(at, "it must be a document", 'write {"lang": "de"}')
            return
        text = self._mistakes.collect(at, lambda: take_text(operand)[1])
        if position == 0:
            self.query.filter = operand
            self.query.score = None if text is None else _TEXT_SCORE
            return
        if text is not None:
            self._mistakes.add(f"{at}.$text", "only the first stage may have it", "put this $match first")
            return
        tree = self._mistakes.collect(at, lambda: parse_filter(operand))
        if tree is not MISSING:
            matches = compile_filter(tree)
            self._then(lambda rows: (row for row in rows if matches(row.document)))

    def _sort(self, _: int, operand: Any, at: str) -> None:
        scores = [part["$meta"] for part in operand.values() if is_meta(part)] if isinstance(operand, Mapping) else []
        if scores:
            if len(operand) > 1:
                self._mistakes.add(at, "rows are sorted by their score, or by fields", "leave out the others")
            self._check_score(scores[0], at)
            if not (self._is_open and not self.query.options):  # the rows of a search come in this order
                self._then(lambda rows: iter(sorted(rows, key=lambda row: -(row.score or 0.0))))
            return
        if not isinstance(operand, Mapping) or not operand:
            self._mistakes.add(at, "it must be a document of fields", 'write {"price": 1}')
            return
        spec = self._mistakes.collect(at, lambda: parse_sort(dict(operand)))
        if spec is MISSING:
            return
        if self._is_open and not self.query.options:
            self.query.options["sort"] = spec
            return
        key = sort_key(spec)
        self._then(lambda rows: iter(sorted(rows, key=lambda row: key(row.document))))

    def _skip(self, _: int, operand: Any, at: str) -> None:
        if not _is_whole(operand, least=0):
            self._mistakes.add(at, "it must be a whole number of 0 or more", "write 10")
        elif self._is_open and not {"offset", "limit"} & self.query.options.keys():
            self.query.options["offset"] = operand
        else:
            self._then(lambda rows: islice(rows, operand, None))

    def _limit(self, _: int, operand: Any, at: str) -> None:
        if not _is_whole(operand):
            self._mistakes.add(at, "it must be a whole number of 1 or more", "write 10")
        elif self._is_open and "limit" not in self.query.options:
            self.query.options["limit"] = operand
        else:
            self._then(lambda rows: islice(rows, operand))

    # --- what is done with rows ---

    def _then(self, stage: _Stage) -> None:
        self._is_open = False
        self.query.stages.append(stage)

    def _project(self, _: int, operand: Any, at: str) -> None:
        if not isinstance(operand, Mapping) or not operand:
            self._mistakes.add(at, "it must be a document of fields", 'write {"title": 1}')
            return
        parts = fields_of(operand, self._mistakes, at)
        rest = {name: part for name, part in parts.items() if not is_computed(part)}
        kept = [name for name, part in rest.items() if part]  # one that is left out gives room
        computed = self._computed({name: part for name, part in parts.items() if is_computed(part)}, kept, at)
        shown: Any = self._mistakes.collect(at, lambda: parse_projection(rest)) if rest else ONLY_ID
        if shown is MISSING:
            return
        if computed:
            if shown == _NO_ID:
                shown = NOTHING  # as in MongoDB, what is computed alone is shown with the id, or alone
            if shown.mode == "exclude":
                what = "a score" if any(value is None for _, value in computed) else "a computed field"
                self._mistakes.add(
                    at, f"{what} goes with fields that are shown", "name those, or add it with $addFields"
                )
            shown = with_ways(shown, [path for path, _ in computed])
        self._then(
            lambda rows: (
                row._replace(document=compute(row.document, row.score, project(shown, row.document), computed))
                for row in rows
            )
        )

    def _add(self, _: int, operand: Any, at: str) -> None:
        if not isinstance(operand, Mapping) or not operand:
            self._mistakes.add(at, "it must be a document of fields", 'write {"total": {"$add": ["$a", "$b"]}}')
            return
        computed = self._computed(fields_of(operand, self._mistakes, at), (), at)
        self._then(
            lambda rows: (
                row._replace(document=compute(row.document, row.score, row.document, computed)) for row in rows
            )
        )

    def _computed(self, written: Mapping[Any, Any], others: Iterable[Any], at: str) -> list[ComputedField]:
        """Computed fields, which must not overlap each other or those that are shown."""
        for name, part in written.items():
            if is_meta(part):
                self._check_score(part["$meta"], f"{at}.{name}")
        found = read_computed(written, self._mistakes, at)
        check_overlaps(others, [path for path, _ in found], self._mistakes, at)
        return found

    def _unset(self, _: int, operand: Any, at: str) -> None:
        names = [operand] if isinstance(operand, str) else operand
        if not isinstance(names, Sequence) or not names:
            self._mistakes.add(at, "it must be a field, or a list of fields", 'write "embedding"')
            return
        shown = self._mistakes.collect(at, lambda: parse_projection(dict.fromkeys(names, 0)))
        if shown is not MISSING:
            self._then(lambda rows: (row._replace(document=project(shown, row.document)) for row in rows))

    def _count(self, _: int, operand: Any, at: str) -> None:
        if not isinstance(operand, str) or not _is_name(operand):
            self._mistakes.add(at, "it must be the name of a field", 'write "n"')
            return

        def counted(rows: Iterator[ScoredRow]) -> Iterator[ScoredRow]:
            number = sum(1 for _ in rows)
            if number:  # as in MongoDB, nothing is not counted
                yield ScoredRow({operand: number}, None)

        self._then(counted)

    def _group(self, _: int, operand: Any, at: str) -> None:
        groups = parse_group(operand, self._mistakes, at)
        if groups is None:
            return
        is_first = self._is_open and not self.query.options and self.query.score is None
        self.query.tally = tally_of(operand) if is_first else None
        if self.query.tally is None:
            self._rows(groups)
        self._is_open = False

    def _sort_by_count(self, _: int, operand: Any, at: str) -> None:
        groups = parse_group({"_id": operand, "count": {"$sum": 1}}, self._mistakes, at)
        key = sort_key(parse_sort({"count": -1, "_id": 1}))
        if groups is not None:
            self._rows(lambda documents: iter(sorted(groups(documents), key=key)))

    def _unwind(self, _: int, operand: Any, at: str) -> None:
        unwound = parse_unwind(operand, self._mistakes, at)
        if unwound is not None:
            self._then(lambda rows: (ScoredRow(each, row.score) for row in rows for each in unwound(row.document)))

    def _replace_root(self, _: int, operand: Any, at: str) -> None:
        if not isinstance(operand, Mapping) or operand.keys() != {"newRoot"}:
            self._mistakes.add(at, "it has a newRoot", 'write {"newRoot": "$address"}')
            return
        self._replace(operand["newRoot"], f"{at}.newRoot")

    def _replace(self, operand: Any, at: str) -> None:
        root = parse_expression(operand, self._mistakes, at)
        self._then(lambda rows: (ScoredRow(replaced(root, row.document), row.score) for row in rows))

    def _rows(self, stage: RowStage) -> None:
        """A stage that makes other rows, which have no score."""
        self.query.score = None
        self._then(lambda rows: (ScoredRow(each, None) for each in stage(row.document for row in rows)))

    def _check_score(self, meta: object, at: str) -> None:
        if meta == self.query.score:
            return
        if meta not in (_VECTOR_SCORE, _TEXT_SCORE):
            self._mistakes.add(at, f"there is no {meta!r:.40}", did_you_mean(str(meta), (_VECTOR_SCORE, _TEXT_SCORE)))
            return
        needed = "$vectorSearch" if meta == _VECTOR_SCORE else "$match with $text"
        self._mistakes.add(at, f"rows have no {meta}", f"begin with {needed}")


def _is_whole(value: Any, most: int | None = None, *, least: int = 1) -> bool:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return is_number and value >= least and (most is None or value <= most)


def _is_name(name: object) -> bool:
    try:
        return isinstance(name, str) and not name.startswith("$") and len(parse_path(name)) == 1
    except InvalidRequestError:
        return False
