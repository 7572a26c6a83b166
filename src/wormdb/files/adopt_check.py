"""Before an adoption counts: what the engine will give is held to what every file says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from wormdb.engine.blocks.runs import AttachedBase
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.history.read import History
from wormdb.engine.log.paths import EnginePaths
from wormdb.engine.state.view import Overlay, View
from wormdb.errors import CorruptionError
from wormdb.files.adopt.stage import digest_of
from wormdb.format.entry import Batch, Entry
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.engine.ledger import Surroundings
    from wormdb.engine.state.definition import Definition
    from wormdb.files.adopt.listing import Inventory
    from wormdb.files.contents.names import FileNames
    from wormdb.format.event import JobAttached

__all__ = ["Rehearsal"]

_EVERY = 100


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The state that an entry will make which is not written yet, on top of one without documents."""

    around: Surroundings
    names: FileNames
    seen: View
    definition: Definition
    attached: JobAttached

    def compare(self, inventory: Inventory, told: Callable[[str, int, int], None]) -> None:
        """Go through all documents and their past. 1 GET for each block.

        Raises CorruptionError naming the first that is not as its files were found to say, or an object that is
        damaged, and SnapshotTooOldError naming one that is gone.
        """
        view, data, past = self._view()
        documents, history = view.scan(), History(view, past=past, data=data).documents()
        expected = [(key, listed) for key, listed in inventory.documents if listed.digest]
        for place, (key, listed) in enumerate(expected):
            (stored_key, held), recorded = next(documents, (b"", None)), next(history, None)
            if held is None or recorded is None or not stored_key == recorded.key == key:
                _differs(self.names.entity(listed.id), "it is not where it should be")
            marks = [each.taken for each in recorded.snapshots if each.taken is not None]
            if digest_of(held, recorded.versions, marks) != listed.digest:
                _differs(self.names.entity(listed.id), "it is not as its files have it")
            if place % _EVERY == 0:
                told("comparing", place, len(expected))
        if next(documents, None) is not None or next(history, None) is not None:
            _differs(self.names.collection, "there are more documents than files")

    def _view(self) -> tuple[View, Shelf, Shelf]:
        around, seen, job = self.around, self.seen, self.attached.job
        paths = EnginePaths.of_collection(self.names.collection)
        data, past = (Shelf(around.store, around.pool, folder) for folder in (paths.data, paths.history))
        number = LogNumber(seen.number + 1)
        entry = Entry(
            number=number,
            write_id=job,
            misc=around.misc.next(),
            node=around.misc.node,
            previous=bytes(32),
            batches=(Batch(id=job),),
            events=(self.attached,),
        )
        overlay = Overlay()
        overlay.apply(entry, AttachedBase(around.store, around.pool, paths, self.attached.blocks, number, data))
        view = View(number, self.definition, seen.base, seen.number, overlay, self.attached.added, seen.jobs)
        return view, data, past


def _differs(key: str, reason: str) -> NoReturn:
    raise CorruptionError(f"what was written of {key}", reason=reason, key=key)
