"""Documents of older versions of a model, as the newest version has them.

A version comes by a log entry, and may bring a mapping: an update that makes a document of before what it is after.
Which mappings a document needs follows from its revision: those of later entries. Only a block that was written again
says more: through which entry mappings are done in all of its rows (`BlockEntry.shape`).

So this is the one place that turns what is stored into what is shown. A view does it for what came after its root
(`View`), and a shelf for blocks (`Shelf.showing`); history, and readers of a shelf as it is, see documents as written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.errors import ConflictError, InvalidRequestError, Problem, WormError
from wormdb.format import json
from wormdb.format.block import Row
from wormdb.format.event import JobAttached
from wormdb.format.path import is_position
from wormdb.format.values import normalize
from wormdb.schema.validate import validate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.bql.update.update import Update
    from wormdb.engine.state.view import StoredVersion, View
    from wormdb.format.blocklist import BlockEntry, BlockPageRef, ColumnStats
    from wormdb.format.root import SchemaVersion
    from wormdb.schema.model import Model

__all__ = ["NO_UPGRADES", "Upgrades", "check_mapped", "check_since", "document_of", "encode_mapping", "unfit"]

_ALWAYS: Final = datetime(1970, 1, 1, tzinfo=UTC)  # no mapping asks for the time
_IMPURE: Final = {"$currentDate": "the time of day", "$setOnInsert": "whether a document is new"}


class _Trash(msgspec.Struct):
    document: msgspec.Raw


_TRASH: Final = msgspec.json.Decoder(_Trash)


def document_of(trash: bytes) -> bytes:
    """The document, as JSON, in what the trash has of it. No requests."""
    return bytes(_TRASH.decode(trash).document)


def encode_mapping(written: Mapping[str, Any]) -> bytes:
    """A mapping as the log has it: an update that says the same of a document whenever it is asked. No requests.

    `{}` leaves documents as they are. Raises InvalidRequestError listing all mistakes.
    """
    for name, reason in _IMPURE.items():
        if name in written:
            raise InvalidRequestError(
                f"mapping with {name}", reason=f"it depends on {reason}", fix="set a value, or migrate with a function"
            )
    encoded = json.encode(_normal(written))
    needs_match = _parsed(encoded)[2]
    if needs_match:
        raise InvalidRequestError(
            "mapping with `$`", reason="there is no filter that could match an element", fix="use `$[]`"
        )
    return encoded


def _normal(value: Any) -> Any:
    """What JSON can say, also of operators, which are no fields."""
    if isinstance(value, Mapping):
        return {str(name): _normal(item) for name, item in value.items()}
    return [_normal(item) for item in value] if isinstance(value, list | tuple) else normalize(value)


@lru_cache(maxsize=256)
def _parsed(mapping: bytes) -> tuple[Update | None, tuple[tuple[str, ...], ...], bool]:
    """The update of a mapping, the paths that it reads or changes, without positions, and whether it has a `$`."""
    from wormdb.bql.update.tree import leaves_of
    from wormdb.bql.update.update import (
        parse_update,
    )  # few databases have mappings: the others do not wait for its import

    written = json.parse(mapping.decode(), operators=True)
    if not written:
        return None, (), False
    update = parse_update(written)
    paths = [leaf.path for leaf in leaves_of(update.tree)]
    return update, tuple({_plain(path) for path in paths}), bool(update.arrays)


def _plain(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(segment for segment in path if not segment.startswith("$") and not is_position(segment))


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    update: Update
    touched: tuple[tuple[str, ...], ...]

    def touches(self, path: str) -> bool:
        own = _plain(path.split("."))
        return any(own[: len(other)] == other or other[: len(own)] == own for other in self.touched)

    def apply(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document after the mapping; raises InvalidRequestError, LimitExceededError if that cannot be."""
        from wormdb.bql.update.update import apply_update

        return apply_update(self.update, document, now=_ALWAYS)

    def apply_if(self, document: dict[str, Any]) -> dict[str, Any]:
        """The same; but what cannot be mapped stays as it is.

        A new mapping is tried on every document first: only what was in the trash then may be so.
        """
        try:
            return self.apply(document)
        except WormError:
            return document


