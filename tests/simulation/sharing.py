"""Threads of one process that ask for what is near, for words, and for both, while others change what they ask.

Threads stop at lines of the code that answers, and others go on: a seed decides at which, and who. All of them come to
a new state at once, again and again, because what is kept of a state is made by those that ask first. Codes of the
vectors are exact, so an answer by all lists is known: it must be that of one state which the question met.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Final, TypeVar
from unittest import mock

import wormdb
from tests.engine.forward.compact_rig import rebuild_trees
from tests.engine.sweeps.projections import odd_merges, tiny_lists
from tests.simulation.draws import Draws
from tests.simulation.lines import LineTurns, TurnsStore, turns_at_lines
from tests.simulation.replay import Violation
from tests.simulation.scheduler import Process, ProcessClock
from wormdb.api.database import Database
from wormdb.bql.match import compile_filter
from wormdb.bql.nearest import Distance, Near, nearest
from wormdb.bql.parse import parse_filter
from wormdb.bql.search.fields import parse_fields
from wormdb.bql.search.rank import rank_documents
from wormdb.bql.search.search import SearchQuery
from wormdb.engine.forward.compact import Aim
from wormdb.engine.lists import slab
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.query.physical import nearest as plans
from wormdb.query.planner import cost
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from wormdb import Collection, Document

__all__ = ["Sharing", "play_sharing"]

T = TypeVar("T")

PACKAGES: Final = ("wormdb.engine.lists", "wormdb.query.sources", "wormdb.query.execute")
"""In whose lines threads stop."""
ASKERS: Final = 3
IDS: Final = 16
ROUNDS: Final = 10
LINES: Final = (4.0, 8.0, 12.0, 20.0, 60.0)
"""After how many lines threads stop, about."""
STALLS: Final = (0.1, 0.2, 0.3)
"""Which share of the stops lasts until others have gone on for long."""
LATE_LINES: Final = 400
"""Within so many lines one thread stops until all others are done."""
SEARCHES: Final = ("red", "red shoe", "shoe OR blue", "-red blue", '"red shoe"', "sh*")
TEXTS: Final = ("red shoe", "blue", "shoe red blue", "red")
FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"n": 1},
    {"n": {"$lte": 2}, "v": {"$exists": True}},
    {"_id": {"$lt": 3}},
)
FIELDS: Final = parse_fields(["text"], None)
ASKED: Final = ([127.0, 0.0], [127.0, 127.0], [-127.0, 64.0])
DISTANCES: Final[tuple[Distance, ...]] = ("euclidean", "dot_product", "cosine")
KINDS: Final = ("near", "near", "near", "near", "near", "few", "exact", "search", "both")
"""The nearest by all lists, by some, and by all documents; words; both."""
REFUSED: Final = "refused"


@dataclass
class Changes:
    """What one thread makes of what no other changes: all states of it, and how many of them are there for sure."""

    states: list[Any]
    done: int = 0

    @property
    def newest(self) -> Any:
        """The state that it is brought to."""
        return self.states[-1]

    @contextmanager
    def to(self, state: Any) -> Iterator[None]:
        """What is done inside brings it to a state, which may be seen before it ends."""
        self.states.append(state)
        yield
        self.done = len(self.states) - 1


@dataclass
class Sharing(Draws):
    """A collection that two processes have; threads of the first ask, and one of each writes."""

    seed: int
    turns: LineTurns
    databases: tuple[Database, Database]
    chance: SeededChance
    written: tuple[Changes, Changes] = field(default_factory=lambda: (Changes([{}]), Changes([{}])))
    """Documents with even ids, and with odd ones."""
    vectors: Changes = field(default_factory=lambda: Changes([None]))
    """The distance of the index."""
    words: Changes = field(default_factory=lambda: Changes([False]))
    answers: list[tuple[dict[str, Any], Any]] = field(default_factory=list)
    _waiting: int = 0

    def play(self, count: int) -> None:
        """Some documents and perhaps indexes; then what threads do in rounds, to which all of them come at once."""
        for place in (0, 1):
            self._write(place, "batch", self._batch(IDS, 0.0))
        if self.likely(0.95):
            self._write(0, "vectors", None)
            self._write(0, "words", None)
            self._write(1, "forward", None)
        rounds = [self._round() for _ in range(count)]
        bodies = [[each[place] for each in rounds] for place in range(ASKERS + 2)]
        for place, body in enumerate(bodies):
            self.turns.spawn(f"thread {place}", lambda place=place, body=body: self._live(place, body))  # type: ignore[misc] # both are bound
        self.turns.scheduler.run()
        for database in self.databases:
            for _ in range(2):
                self._ask(database, self._question())
        assert self.databases[0].verify(["things"])[0].findings == ()

    # --- what is drawn ---

    def _one_of(self, choices: Sequence[T]) -> T:
        return choices[int(self.chance.fraction() * len(choices))]

    def _round(self) -> list[list[Any]]:
        """What each thread does: those that ask, and the two that write before all others ask, or meanwhile."""
        is_quiet = self.likely(0.5)
        question, is_same = self._question(), self.likely(0.8)
        first: list[Any] = [("batch", self._batch(3, 0.25))]
        if not is_quiet:
            # Lists are of a newer state then, while one goes on with an older one.
            first += [("forward", None), ("ask", question)]
        writes = [[*first, self._step()] if self.likely(0.3) else first, [self._step()] if self.likely(0.3) else []]
        asked = [
            [question if is_same else self._question(), *([self._question()] if self.likely(0.5) else [])]
            for _ in range(ASKERS)
        ]
        if not is_quiet:
            asked[0][0] = {**asked[0][0], "late": int(self.between(0, LATE_LINES))}
        nothing: list[list[Any]] = [[], []]
        before, after = (writes, nothing) if is_quiet else (nothing, writes)
        return [*([[], each] for each in asked), *([before[place], after[place]] for place in (0, 1))]

    def _step(self) -> tuple[str, Any]:
        verb = self.pick(*["batch"] * 4, *["forward"] * 4, "rebuild", "renew", "vectors", "words")
        return verb, self._batch(1 + int(self.between(0, 4)), 0.25) if verb == "batch" else None

    def _batch(self, count: int, deleted: float) -> dict[int, Any]:
        """By id what is saved; None is a deletion."""
        ids = range(IDS) if count == IDS else [int(self.between(0, IDS)) for _ in range(count)]
        return {number: None if self.likely(deleted) else self._row() for number in ids}

    def _row(self) -> dict[str, Any]:
        # The greatest number of each is 127, and all are whole: codes are exact then.
        vector: list[float] = [self._one_of((-127.0, 127.0)), 21.0 * self._one_of(range(-6, 7))]
        vector = vector if self.likely(0.5) else vector[::-1]
        return {"n": self._one_of(range(4)), "v": vector if self.likely(0.9) else None, "text": self._one_of(TEXTS)}

    def _question(self) -> dict[str, Any]:
        return {
            "kind": self._one_of(KINDS),
            "k": self._one_of((1, 2, 4)),
            "own": self._one_of(ASKED),
            "filter": FILTERS[0] if self.likely(0.6) else self._one_of(FILTERS),
            "text": self._one_of(SEARCHES),
            "is_bare": self.likely(0.5),
            "is_named": self.likely(0.7),
        }

    # --- threads ---

    def _live(self, place: int, body: list[Any]) -> None:
        count = 0
        for before, after in body:
            for some in (before, after):
                for each in some:
                    if place < ASKERS:
                        self._ask(self.databases[0], each)
                    else:
                        self._write(place - ASKERS, *each)
                count += ASKERS + 2
                self._meet(count)

    def _meet(self, count: int) -> None:
        """Wait for all others."""
        self._waiting += 1
        while self._waiting < count:
            self.turns.scheduler.sleep(1)

    def _write(self, place: int, verb: str, what: Any) -> None:
        things = self.databases[place]["things"]
        if verb == "ask":
            self._ask(self.databases[0], what)
        elif verb == "batch":
            self._save(place, things, {number: row for number, row in what.items() if number % 2 == place})
        elif verb == "forward":
            things.forward()
        elif verb == "rebuild":
            with suppress(ConflictError):
                if things._ledger.view().place is not None:
                    rebuild_trees(things._ledger, Aim(400, everything=True))
        elif verb == "renew":
            with suppress(InvalidRequestError):  # it may be gone
                things._ledger.tend_lists(lambda lists: lists.renew("v"))
        elif place == 0:
            self._change_index(verb, things)

    def _save(self, place: int, things: Collection[Document], rows: dict[int, Any]) -> None:
        before = self.written[place].newest
        gone = [number for number, row in rows.items() if row is None and number in before]
        saved = {number: {"_id": number, **row} for number, row in rows.items() if row is not None}
        after = {number: document for number, document in before.items() if number not in gone} | saved
        with self.written[place].to(after), things.batch() as batch:
            for document in saved.values():
                batch.save(document)
            for number in gone:
                batch.delete(number)

    def _change_index(self, verb: str, things: Collection[Document]) -> None:
        """Make it, by another distance each time; or drop it."""
        if verb == "words" and self.words.newest:
            with self.words.to(state=False):
                things.drop_index("text")
        elif verb == "words":
            with self.words.to(state=True):
                things.create_text_index("text", name="text")
        elif self.vectors.newest is not None:
            with self.vectors.to(None):
                things.drop_index("v")
            if self.likely(0.85):
                self._change_index(verb, things)
        else:
            distance = DISTANCES[(self.seed + len(self.vectors.states) // 2) % 3]
            with self.vectors.to(distance):
                things.create_vector_index("v", dimensions=2, distance=distance, name="v")

    # --- questions ---

    def _ask(self, database: Database, question: dict[str, Any]) -> None:
        if "late" in question:
            self.turns.be_late(question["late"])
        changes = [*self.written, self.vectors, self.words]
        begins = [each.done for each in changes]
        try:
            found = found_by(database["things"], question)
        except InvalidRequestError:
            found = REFUSED
        met = [each.states[begin:] for each, begin in zip(changes, begins, strict=True)]
        expected = []
        for even, odd, distance, has_words in product(*met):
            state = {**even, **odd}
            truth = answer(question, [state[number] for number in sorted(state)], distance, has_words=has_words)
            if is_right(question, found, truth):
                self.answers.append((question, found))
                return
            expected.append(truth)
        raise Violation(f"seed {self.seed}: {question} found {found}, and by the states that it met {expected}")


def found_by(things: Collection[Document], question: dict[str, Any]) -> Any:
    """The ids and scores that a question finds."""
    kind = question["kind"]
    options: dict[str, Any] = {}
    if kind != "search":
        near: dict[str, Any] = {"vector": question["own"], "k": question["k"]}
        near |= {"exact": {"exact": True, "distance": "euclidean"}}.get(kind, {"recall": 0.1 if kind == "few" else 1.0})
        options["near"] = {"v": near}
    if kind in {"search", "both"}:
        named = {"query": question["text"], "fields": ["text"]}
        options["search"] = named if question["is_named"] else question["text"]
    if question["is_bare"]:
        options["select"] = ["_id"]
    return [(row["id"], score) for row, score in things.find(question["filter"], **options).scored()]


def answer(
    question: dict[str, Any], documents: list[dict[str, Any]], distance: Distance | None, *, has_words: bool
) -> Any:
    """What is told of some documents, by functions on whole ones; by few lists any part of it."""
    kind, k = question["kind"], question["k"]
    needs_vectors = kind in {"near", "few", "both"}
    needs_words = kind in {"search", "both"} and not question["is_named"]
    if (needs_vectors and distance is None) or (needs_words and not has_words):
        return REFUSED
    passes = compile_filter(parse_filter(question["filter"]))
    by: Distance = "euclidean" if kind == "exact" or distance is None else distance
    near = nearest(Near(("v",), tuple(question["own"]), 1_000, by), filter(passes, documents))
    truth = [(row["_id"], score) for score, row in near]
    ranked = rank_documents(SearchQuery(question["text"]).over(FIELDS), documents)
    searched = [(row["_id"], score) for score, row in ranked if passes(row)]
    by_kind = {"few": truth, "search": searched, "both": joined(truth[:k], searched[:k])}
    return by_kind.get(kind, truth[:k])


def is_right(question: dict[str, Any], found: Any, truth: Any) -> bool:
    """Whether what was found may be told."""
    if question["kind"] != "few" or REFUSED in (found, truth):
        return bool(found == truth)
    # Even nothing may be found: documents may all have left the few lists that are read.
    return len(found) <= question["k"] and bool(found == [each for each in truth if each in found])


def joined(near: list[tuple[int, float]], searched: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """Two rankings by their places."""
    scores: dict[int, float] = {}
    for some in (near, searched):
        for place, (identity, _) in enumerate(some):
            scores[identity] = scores.get(identity, 0.0) + 1.0 / (61 + place)
    return sorted(scores.items(), key=lambda each: (-each[1], each[0]))


# --- places where it happens ---


@contextmanager
def small_slabs(pack_after: int) -> Iterator[None]:
    """Few lists are packed soon, and few ids are looked up soon."""
    with (
        mock.patch.object(slab, "SEGMENT_LISTS", 4),
        mock.patch.object(slab, "PACK_AFTER", pack_after),
        mock.patch.object(slab, "_TABLE_AFTER", 2),
    ):
        yield


@contextmanager
def lists_preferred(*, is_tested: bool) -> Iterator[None]:
    """Lists answer all they can, though a scan of few documents is cheaper; filters come behind them, or before.

    No more documents are scored than are asked for: what codes say is told.
    """
    with (
        mock.patch.object(cost, "NEAREST", -1e9),
        mock.patch.object(cost, "MATCHED", 1e6 if is_tested else 0.0),
        mock.patch.object(plans, "ENOUGH_LEAST", 0),
    ):
        yield


@contextmanager
def opened(turns: LineTurns, store: MemoryStore, name: str, options: wormdb.Settings) -> Iterator[Database]:
    """A process that has the collection."""
    clock = ProcessClock(turns.scheduler, Process(name))
    with Database(
        MeteredStore(TurnsStore(store, turns), clock=clock),
        SerialPool(),
        settings=options,
        schema=None,
        actor=None,
        clock=clock,
        chance=turns.chance,
    ) as database:
        database["things"].count()
        yield database


def play_sharing(seed: int, rounds: int = ROUNDS) -> Sharing:
    """What a seed says. Raises Violation, and whatever a thread was told that it should not be."""
    chance = SeededChance(seed)
    draws = Draws()
    draws.chance = chance
    with ExitStack() as stack:
        stack.enter_context(lists_preferred(is_tested=draws.likely(0.5)))
        stack.enter_context(small_slabs(int(draws.pick("1", "3", "9"))))
        if draws.likely(0.7):
            stack.enter_context(tiny_lists())
        if draws.likely(0.7):
            stack.enter_context(odd_merges())
        lines, stalls = (some[int(chance.fraction() * len(some))] for some in (LINES, STALLS))
        turns = stack.enter_context(turns_at_lines(seed, lines, stalls, PACKAGES))
        options = wormdb.Settings(forward="manual", forward_interval_ms=0)
        if draws.likely(0.4):
            options = replace(options, cache_bytes=int(draws.between(0, 150_000)))
        if draws.likely(0.1):  # then batches are attached as blocks, which takes long
            options = replace(options, block_bytes=500, stage_bytes=400)
        store = MemoryStore()
        one, other = (stack.enter_context(opened(turns, store, name, options)) for name in ("one", "other"))
        played = Sharing(seed, turns, (one, other), chance)
        played.play(rounds)
    return played


if __name__ == "__main__":
    first, _, seeds = sys.argv[1].partition(":")
    failed = 0
    for one in range(int(first), int(first) + int(seeds)):
        try:
            play_sharing(one)
        except Exception as error:  # noqa: BLE001 - all seeds are tried
            failed += 1
            sys.stdout.write(f"seed {one}: {type(error).__name__}: {str(error)[:900]}\n")
    sys.stdout.write(f"{seeds} seeds, {failed} failed\n")
    sys.exit(1 if failed else 0)
