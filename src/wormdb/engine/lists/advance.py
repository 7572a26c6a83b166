"""Bring list indexes forward: a run of what a step changes, merged with older runs by the rule of tiers.

A change is a deletion in each list of the document before, and an entry in each list of the document after: both are in
the step, so nothing is read but what is merged. Lists that are being built have the documents up to a cursor, and a
step changes them up to there. What is no longer wanted is retired.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.memory import give_back_memory
from wormdb.engine.blocks.runs import RunBase, Runs, held_of
from wormdb.engine.blocks.tiers import plan_cascade
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.draft import ListMaker, RunDraft
from wormdb.engine.lists.merge import DraftSource, RunWriter, StoredSource
from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.indexes import goes_on, is_whole
from wormdb.engine.state.projection import Net
from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.format.list_part import encode_trained
from wormdb.format.list_run import ListGeneration, ListHead, TrainedRef
from wormdb.format.membership import HASH_BITS, key_hash
from wormdb.format.root import IndexRoot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from wormdb.engine.blocks.shelf import Shelf
    from wormdb.engine.lists.kind import ListKind
    from wormdb.engine.lists.merge import MergeSource
    from wormdb.engine.lists.shelf import ListFolder, ListShelf
    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.root import Place
    from wormdb.engine.state.indexes import IndexStatus
    from wormdb.engine.state.projection import ProjectionStep
    from wormdb.format.blocklist import BlockEntry
    from wormdb.format.kinds import Document

__all__ = [
    "ListEdit",
    "ListProjector",
    "attached_net",
    "bare_lists",
    "is_unmeasured",
    "measure_lists",
    "sample_documents",
    "stored_documents",
    "stored_net",
    "train_lists",
]

_SLICE: Final = 1_000
"""Documents that are looked at together."""
_FIRST: Final = 1
"""The number of a document's first change: before it nothing was there."""


# --- the lists of one index on their way ---


@dataclass(slots=True)
class ListEdit:
    """The lists of one index, from one state to another. Used by one thread."""

    head: ListHead
    folder: ListFolder
    kind: ListKind
    writer: ObjectWriter
    smallest: int
    """Bytes of a run up to which it counts for the lowest tier."""
    is_strict: bool = False
    """Whether documents that cannot be indexed raise InvalidRequestError."""
    retired: list[str] = field(default_factory=list)
    """Names of objects that the lists no longer need."""

    def apply(self, net: Iterable[Net], number: int) -> None:
        """Change the lists by documents in order of key, of a state of `number`.

        1 PUT, and those of `RunWriter.merge` with the GETs of what is merged; again for each 64 MiB of entries. 1 GET
        for what was learned, the first time. Raises InvalidRequestError, CorruptionError, SnapshotTooOldError,
        UnavailableError.
        """
        changed = iter(net)
        maker: ListMaker | None = None
        draft = RunDraft()
        while some := list(islice(changed, _SLICE)):
            maker = maker or self.maker()
            maker.add(draft, some)
            if draft.is_full:
                self.add(draft, number)
                draft = RunDraft()
                give_back_memory()
        self.add(draft, number)

    def maker(self) -> ListMaker:
        """What finds the lists of documents. 1 GET for what was learned, the first time."""
        return ListMaker(self.kind, self.folder.trained(self.head.trained), is_strict=self.is_strict)

    def add(self, draft: RunDraft, number: int) -> None:
        """Put a run before the others, together with those that the rule of tiers joins with it. Costs as `apply`."""
        if draft.is_empty:
            return
        runs = self.head.runs
        joined = plan_cascade(draft.size, [run.size for run in runs], self.smallest)
        sources: list[MergeSource] = [DraftSource(draft)]
        sources += [StoredSource(self.folder, run, self.kind) for run in runs[:joined]]
        self._replace(sources, joined, number)

    def join(self, number: int) -> None:
        """Make one run of all. Costs as `RunWriter.merge`; nothing if there is one."""
        runs = self.head.runs
        if len(runs) > 1:
            self._replace([StoredSource(self.folder, run, self.kind) for run in runs], len(runs), number)

    def _replace(self, sources: Sequence[MergeSource], joined: int, number: int) -> None:
        runs = self.head.runs
        run_writer = RunWriter(self.folder, self.kind, self.writer)
        made = run_writer.merge(sources, number=number, is_base=joined == len(runs))
        self.retired += [part.name for run in runs[:joined] for part in (*run.parts, *run.ids)]
        following = runs[joined:] if made is None else (made, *runs[joined:])
        self.head = msgspec.structs.replace(self.head, runs=following)