@dataclass(frozen=True, slots=True)
class Upgrades:
    """The mappings of a state, in the order of their entries. A value; nothing here makes requests."""

    steps: tuple[_Step, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, versions: Iterable[SchemaVersion]) -> Upgrades:
        """Those that versions brought, without those that leave all documents alone."""
        steps = []
        for version in versions:
            update, touched, _ = (None, (), False) if version.mapping is None else _parsed(version.mapping)
            if update is not None:
                steps.append(_Step(version.number, update, touched))
        return cls(tuple(steps)) if steps else NO_UPGRADES

    @property
    def newest(self) -> int:
        """The entry of the last mapping; 0 if there is none."""
        return self.steps[-1].number if self.steps else 0

    def through(self, number: int) -> Upgrades:
        """Those that were in force at entry `number`."""
        return Upgrades(tuple(step for step in self.steps if step.number <= number))

    def touches(self, path: str, since: int = 0) -> bool:
        """Whether a mapping after entry `since` may read or change what is at a dotted path."""
        return any(step.touches(path) for step in self.steps if step.number > since)

    # --- blocks ---

    def is_old(self, part: BlockEntry | BlockPageRef) -> bool:
        """Whether rows of a block, or of a page of blocks, may have to be mapped."""
        return self.newest > max(part.shape, part.rev_first)

    def stats(self, entry: BlockEntry) -> tuple[ColumnStats, ...]:
        """The columns of a block that say what its documents have now."""
        if not self.is_old(entry):
            return entry.columns
        since = max(entry.shape, entry.rev_first)
        return tuple(stats for stats in entry.columns if not self.touches(stats.path, since))

    def row(self, entry: BlockEntry, row: Row) -> Row:
        """A row of a block, whose revision is known, as it is now."""
        since = max(entry.shape, row.rev)
        if since >= self.newest:
            return row
        return Row(row.id, row.rev, row.seq, self._document(row.document, since), self._trash(row.trash, since))

    # --- documents ---

    def held(self, held: StoredVersion, since: int) -> StoredVersion:
        """What is under an id as it is now; it is as it was at entry `since`."""
        if since >= self.newest:
            return held
        return msgspec.structs.replace(
            held, document=self._document(held.document, since), trash=self._trash(held.trash, since)
        )

    def document(self, body: bytes, since: int) -> bytes:
        """A document, as JSON, as it is now; it is as it was at entry `since`."""
        if since >= self.newest:
            return body
        document = json.decode_document(body, name="document")
        for step in self.steps:
            if step.number > since:
                document = step.apply_if(document)
        return json.encode_document(document)

    def check(self, body: bytes, since: int) -> bytes:
        """As `document`; raises InvalidRequestError or LimitExceededError for a document that cannot be mapped."""
        document = json.decode_document(body, name="document")
        for step in self.steps:
            if step.number > since:
                document = step.apply(document)
        return json.encode_document(document)

    def _document(self, body: bytes | None, since: int) -> bytes | None:
        return None if body is None else self.document(body, since)

    def _trash(self, trash: bytes | None, since: int) -> bytes | None:
        """What the trash has, with the document mapped, which comes last in it."""
        if trash is None:
            return None
        body = document_of(trash)
        return trash.removesuffix(body + b"}") + self.document(body, since) + b"}"


NO_UPGRADES: Final = Upgrades()


# --- Whether every document can be mapped to a new version of its model: asked before the version is written.

PROBLEMS_SHOWN: Final = 100


def unfit(model: Model, identity: bytes, document: bytes) -> Problem | None:
    """Why a document does not fit a model; None if it does. No requests."""
    try:
        validate(model, json.decode_document(document, name="document"))
    except InvalidRequestError as error:
        reasons = "; ".join(f"{one.path}: {one.reason}" for one in error.problems) or str(error)
        return Problem(f"document {identity.decode()}", reasons)
    return None


def check_mapped(model: Model, upgrades: Upgrades, seen: View) -> None:
    """Raise InvalidRequestError listing the first hundred documents of a state that cannot be mapped to a model.

    `upgrades` has the new mapping as its last. One scan: 1 GET for each block.
    """
    found = ((held.id, held.document) for _, held in seen.scan() if held.document is not None)
    _refuse(model, _problems(model, upgrades, found, seen.number))


def check_since(model: Model, upgrades: Upgrades, seen: View, view: View) -> None:
    """The same for what came after a state that was checked. No requests.

    Raises ConflictError if that cannot be told without reading: then all is checked again.
    """
    if view.base_number > seen.number:
        raise ConflictError(f"the version of {model.name}", reason="the log was brought forward meanwhile")
    entries = [entry for entry in view.overlay.entries(view.number) if entry.number > seen.number]
    if any(isinstance(event, JobAttached) for entry in entries for event in entry.events):
        raise ConflictError(f"the version of {model.name}", reason="a job brought documents meanwhile")
    changes = (change for entry in entries for batch in entry.batches for change in batch.changes)
    found = ((change.id, change.after) for change in changes if change.after is not None)
    _refuse(model, _problems(model, upgrades, found, seen.number))


def _problems(
    model: Model, upgrades: Upgrades, documents: Iterable[tuple[bytes, bytes]], since: int
) -> Iterator[Problem]:
    for identity, document in documents:
        try:
            problem = unfit(model, identity, upgrades.check(document, since))
        except WormError as error:
            problem = Problem(f"document {identity.decode()}", str(error))
        if problem is not None:
            yield problem


def _refuse(model: Model, problems: Iterator[Problem]) -> None:
    found = list(islice(problems, PROBLEMS_SHOWN))
    if found:
        raise InvalidRequestError(
            f"the mapping to the new version of {model.name}",
            problems=found,
            fix="change the mapping or the model, or migrate with a function; nothing was written",
        )
