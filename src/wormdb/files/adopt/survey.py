"""Read everything that is to be adopted once, before anything is written: what there is, and what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Literal

from wormdb.engine.lists.definition import check_lists
from wormdb.engine.state.view import sequence_of
from wormdb.engine.tree.definition import Index, claims_of
from wormdb.errors import InvalidRequestError, Problem
from wormdb.files.adopt.stage import digest_of
from wormdb.format import json
from wormdb.format.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from wormdb.files.adopt.listing import DocumentListing, Inventory
    from wormdb.files.adopt.past import SettledDocument
    from wormdb.files.adopt.read import DocumentReader, DocumentReading
    from wormdb.files.contents.names import FileNames

__all__ = ["AdoptionChoices", "AdoptionCounts", "AdoptionSurvey", "survey"]

PROBLEMS_SHOWN: Final = 1_000
_EVERY: Final = 100
_SAMPLED_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class AdoptionChoices:
    """How an adoption is to be done."""

    on_broken: Literal["error", "skip"] = "error"
    on_mismatch: Literal["error", "entity"] = "error"
    verify: bool = True
    dry_run: bool = False


@dataclass(slots=True)
class AdoptionCounts:
    """How much there is to adopt."""

    files: int = 0
    documents: int = 0
    """Alive."""
    trashed: int = 0
    deleted: int = 0
    """For good: only their history is left."""
    versions: int = 0
    snapshots: int = 0
    skipped: int = 0
    """Documents that are left out, because one of their files is broken, or its folder is not an id."""
    mismatched: int = 0
    """Documents whose files do not agree, and that are taken as their own file has them."""


@dataclass(slots=True)
class AdoptionSurvey:
    """What was found."""

    choices: AdoptionChoices
    counts: AdoptionCounts = field(default_factory=AdoptionCounts)
    broken: list[Problem] = field(default_factory=list)
    mismatches: list[Problem] = field(default_factory=list)
    refused: list[Problem] = field(default_factory=list)
    """What no choice lets through: two documents with one value of a unique index."""
    notes: list[Problem] = field(default_factory=list)
    left_out: int = 0
    """Problems that are not listed, because there are too many."""
    sequence: int = 0
    log: int = 0
    """The greatest number of a log that a file says it is of."""
    sample: Sample = field(default_factory=Sample)

    @property
    def fatal(self) -> list[Problem]:
        """What keeps the adoption from being done."""
        found = list(self.refused)
        if self.choices.on_broken == "error":
            found += self.broken
        if self.choices.on_mismatch == "error":
            found += self.mismatches
        return found

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All problems, those that are let through included."""
        return (*self.refused, *self.broken, *self.mismatches, *self.notes)

    def add(self, problems: Iterable[Problem], to: list[Problem]) -> None:
        """List problems, if they are not too many."""
        for problem in problems:
            if len(to) < PROBLEMS_SHOWN:
                to.append(problem)
            else:
                self.left_out += 1


def survey(
    reader: DocumentReader,
    inventory: Inventory,
    choices: AdoptionChoices,
    indexes: Sequence[Index],
    told: Callable[[int], None],
) -> AdoptionSurvey:
    """Read all files. Costs as `DocumentReader.read`; in memory are about 100 bytes for each value of a unique index.

    Each document's digest is left in the inventory; none for one that is left out. `told` is called with the number of
    documents so far.
    """
    found = AdoptionSurvey(choices)
    found.counts.files = inventory.files
    found.counts.skipped = inventory.unnamed
    found.add(inventory.strays, found.broken)
    claims = _Claims(reader.names, [index for index in indexes if index.unique], indexes)
    sampled: list[tuple[bytes, bytes | None]] = []
    for place, reading in enumerate(reader.read(inventory.documents)):
        settled = _judged(reading, found)
        found.log = max(found.log, reading.log)
        if settled is not None:
            _count(settled, found)
            found.add(claims.take(reading.listed, settled), found.refused)
            sampled.append((reading.key, settled.held.document))
        if len(sampled) == _SAMPLED_AT_ONCE:
            found.sample, sampled = found.sample.after(sampled, note_gone=True), []
        if place % _EVERY == 0:
            told(place)
    found.sample = found.sample.after(sampled, note_gone=True)
    return found


def _judged(reading: DocumentReading, found: AdoptionSurvey) -> SettledDocument | None:
    """What becomes of a document; None if it is left out."""
    found.add(reading.broken, found.broken)
    found.add(reading.mismatches, found.mismatches)
    found.add(reading.notes, found.notes)
    settled = reading.settled
    if settled is None:
        found.counts.skipped += 1
        reading.listed.digest = b""
        return None
    found.counts.mismatched += bool(reading.mismatches)
    reading.listed.digest = digest_of(settled.held, settled.versions, settled.marks)
    return settled


def _count(settled: SettledDocument, found: AdoptionSurvey) -> None:
    counts, held = found.counts, settled.held
    counts.documents += held.document is not None
    counts.trashed += held.trash is not None
    counts.deleted += held.document is None and held.trash is None
    counts.versions += len(settled.versions)
    counts.snapshots += len(settled.marks)
    found.sequence = max(found.sequence, sequence_of(held.id))


class _Claims:
    """Which document has which value of the unique indexes."""

    def __init__(self, names: FileNames, unique: Sequence[Index], indexes: Sequence[Index]) -> None:
        self._names = names
        self._indexes = indexes
        self._owners: dict[str, dict[bytes, DocumentListing]] = {index.name: {} for index in unique}

    def take(self, listed: DocumentListing, settled: SettledDocument) -> list[Problem]:
        """What keeps a document from being in the indexes."""
        if settled.held.document is None or not self._indexes:
            return []
        document = json.decode_document(settled.held.document, name="document")
        problems = []
        for index in self._indexes:
            try:
                if index.kind:
                    check_lists([index], [document])
                    continue
                claimed = claims_of(index, document)
            except InvalidRequestError as error:
                problems.append(Problem(listed.place(self._names), f"{error.what}: {error.reason}", error.fix))
                continue
            owners = self._owners.get(index.name)
            for value, shown in {} if owners is None else claimed.items():
                assert owners is not None
                owner = owners.setdefault(blake2b(value, digest_size=16).digest(), listed)
                if owner is not listed:
                    what = f"{', '.join(index.fields)}={shown!r} is unique, and {owner.id!r} has it too"
                    problems.append(Problem(listed.place(self._names), what, "correct one of the two files"))
        return problems
