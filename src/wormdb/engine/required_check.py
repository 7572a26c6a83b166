"""Whether documents have what a new model requires of them: where it does not say how they get it, nothing does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wormdb.engine.blocks.runs import Runs
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.state.view import id_key
from wormdb.errors import ConflictError, InvalidRequestError, Problem
from wormdb.format import json
from wormdb.format.event import JobAttached
from wormdb.format.kinds import MISSING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from wormdb.engine.state.view import View
    from wormdb.schema.model import Field, Model

__all__ = ["Requirements"]


@dataclass(frozen=True, slots=True)
class Requirements:
    """The fields that a model requires and the one before did not."""

    model: Model
    before: Mapping[str, Field] = field(default_factory=dict)

    @classmethod
    def of(cls, before: Model | None, after: Model) -> Requirements:
        """What is new in `after`. No requests."""
        return cls(after, {} if before is None else before.fields)

    def check(self, seen: View) -> None:
        """Raise InvalidRequestError if documents of a state lack a field, with how many do and one of them.

        A default brings a field that is missing, when the document is written next; it does not replace null. No
        requests where the statistics of columns tell that all documents have it; otherwise a scan: 1 GET a block.
        """
        if seen.count and any(True for _ in _demanded(self.before, self.model.fields)):
            self._refuse(_documents(seen) if self._may_lack(seen) else _of_tail(seen))

    def check_since(self, seen: View, view: View) -> None:
        """The same for what came after a state that was checked. No requests.

        Raises ConflictError if that cannot be told without reading: then all is checked again.
        """
        if view.number == seen.number or not any(True for _ in _demanded(self.before, self.model.fields)):
            return
        if view.base_number > seen.number or _has_job(view, seen.number):
            raise ConflictError(f"the model {self.model.name}", reason="documents came that were not looked at")
        self._refuse(_of_tail(view, seen.number))

    def _refuse(self, documents: Iterable[tuple[bytes, bytes]]) -> None:
        counts: dict[str, int] = {}
        examples: dict[str, str] = {}
        for identity, document in documents:
            values = json.decode_document(document, name="document")
            for path in dict.fromkeys(_lacking(self.before, self.model.fields, values)):
                counts[path] = counts.get(path, 0) + 1
                examples.setdefault(path, identity.decode())
        if counts:
            raise InvalidRequestError(
                f"the model {self.model.name}",
                problems=[
                    Problem(f"fields.{path}", f"is required, and {_many(count)} it, such as {examples[path]}")
                    for path, count in counts.items()
                ],
                fix="bring it by a mapping or a function, or give the field a default; nothing was written",
            )

    def _may_lack(self, seen: View) -> bool:
        """Whether documents in blocks may lack a field, as far as statistics tell. 1 GET a page of a long list."""
        place = seen.place
        if place is None:
            return False
        demanded = list(_demanded(self.before, self.model.fields))
        if any("." in path for path, _ in demanded) or _has_job(seen, seen.base_number):
            return True
        runs = Runs(Shelf(place.store, place.pool, place.paths.data), place.root.blocks, place.root.block_pages)
        for block in runs.blocks():
            if block.rows == block.deleted:
                continue
            stats = {each.path: each for each in seen.definition.upgrades.stats(block)}
            for path, has_default in demanded:
                known = stats.get(path)
                # A deletion has no value either, so that it may stand for a document here: then the scan tells.
                if known is None or known.nulls or (known.missing and not has_default):
                    return True
        return False


def _many(count: int) -> str:
    return f"{count:,} documents lack" if count > 1 else "1 document lacks"


def _documents(view: View) -> Iterator[tuple[bytes, bytes]]:
    return ((held.id, held.document) for _, held in view.scan() if held.document is not None)


def _of_tail(view: View, after: int | None = None) -> Iterator[tuple[bytes, bytes]]:
    """Documents that entries after a number changed, as they are in a state; of the whole tail without one."""
    begin = view.base_number if after is None else after
    entries = (entry for entry in view.overlay.entries(view.number) if entry.number > begin)
    keys = {id_key(change.id) for entry in entries for batch in entry.batches for change in batch.changes}
    for held in view.get_many(sorted(keys)).values():
        if held.document is not None:
            yield held.id, held.document


def _has_job(view: View, after: int) -> bool:
    entries = (entry for entry in view.overlay.entries(view.number) if entry.number > after)
    return any(isinstance(event, JobAttached) for entry in entries for event in entry.events)


def _demanded(before: Mapping[str, Field], after: Mapping[str, Field], prefix: str = "") -> Iterator[tuple[str, bool]]:
    """The paths that are required now and were not, and whether each has a default."""
    for name, declared in after.items():
        old = before.get(name)
        if declared.required and (old is None or not old.required):
            yield prefix + name, declared.default is not MISSING
        inner, known = declared, old
        while inner.items is not None:
            inner, known = inner.items, None if known is None else known.items
        yield from _demanded({} if known is None else known.properties, inner.properties, f"{prefix}{name}.")


def _lacking(
    before: Mapping[str, Field], after: Mapping[str, Field], values: Mapping[str, Any], prefix: str = ""
) -> Iterator[str]:
    """The paths of what a document lacks."""
    for name, declared in after.items():
        old = before.get(name)
        value = values.get(name, MISSING)
        if declared.required and (old is None or not old.required):
            is_brought = value is MISSING and declared.default is not MISSING
            if value is None or (value is MISSING and not is_brought and name not in {"_id", "id"}):
                yield prefix + name
        yield from _inside(old, declared, value, f"{prefix}{name}.")


def _inside(old: Field | None, declared: Field, value: Any, prefix: str) -> Iterator[str]:
    if isinstance(value, list) and declared.items is not None:
        for item in value:
            yield from _inside(None if old is None else old.items, declared.items, item, prefix)
    elif isinstance(value, dict):
        yield from _lacking({} if old is None else old.properties, declared.properties, value, prefix)
