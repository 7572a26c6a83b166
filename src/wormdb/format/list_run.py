"""What a root says of the lists of an index: runs of objects, newest first.

They stand in the root itself, because each forwarding adds a run: so there is one object less to write, and a cold
reader asks for the directories of all runs in the round after the root.
"""

from __future__ import annotations

import msgspec

from wormdb.format.frame import Count, Digest, Name

__all__ = ["Calibration", "ListGeneration", "ListHead", "ListPart", "ListRun", "TrainedRef"]


class ListPart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One object of a run: lists from `first` on, or ids."""

    name: Name = msgspec.field(name="n")
    sha256: Digest = msgspec.field(name="h")
    length: Count = msgspec.field(name="b")
    directory: Count = msgspec.field(name="d")
    """Where the directory begins."""
    first: bytes = msgspec.field(name="f", default=b"")
    """The key of its first list; of ids the id of the first document."""


class ListRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What some changes brought to the lists, and took from lists of older runs."""

    number: Count = msgspec.field(name="a")
    """Of the newest entry of the log that is in it."""
    parts: tuple[ListPart, ...] = msgspec.field(name="p")
    """In order of key."""
    ids: tuple[ListPart, ...] = msgspec.field(name="i", default=())
    """The documents that its lists name by their places; empty if they name them by their ids."""
    documents: Count = msgspec.field(name="c", default=0)
    """How many these are."""
    entries: Count = msgspec.field(name="e", default=0)
    gone: Count = msgspec.field(name="g", default=0)
    """How many entries of older runs it takes back."""
    tally: tuple[int, ...] = msgspec.field(name="t", default=())
    """What it adds to the statistics of the index."""

    @property
    def size(self) -> int:
        """Its stored bytes."""
        return sum(part.length for part in (*self.parts, *self.ids))


class TrainedRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was learned before lists were made, and of how many documents."""

    name: Name = msgspec.field(name="n")
    sha256: Digest = msgspec.field(name="h")
    length: Count = msgspec.field(name="b")
    documents: Count = msgspec.field(name="d", default=0)


class Calibration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much of the true answer is found by how many lists: measured on stored vectors, each against others.

    A release that does not know it leaves it out of the roots that it writes, and goes by its rule.
    """

    changes: Count = msgspec.field(name="c", default=0)
    """`Root.changes` when it was measured."""
    entries: Count = msgspec.field(name="e", default=0)
    """How many vectors there were."""
    lists: Count = msgspec.field(name="l", default=1)
    """How many lists there are."""
    longest: Count = msgspec.field(name="m", default=0)
    """Vectors of the longest of them."""
    points: tuple[tuple[Count, Count, Count], ...] = msgspec.field(name="p", default=())
    """A number of lists, what is found in them, and which share of all vectors they have: of 10,000. Ascending."""
    first: Count = msgspec.field(name="f", default=0)
    """The share that was needed for the usual recall when the lists were made, of 10,000."""
    learned: Count = msgspec.field(name="t", default=0)
    """`Root.changes` when the lists were made."""
    learned_from: Count = msgspec.field(name="n", default=0)
    """How many vectors there were then."""


class ListHead(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All lists of an index."""

    runs: tuple[ListRun, ...] = msgspec.field(name="r", default=())
    """Newest first. The oldest takes nothing back."""
    trained: TrainedRef | None = msgspec.field(name="t", default=None)
    is_trained: bool = msgspec.field(name="l", default=False)
    """While it is built: whether the step of learning is done, also if nothing was learned."""
    calibration: Calibration | None = msgspec.field(name="q", default=None)
    """Of vectors: None until it is measured."""

    @property
    def entries(self) -> int:
        """How many entries count."""
        return sum(run.entries - run.gone for run in self.runs)

    @property
    def size(self) -> int:
        """Stored bytes."""
        return sum(run.size for run in self.runs) + (0 if self.trained is None else self.trained.length)

    @property
    def names(self) -> list[str]:
        """Of all its objects."""
        found = [part.name for run in self.runs for part in (*run.parts, *run.ids)]
        return found if self.trained is None else [*found, self.trained.name]

    @property
    def tally(self) -> tuple[int, ...]:
        """The statistics of all documents that are in it; () if there is none."""
        told = [run.tally for run in self.runs if run.tally]
        return tuple(map(sum, zip(*told, strict=True)))


class ListGeneration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lists that are made anew beside those that answer, and how far they are.

    A release that does not know them leaves them out of the roots that it writes: then making them begins anew.
    """

    head: ListHead = msgspec.field(name="l")
    cursor: bytes | None = msgspec.field(name="c", default=None)
    """They have the documents whose id's key is not above this."""
