"""What verify and repair say."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AuditReport", "CheckedCounts", "Finding", "Kind", "Loss", "Repair", "Verification"]

Kind = Literal[
    "root",
    "log",
    "list",
    "block",
    "sidecar",
    "documents",
    "history",
    "index",
    "retired",
    "blob",
    "transaction",
    "unreferenced",
    "file",
    "source",
]

FINDINGS_MAX: Final = 1_000
"""Findings that are listed for one collection and kind; more are only counted."""

_FIXES: Final[dict[Kind, str]] = {
    "root": "repair makes it again from the log, if that is complete",
    "log": "repair gives up the log through this entry, if it was applied; otherwise restore the object from a backup",
    "list": "repair writes the list again",
    "block": "repair writes its rows again, from history, from the log, or from the documents",
    "sidecar": "repair makes it again from its block",
    "documents": "repair writes the documents again from history",
    "history": "repair writes history again from the log and the documents",
    "index": "repair builds the index again from the documents",
    "retired": "repair leaves the list out",
    "blob": "write the same content again with worm blob put: it is stored under the same name",
    "transaction": "restore the object from a backup: only its record tells whether a transaction committed",
    "unreferenced": "nothing: a writer left it behind, and no root names it",
    "file": "repair writes it again from the log, or removes it",
    "source": "worm import takes in what it has now; --on-conflict replace for documents that it changed",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Kind
    key: str
    """The object that it is about."""
    what: str
    fix: str = ""


@dataclass(frozen=True, slots=True)
class CheckedCounts:
    """How much was checked."""

    entries: int = 0
    """Entries of the log."""
    lists: int = 0
    """Pages of block lists, and lists of retired objects."""
    blocks: int = 0
    sidecars: int = 0
    nodes: int = 0
    """Nodes of indexes, and runs of their filters."""
    documents: int = 0
    """Documents that there are, in blocks and in the log; deleted ones are none."""
    versions: int = 0
    """Versions of documents in history."""
    files: int = 0
    """Readable files that are there."""
    blobs: int = 0
    """Blobs that documents refer to."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What verify found in one collection; nothing if all is well."""

    collection: str
    """Its folder."""
    checked: CheckedCounts
    findings: tuple[Finding, ...]
    left_out: int = 0
    """Findings that are not listed because there are too many of their kind."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing was found that should not be; objects without a name do no harm, nor files of others."""
        return all(finding.kind in ("unreferenced", "source") for finding in self.findings)


@dataclass(frozen=True, slots=True)
class Loss:
    """Something that cannot be made again."""

    id: str | None
    """The document, as JSON; None if nothing tells its id any more."""
    what: str
    is_document: bool = True
    """Whether a document is gone or older than it was; otherwise it is about the past, or the trash."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What repair did in one collection."""

    collection: str
    """Its folder."""
    repaired: tuple[Finding, ...]
    """What was found and is well now."""
    lost: tuple[Loss, ...]
    """What the repair gave up."""
    left: tuple[Finding, ...]
    """What is still wrong."""


@dataclass(slots=True)
class AuditReport:
    """Findings and counts in the making."""

    told: Callable[[str], None] | None = None
    """Called with the key of each object before it is checked, to show progress."""
    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: int = 0
    _kinds: Counter[str] = field(default_factory=Counter)

    def add(self, kind: Kind, key: str, what: str, *, fix: str | None = None) -> None:
        """Note a finding."""
        self._kinds[kind] += 1
        if self._kinds[kind] > FINDINGS_MAX:
            self.left_out += 1
        else:
            self.findings.append(Finding(kind, key, what, _FIXES[kind] if fix is None else fix))

    def count(self, what: str, number: int = 1) -> None:
        """Note that something was checked."""
        self.counts[what] += number

    def look(self, where: str) -> None:
        """Tell `told` which object is checked next."""
        if self.told is not None:
            self.told(where)

    def verification(self, collection: str) -> Verification:
        """The findings and counts as a value."""
        return Verification(collection, CheckedCounts(**self.counts), tuple(self.findings), self.left_out)
