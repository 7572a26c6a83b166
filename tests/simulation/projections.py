"""What a root says, held against the log: documents, indexes and history are all of it, and nothing else.

Objects of a root never change and stay while readers may need them, so any root of a run can be looked at
afterwards. Here it is read by the engine's own readers, and compared with `tests.simulation.replay`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from tests.simulation.replay import Violation
from tests.simulation.retaining import may_be_dropped
from wormdb.engine.blocks.runs import RunBase, Runs, runs_of
from wormdb.engine.blocks.shelf import Shelf
from wormdb.engine.blocks.tiers import tier_of
from wormdb.engine.history.changes import loads_of_root
from wormdb.engine.index.shelf import IndexShelf, tree_of
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.shelf import ListShelf
from wormdb.engine.log.root import Place
from wormdb.engine.state.indexes import CURSOR_END
from wormdb.engine.state.view import id_key
from wormdb.engine.tree.definition import claims_of
from wormdb.engine.tree.entries import changes_of
from wormdb.engine.tree.tree import verify
from wormdb.errors import WormError
from wormdb.format.json import decode_document
from wormdb.format.past import Version, decode_past
from wormdb.format.root import decode_retired
from wormdb.settings import RUN_BYTES_SMALLEST
from wormdb.storage.pool import SerialPool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.replay import Replay, State
    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.tree.definition import Index
    from wormdb.format.list_run import ListHead
    from wormdb.format.root import IndexRoot, Root
    from wormdb.storage.store import Store

__all__ = ["JOBS_REMEMBERED", "LOADS_KEPT", "check_root", "check_succession", "named_by", "retired_by"]

LOADS_KEPT = 1
JOBS_REMEMBERED = 2
"""What roots of a run keep of jobs, instead of the limits of these names."""


def check_root(store: Store, paths: EnginePaths, root: Root, replay: Replay) -> None:
    """Raise Violation if a root does not say exactly what the log says through the number it has applied."""
    check = _Check(store, paths, root, replay, replay.states[root.applied])
    try:
        check.documents()
        check.history()
        check.indexes()
        check.names()
        check.bounds()
    except WormError as error:
        raise Violation(f"{check.label} cannot be read: {error}") from error


def check_succession(store: Store, paths: EnginePaths, before: Root, root: Root) -> None:
    """Raise Violation if a root forgets an object that the one before it named: readers of that still need it."""
    gone = named_by(store, paths, before) - named_by(store, paths, root) - retired_by(store, paths, root)
    if gone:
        raise Violation(f"root {root.revision} neither names nor retires {sorted(gone)}, which the one before it named")


def named_by(store: Store, paths: EnginePaths, root: Root) -> set[str]:
    """The keys of all objects that a root needs, directly and through others."""
    pool = SerialPool()
    found: set[str] = set()
    for folder, blocks, pages in (
        (paths.data, root.blocks, root.block_pages),
        (paths.data, root.attached, root.attached_pages),
        (paths.history, root.history, root.history_pages),
        (paths.history, root.brought, root.brought_pages),
    ):
        shelf = Shelf(store, pool, folder)
        found |= {shelf.page_key(page.name) for page in pages}
        for block in Runs(shelf, blocks, pages).blocks():
            found |= {shelf.block_key(block.name), shelf.sidecar_key(block.sidecar.name)}
    trees = IndexShelf(store, paths, pool)
    for index in root.indexes:
        if index.lists is not None:
            found |= {trees.folder(index.name) + name for name in index.list_names}
            continue
        nodes = trees.nodes(root, index.name)
        membership = trees.filter(root, index)
        refs = () if membership is None else membership.refs
        found |= {nodes.key(child.name) for child, _ in trees.reader(root, index).refs()}
        found |= {nodes.key(ref.name) for ref in refs}
    return found


def retired_by(store: Store, paths: EnginePaths, root: Root) -> set[str]:
    """The keys of all objects that a root lists as no longer needed."""
    found = {paths.folder + retired.name for retired in root.retired}
    older = root.retired_older
    while older is not None:
        key = paths.retired(older.name)
        listed = decode_retired(store.get(key).body, name=key, identity=older.name)
        found |= {paths.folder + retired.name for retired in listed.retired}
        older = listed.older
    return found


@dataclass(frozen=True, slots=True)
class _Check:
    store: Store
    paths: EnginePaths
    root: Root
    replay: Replay
    state: State

    @property
    def label(self) -> str:
        return f"root {self.root.revision}, which has applied {self.root.applied}"

    def documents(self) -> None:
        """Blocks have every id ever used, in its newest version."""
        place = Place(self.store, SerialPool(), self.paths, self.root)
        found = {
            str(json.loads(held.id)): (_text(held.document), held.rev, held.seq, _text(held.trash))
            for _, held in RunBase(place).scan()
        }
        wanted = {
            identity: (stored.body, stored.rev, stored.seq, stored.trash)
            for identity, stored in self.state.documents.items()
        }
        if found != wanted:
            raise Violation(f"{self.label}: its blocks have {found}, the log {wanted}")
        if self.root.rows != len(self.state.bodies()):
            raise Violation(f"{self.label}: it counts {self.root.rows} documents, there are {len(self.state.bodies())}")
        if self.root.definition != self.state.definition:
            raise Violation(f"{self.label}: its definition is not the log's")

    def history(self) -> None:
        """History has every change once, but for those that are not kept, and what was attached as it was."""
        found = sorted(chain(self._rows(), self._loaded()))
        changes = [
            change for change in self.replay.happened if self.root.history_from < change.number <= self.root.applied
        ]
        there = {(identity, seq) for identity, seq, *_ in found}
        wanted = sorted(
            (change.id, change.seq, change.number, change.after or "", change.actor or "", change.snapshot)
            for change in changes
            if (change.id, change.seq) in there or not may_be_dropped(self.replay, change, self.root)
        )
        if found != wanted:
            raise Violation(f"{self.label}: its history is {found}, the log has {wanted}")

    def _rows(self) -> Iterator[tuple[str, int, int, str, str, bool]]:
        shelf = Shelf(self.store, SerialPool(), self.paths.history)
        for _, row in Runs(shelf, self.root.history, self.root.history_pages, keyed=False).scan():
            version = decode_past(row.cell, name="history")
            if isinstance(version, Version):
                identity = str(json.loads(version.id))
                after, actor = _text(version.document) or "", version.actor or ""
                yield identity, version.seq, version.rev, after, actor, version.snapshot

    def _loaded(self) -> Iterator[tuple[str, int, int, str, str, bool]]:
        for load in loads_of_root(self.root, Shelf(self.store, SerialPool(), self.paths.data)):
            for _, held in load.layer.scan():
                identity, after = str(json.loads(held.id)), _text(held.document) or ""
                yield identity, held.seq, load.number, after, load.actor or "", False

    def bounds(self) -> None:
        """What it says of jobs does not grow with their number: most of what they attached is history."""
        root = self.root
        loads = {run.through for run in runs_of(root.attached, root.attached_pages)}
        sizes = [run.size for run in runs_of(root.attached, root.attached_pages)]
        tiers = {tier_of(size, RUN_BYTES_SMALLEST) for size in sizes}
        most = len(runs_of(root.blocks, root.block_pages)) + 2 * LOADS_KEPT * len(tiers)
        if len(loads) > most:
            raise Violation(f"{self.label}: it names what {len(loads)} jobs attached, {most} are enough")
        others = [job for job in root.jobs if job.state != "open" and job.number not in loads]
        if len(others) > 2 * JOBS_REMEMBERED:
            raise Violation(f"{self.label}: it remembers {len(others)} jobs that ended")

    def indexes(self) -> None:
        """Each index is where the log says, and its tree is what the documents up to its cursor make."""
        kept = [index for index in self.root.indexes if index.state != "dropped"]
        found = {index.name: index.state for index in kept}
        living = {name: one for name, one in self.state.indexes.items() if one.life != "dropped"}
        wanted = {name: one.life for name, one in living.items()}
        if found != wanted:
            raise Violation(f"{self.label}: its indexes are {found}, by the log {wanted}")
        for index in kept:
            if index.lists is None:
                self._tree(index, living[index.name].index)
            else:
                through = CURSOR_END if index.state == "ready" else index.cursor
                self._lists(index, index.lists, through, living[index.name].index)
            if index.successor is not None:
                self._lists(index, index.successor.head, index.successor.cursor, living[index.name].index)

    def _lists(self, found: IndexRoot, head: ListHead, through: bytes | None, index: Index) -> None:
        """What runs bring and take back, one after the other, is what the documents up to the cursor say."""
        folder = ListShelf(self.store, self.paths, SerialPool()).folder(self.root, found.name)
        kind = kind_for(index)
        trained = folder.trained(head.trained)
        there = self._in_runs(folder, found.name, head, kind)
        wanted: dict[tuple[bytes, bytes], bytes] = {}
        sums: list[int] = []
        for identity, text in self.state.bodies().items():
            document = decode_document(text.encode(), name=identity)
            encoded = json.dumps(identity, ensure_ascii=False).encode()
            if through is not None and found.reason is None and id_key(encoded) <= through:
                (lists,) = kind.lister(trained)([document])
                wanted |= {(key, encoded): payload for key, payload in lists.items()}
                told = kind.tally(document)
                sums = [one + other for one, other in zip(sums or [0] * len(told), told, strict=True)]
        if there != wanted:
            raise Violation(f"{self.label}: index {found.name} up to {through!r} has {there}, not {wanted}")
        if any(sums) and head.tally != tuple(sums):
            raise Violation(f"{self.label}: index {found.name} counts {head.tally}, not {sums}")

    def _in_runs(
        self, folder: ListFolder, name: str, head: ListHead, kind: ListKind
    ) -> dict[tuple[bytes, bytes], bytes]:
        """What is left when runs bring and take back entries, the oldest first."""
        there: dict[tuple[bytes, bytes], bytes] = {}
        for run in reversed(head.runs):
            ids = [one for page in folder.stream_ids(run.ids) for one in page.ids]
            for key, stored in folder.stream_lists(run.parts, kind):
                gone = [ids[place] for place in stored.gone_places] if kind.is_shared else list(stored.gone)
                came = [ids[place] for place in stored.places] if kind.is_shared else list(stored.ids)
                for identity in gone:
                    if there.pop((key, identity), None) is None:
                        raise Violation(f"{self.label}: index {name} takes back what is not in {key!r}")
                for place, identity in enumerate(came):
                    if (key, identity) in there:
                        raise Violation(f"{self.label}: index {name} has {identity!r} twice in {key!r}")
                    there[key, identity] = stored.payload(place)
        return there

    def _tree(self, found: IndexRoot, index: Index) -> None:
        shelf = IndexShelf(self.store, self.paths, SerialPool())
        problems = verify(tree_of(found), shelf.nodes(self.root, found.name))
        if problems:
            raise Violation(f"{self.label}: index {found.name}: {problems}")
        entries = list(shelf.reader(self.root, found).scan())
        through = CURSOR_END if found.state == "ready" else found.cursor
        wanted: list[tuple[bytes, bytes | None]] = []
        values: list[bytes] = []
        for identity, body in self.state.bodies().items():
            document = decode_document(body.encode(), name=identity)
            encoded = json.dumps(identity, ensure_ascii=False).encode()
            if through is not None and found.reason is None and id_key(encoded) <= through:
                wanted += changes_of(index, encoded, None, document)
                values += claims_of(index, document)
        if entries != sorted(wanted):
            raise Violation(f"{self.label}: index {found.name} up to {through!r} has {entries}, not {sorted(wanted)}")
        membership = shelf.filter(self.root, found)
        if index.unique and membership is not None and not all(map(membership.might_contain, values)):
            raise Violation(f"{self.label}: the filter of index {found.name} denies what is there")

    def names(self) -> None:
        """Nothing that it needs is listed as retired."""
        both = named_by(self.store, self.paths, self.root) & retired_by(self.store, self.paths, self.root)
        if both:
            raise Violation(f"{self.label}: it names and retires {sorted(both)}")


def _text(document: bytes | None) -> str | None:
    return None if document is None else document.decode()