def train_lists(
    folder: ListFolder, kind: ListKind, writer: ObjectWriter, documents: Iterable[tuple[bytes, bytes]], count: int
) -> ListHead:
    """Empty lists, after learning from a fair sample of `count` documents, which are given by the keys of their ids.

    1 PUT if something is learned; the documents are not looked at if the kind learns nothing.
    """
    size = kind.sample_size(count)
    if size <= 0:
        return ListHead(is_trained=True)
    trained = kind.train(sample_documents(documents, count, size), count)
    if trained is None:
        return ListHead(is_trained=True)
    name = f"{writer.new_name()}.trained"
    body = encode_trained(trained, identity=folder.scope + name)
    writer.put(NewObject(folder.key(name), body))
    ref = TrainedRef(name=name, sha256=sha256(body).digest(), length=len(body), documents=count)
    return ListHead(trained=ref, is_trained=True)


def is_unmeasured(head: ListHead, kind: ListKind) -> bool:
    """Whether `measure_lists` has not been asked about lists for which it could tell something. No requests."""
    return kind.name == "vector" and head.trained is not None and head.calibration is None


def measure_lists(folder: ListFolder, head: ListHead, kind: ListKind, changes: int) -> ListHead:
    """Lists with what they find, as is measured now; as they are if that cannot be told of the kind.

    `changes` are those of the root that has them. Costs and raises as `calibrate`.
    """
    if kind.name != "vector" or head.trained is None:
        return head
    from wormdb.engine.lists.calibrate import calibrate
    from wormdb.engine.lists.vector_kind import VectorKind

    assert isinstance(kind, VectorKind)
    found = calibrate(folder, head, kind, changes=changes)
    return msgspec.structs.replace(head, calibration=found)


def sample_documents(documents: Iterable[tuple[bytes, bytes]], count: int, size: int) -> list[Document]:
    """About `size` of `count` documents, chosen by the hashes of their ids' keys, in order. No requests."""
    bound = (1 << HASH_BITS) if size >= count else (size << HASH_BITS) // max(count, 1)
    chosen = (document for key, document in documents if key_hash(key) < bound)
    return [json.decode_document(document, name="document") for document in chosen]


def bare_lists(status: IndexStatus) -> IndexRoot:
    """A list index without lists."""
    return IndexRoot(
        name=status.index.name,
        definition=status.definition,
        state=status.state,
        applied=status.number,
        reason=status.reason,
        lists=ListHead(),
    )


# --- a step ---


