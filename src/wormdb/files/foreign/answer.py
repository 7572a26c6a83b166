"""Answers from files of another program: rows, numbers, sums, tables, and how they were found.

Where documents are fetched because a manifest or an index says which, all of them are fetched and held to what it said
before the first is shown: if one contradicts, the guide is stale, and the query begins again with all documents.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import chain, islice
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

from wormdb.bql.tree import MatchAll
from wormdb.engine.blocks.portion import DOCUMENT, Portion
from wormdb.engine.columns.sources import encode_rows
from wormdb.errors import InvalidRequestError
from wormdb.files.foreign.choose import FilePlan, choose
from wormdb.files.foreign.files import ContradictionError, ForeignFiles
from wormdb.files.foreign.manifest import ForeignManifest
from wormdb.files.foreign.rows import DamagedRowsError
from wormdb.files.foreign.source import FileSource, wanted_of
from wormdb.query.execute.answer import Hit, aggregate_plan, count_plan, needed_request, run_plan, tabulate_plan
from wormdb.query.execute.executor import Executor
from wormdb.query.execute.explain import Explanation, PlanStep, explain_plan
from wormdb.query.execute.measure import Measurement, Metered, Watch
from wormdb.query.plan import Cost, Fetch, IdLookup, Node, Order, Part, Residual

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from wormdb.bql.aggregation import Aggregation
    from wormdb.engine.state.view import StoredVersion
    from wormdb.engine.tree.entries import Range
    from wormdb.files.foreign.folder import FileFolder, FileMemory
    from wormdb.query.request import QueryRequest
    from wormdb.settings import BrokenChoice, ForeignCheck
    from wormdb.system.clock import Clock

__all__ = ["ForeignAnswer", "explain_choice"]


# --- What a strategy costs over files, in requests: 1 for the manifest, 1 for an index, 1 for each document.


def explain_choice(
    choice: FilePlan,
    request: QueryRequest,
    files: ForeignFiles,
    clock: Clock,
    *,
    taken_of: Callable[[Node], Measurement] | None = None,
    taken: Measurement | None = None,
) -> Explanation:
    """A choice for people, with its cost. For a full scan the files are listed, if they were not yet."""
    fetched = _fetched(choice, request, clock)
    read = Cost(requests=choice.requests, rows=choice.source.facts.rows)
    if choice.plan.strategy == "full_scan":
        listing = files.listing()
        fetched_later = 0 if files.folder.model.path.holds_many else len(listing.keys)
        read = Cost(requests=listing.pages + fetched_later, rows=len(listing.keys))
    found = explain_plan(choice.plan, choice.source.facts, taken_of=taken_of, taken=taken)
    plan = _costed(found.plan, read, fetched)
    return replace(found, estimated_requests=ceil(plan.cost.requests), manifest_fields=choice.fields, plan=plan)


def _fetched(choice: FilePlan, request: QueryRequest, clock: Clock) -> int:
    """How many documents are fetched: as many as the manifest or the index gives."""
    fetch = _find_fetch(choice.plan.root)
    if fetch is None:
        return 0
    leaf = fetch.child
    if isinstance(leaf, IdLookup):
        return len(leaf.keys)
    executor = Executor(request, choice.source, clock)
    return sum(len(batch) for batch in executor.batches(leaf))


def _find_fetch(node: Node) -> Fetch | None:
    while isinstance(node, Residual | Order | Part):
        node = node.child
    return node if isinstance(node, Fetch) else None


def _costed(step: PlanStep, read: Cost, fetched: int) -> PlanStep:
    """The same steps with what they cost over files: leaves are read, and a fetch asks for each document."""
    children = tuple(_costed(child, read, fetched) for child in step.children)
    cost = read
    if step.name == "Empty":
        cost = Cost()
    elif children:
        cost = children[0].cost
    if step.name == "Fetch":
        cost = Cost(cost.requests + fetched, cost.bytes, max(cost.rows, fetched))
    return replace(step, cost=cost, children=children)


R = TypeVar("R")


class ForeignAnswer:
    """Answers requests from the files as one query sees them. For one thread at a time.

    A bucket without a log has no states: what several requests of one query see may be of different moments. Files that
    were read are not read again for the same answer; documents may be.
    """

    def __init__(
        self, folder: FileFolder, memory: FileMemory, clock: Clock, *, check: ForeignCheck, on_broken: BrokenChoice
    ) -> None:
        """No requests."""
        self.files = ForeignFiles(folder, memory, check=check, on_broken=on_broken)
        self._clock = clock
        self._on_broken = on_broken
        self._contradiction: str | None = None

    @property
    def skipped(self) -> dict[str, str]:
        """By key why each broken file was passed over so far."""
        return dict(self.files.entities.skipped)

    def hits(self, request: QueryRequest) -> Iterator[Hit]:
        """The rows of an answer. Costs what its strategy costs; raises CorruptionError for a broken file."""
        return self._streamed(request, self._hits)

    def tabulate(self, request: QueryRequest, paths: Collection[str]) -> Iterator[Portion | list[Hit]]:
        """The rows of an answer, as portions where columns tell all of `paths`."""

        def table(choice: FilePlan, asked: QueryRequest) -> Iterator[Portion | list[Hit]]:
            return tabulate_plan(choice.plan.root, asked, choice.source, paths, clock=self._clock)

        return self._streamed(request, table)

    def count(self, request: QueryRequest) -> int:
        """How many rows an answer has. A count of all documents costs the manifest, or else a listing."""
        is_of_all = isinstance(request.filter, MatchAll) and request.after is None and not request.is_ranked
        if is_of_all and request.strategy is None:
            number = self._count_all()
            if number is not None:
                left = max(number - request.offset, 0)
                return left if request.limit is None else min(left, request.limit)

        def work(choice: FilePlan, asked: QueryRequest) -> int:
            return count_plan(choice.plan.root, asked, choice.source, clock=self._clock)

        return self._tried(replace(request, is_count=True), work)

    def _count_all(self) -> int | None:
        manifest = self.files.manifest()
        if isinstance(manifest, ForeignManifest):
            return manifest.count
        listing = self.files.listing()
        # To pass over broken files, all of them must be read; and one of twins is broken.
        return len(listing.keys) if self._on_broken == "raise" and not listing.twins else None

    def aggregate(self, aggregation: Aggregation, request: QueryRequest) -> dict[str, Any]:
        """The result of an aggregation over the rows of an answer."""
        asked = needed_request(aggregation, request)
        if asked is None:
            return {"count": self.count(request)}

        def work(choice: FilePlan, one: QueryRequest) -> dict[str, Any]:
            return aggregate_plan(choice.plan.root, aggregation, one, choice.source, clock=self._clock)

        return self._tried(asked, work)

    def explain(
        self, request: QueryRequest, *, analyze: bool, meter: Callable[[], Metered] | None = None
    ) -> Explanation:
        """How a request is answered. Reads what has to be read to choose; for a full scan it lists the files.

        With `analyze` it is answered, and what that took is measured by `meter`.
        """
        if not analyze:
            return self._tried(request, lambda choice, asked: explain_choice(choice, asked, self.files, self._clock))
        watch = Watch(self._clock, meter)
        chosen: list[FilePlan] = []

        def answer() -> int:
            def work(choice: FilePlan, asked: QueryRequest) -> int:
                chosen.append(choice)
                found = run_plan(choice.plan.root, asked, choice.source, clock=self._clock, watch=watch)
                return sum(1 for _ in found)

            return self._tried(request, work)

        taken = watch.whole(answer)
        return explain_choice(chosen[-1], request, self.files, self._clock, taken_of=watch.taken, taken=taken)

    def fetch(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        """The documents under some keys of ids, read side by side; without those that do not exist. 1 GET each."""
        return FileSource(self.files).fetch(keys)

    def scan(self, names: Sequence[str], span: Range) -> Iterator[Portion]:
        """Columns of documents whose ids are in a range, in order of id: of the manifest, if it has all of them."""
        manifest = self.files.manifest()
        if isinstance(manifest, ForeignManifest):
            with suppress(DamagedRowsError):
                if manifest.available(names) >= set(names):
                    return iter([manifest.rows.portion(names, span)])
        return FileSource(self.files).scan([*names, DOCUMENT], span=span)

    def documents(self, span: Range) -> Iterator[StoredVersion]:
        """Documents whose ids are in a range, in order of id. 1 LIST for each 1,000 keys, and 1 GET each."""
        return FileSource(self.files).documents(span)

    def portions(self, rows: Iterable[StoredVersion], names: Sequence[str]) -> Iterator[Portion]:
        """Columns of documents that are there already. No requests."""
        return encode_rows(rows, wanted_of(names))

    # --- tries ---

    def _hits(self, choice: FilePlan, asked: QueryRequest) -> Iterator[Hit]:
        return run_plan(choice.plan.root, asked, choice.source, clock=self._clock)

    def _streamed(self, request: QueryRequest, work: Callable[[FilePlan, QueryRequest], Iterator[R]]) -> Iterator[R]:
        """Results as they are found; if documents are compared with an index or a manifest, after all of them were."""

        def begin(choice: FilePlan, asked: QueryRequest) -> Iterator[R]:
            found = work(choice, asked)
            # Columns are made for the first row: then it is known whether the manifest can be read.
            return iter(list(found)) if choice.is_targeted else chain(list(islice(found, 1)), found)

        yield from self._tried(request, begin)

    def _tried(self, request: QueryRequest, work: Callable[[FilePlan, QueryRequest], R]) -> R:
        """The result of `work` by the chosen plan; by a full scan, if a file contradicts the manifest or the index."""
        if request.is_ranked:
            near = request.near
            raise InvalidRequestError(
                "the search" if near is None else f"near {near.field}",
                reason="another program keeps these files",
                fix="take them over with worm adopt, or import them",
            )
        if self._contradiction is None:
            choice = choose(request, self.files)
            try:
                return work(choice, request)
            except ContradictionError as error:
                if request.strategy not in (None, "full_scan"):
                    raise InvalidRequestError(
                        f"Strategy {request.strategy!r} not available",
                        reason=str(error),
                        fix="leave the strategy to the planner",
                    ) from error
                self._contradiction = str(error)
        return work(choose(replace(request, strategy=None), self.files, self._contradiction), request)