@dataclass(slots=True)
class ListProjector:
    """The list indexes of a root, brought through a step."""

    step: ProjectionStep
    shelf: ListShelf
    blocks: Shelf
    retired: list[str]
    """Whole keys of objects that are no longer named; it is added to."""

    def following(self, status: IndexStatus, old: IndexRoot | None) -> IndexRoot:
        """A list index after the step; 1 PUT or a few if it changes, see `ListEdit.apply`.

        One that is ready and has no lists is made from all documents of the root.
        """
        same = old if old is not None and old.definition == status.definition and old.lists is not None else None
        if status.state == "ready":
            if same is not None and is_whole(same):
                made = self._edited(status, same, self._net())
                return made if same.successor is None else self._with_successor(made, status, same.successor)
            self.retire(old)
            return self._made(status)
        if status.state == "building" and same is not None and goes_on(same, status):
            return self._edited_to_cursor(status, same)
        self.retire(old)
        return bare_lists(status)

    def retire(self, old: IndexRoot | None) -> None:
        """List every object of a list index. No requests."""
        if old is not None and old.lists is not None:
            folder = self.shelf.folder(self.step.root, old.name)
            self.retired += map(folder.key, old.list_names)

    def _made(self, status: IndexStatus) -> IndexRoot:
        """Nothing was there to index, or the projection is made anew from what the root has."""
        bare, root = bare_lists(status), self.step.root
        if not root.rows:
            return self._edited(status, bare, self._net())
        kind, folder = kind_for(status.index), self.shelf.folder(root, status.index.name)
        head = train_lists(folder, kind, self.step.writer, stored_documents(self.step.place, self.blocks), root.rows)
        edit = self._edit(status, msgspec.structs.replace(bare, lists=head))
        edit.apply(stored_net(self.step.place, self.blocks), root.applied)
        edit.head = measure_lists(folder, edit.head, kind, root.changes)
        edit.apply(self._net(), self.step.view.number)
        return self._finished(status, bare, edit)

    def _edited_to_cursor(self, status: IndexStatus, old: IndexRoot) -> IndexRoot:
        if old.reason is not None or old.cursor is None:
            return old
        try:
            return self._edited(status, old, self._net(old.cursor))
        except InvalidRequestError as error:
            # Only the log can fail an index: the builder finds the reason here, and says so there.
            self.retire(old)
            return msgspec.structs.replace(bare_lists(status), reason=str(error))

    def _edited(self, status: IndexStatus, old: IndexRoot, net: Iterable[Net]) -> IndexRoot:
        edit = self._edit(status, old)
        edit.apply(net, self.step.view.number)
        return self._finished(status, old, edit)

    def _with_successor(self, made: IndexRoot, status: IndexStatus, begun: ListGeneration) -> IndexRoot:
        """The same, with the lists that are made anew beside it changed up to their cursor."""
        if begun.cursor is None:
            return made  # they have no documents yet
        edit = self._edit(status, msgspec.structs.replace(made, lists=begun.head))
        edit.apply(self._net(begun.cursor), self.step.view.number)
        if self.step.erased:
            edit.join(self.step.view.number)
        self.retired += map(edit.folder.key, edit.retired)
        return msgspec.structs.replace(made, successor=ListGeneration(head=edit.head, cursor=begun.cursor))

    def _edit(self, status: IndexStatus, old: IndexRoot) -> ListEdit:
        folder = self.shelf.folder(self.step.root, old.name)
        return ListEdit(
            old.lists or ListHead(),
            folder,
            kind_for(status.index),
            self.step.writer,
            self.step.sizes.run_smallest,
            is_strict=status.state != "ready",
        )

    def _finished(self, status: IndexStatus, old: IndexRoot, edit: ListEdit) -> IndexRoot:
        is_ready = status.state == "ready"
        if self.step.erased:
            # Older runs have what newer ones take back: only a merge of all leaves nothing of a document.
            edit.join(self.step.view.number)
        self.retired += map(edit.folder.key, edit.retired)
        return msgspec.structs.replace(
            old,
            state=status.state,
            applied=self.step.view.number if is_ready else status.number,
            lists=edit.head,
            entries=max(edit.head.entries, 0),
            cursor=None if is_ready else old.cursor,
        )

    def _net(self, through: bytes | None = None) -> Iterator[Net]:
        """What the step changes in documents with a key up to `through`."""
        if self.step.attached is not None:
            high = None if through is None else through + b"\0"
            base = RunBase(self.step.place, self.blocks)
            return attached_net(self.step.blocks, self.blocks, base, high)
        return (net for net in self.step.net if through is None or net.key <= through)


def attached_net(blocks: Iterable[BlockEntry], shelf: Shelf, base: RunBase, high: bytes | None = None) -> Iterator[Net]:
    """The documents of attached blocks with keys below `high`, in order of key. `base` has what was there before them.

    1 GET for each block; documents that replace others are looked up. Raises CorruptionError, SnapshotTooOldError.
    """
    for entry in sorted(blocks, key=lambda block: block.key_first):
        found = Runs(shelf, [entry]).scan(high=high)
        while rows := list(islice(found, _SLICE)):
            before = base.get_many([key for key, row in rows if row.seq > _FIRST])
            for key, row in rows:
                yield Net(key, before[key].document if key in before else None, held_of(row))


def stored_net(place: Place, shelf: Shelf, low: bytes = b"") -> Iterator[Net]:
    """Every document of a root with a key from `low` on as if it were new. Costs as `RunBase.scan`."""
    return (Net(key, None, held) for key, held in RunBase(place, shelf).scan(low))


def stored_documents(place: Place, shelf: Shelf) -> Iterator[tuple[bytes, bytes]]:
    """Every document of a root by the key of its id. Costs as `RunBase.scan`."""
    found = RunBase(place, shelf).scan()
    return ((key, held.document) for key, held in found if held.document is not None)
