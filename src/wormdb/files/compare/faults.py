"""Find the files of documents that are not as they should be: edited, missing, or there without reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wormdb.files.contents.expected import EDITED, EXTRA, MISSING
from wormdb.files.wanted import Filed, filed_documents, has_past, may_be_there, wanted_files
from wormdb.files.write.publish import identity_of
from wormdb.format import json
from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from wormdb.engine.history.read import History, Recorded
    from wormdb.engine.state.view import Held, View
    from wormdb.files.contents.names import FileKey, FileNames
    from wormdb.files.wanted import Wanted
    from wormdb.files.write.tables import TableKey
    from wormdb.storage.pool import Pool
    from wormdb.storage.store import Store
    from wormdb.system.types import LogNumber

__all__ = ["DocumentFaults", "FileFault", "listed_keys"]

_FILES_MAX: Final = 500
_BYTES_MAX: Final = 8 * 1024 * 1024
_ENGINE: Final = ".worm.db"


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that is not as it should be."""

    key: str
    what: str
    document: bytes | None = None
    """The key of the document's id that it is of."""
    table: TableKey | None = None
    """The table that it is of."""


@dataclass(frozen=True, slots=True)
class DocumentFaults:
    """The files of documents held against one view, whose files are complete through a number at least."""

    store: Store
    pool: Pool
    names: FileNames
    view: View
    history: History
    through: LogNumber

    # --- what should be there ---

    def wrong(self, each: Callable[[Held], None], told: Callable[[int], None]) -> Iterator[FileFault]:
        """Files that are missing or edited. 1 GET for each file, and a scan of documents and their history.

        Every document is shown to `each`, and `told` hears how many there were.
        """
        batch: list[tuple[bytes, str, Wanted]] = []
        size = count = 0
        history = self.history if has_past(self.names) else None
        for key, held, recorded in filed_documents(self.view, history):
            identity = identity_of(held.id)
            if identity is None:
                continue
            each(held)
            for name, wanted in self._wanted(Filed(key, identity, held, recorded)).items():
                batch.append((key, name, wanted))
                size += sum(map(len, wanted.bodies))
            count += 1
            if len(batch) >= _FILES_MAX or size >= _BYTES_MAX:
                yield from self._compared(batch)
                told(count)
                batch, size = [], 0
        yield from self._compared(batch)
        told(count)

    def _wanted(self, document: Filed) -> dict[str, Wanted]:
        if document.recorded is None and document.held.rev > self.through:
            recorded = self.history.recorded(document.key)
            document = Filed(document.key, document.identity, document.held, recorded)
        return wanted_files(document, self.names, self.through)

    def _compared(self, batch: list[tuple[bytes, str, Wanted]]) -> Iterator[FileFault]:
        found = self.store.get_many([name for _, name, _ in batch], self.pool)
        for (key, name, wanted), there in zip(batch, found, strict=True):
            if there is None:
                if not wanted.may_lack:
                    yield FileFault(name, MISSING, key)
            elif there.body not in wanted.bodies:
                yield FileFault(name, EDITED, key)

    def again(self, keys: set[bytes]) -> Iterator[FileFault]:
        """`wrong` for some documents alone, by the keys of their ids. Costs as `History.recorded` for each."""
        for key, held in self.view.get_many(sorted(keys)).items():
            identity = identity_of(held.id)
            if identity is None:
                continue
            wanted = self._wanted(Filed(key, identity, held, self.history.recorded(key)))
            yield from self._compared([(key, name, each) for name, each in wanted.items()])

    # --- what should not ---

    def unwanted(self, listed: list[tuple[str, FileKey]]) -> Iterator[FileFault]:
        """Of some keys of files of documents, those that should not be there. Costs a look-up of each document."""
        ids = {name: encode_key(found.id) for name, found in listed}
        held = self.view.get_many(sorted(set(ids.values())))
        past: dict[bytes, Recorded] = {}
        for name, found in listed:
            key = ids[name]
            known = held.get(key)
            is_right = not found.is_elsewhere and may_be_there(found, known, self.names, self.through)
            if is_right is None and known is not None:
                past[key] = recorded = past.get(key) or self.history.recorded(key)
                document = Filed(key, json.decode(known.id, name="document id"), known, recorded)
                is_right = name in wanted_files(document, self.names, self.through)
            if not is_right:
                yield FileFault(name, EXTRA, key)


def listed_keys(store: Store, names: FileNames) -> Iterator[list[tuple[str, FileKey]]]:
    """All files that are there, also where another layout puts them, in pages; not in the engine's folder.

    1 LIST for each 1,000 objects, and 4 at least.
    """
    for root in names.every_root:
        engine = f"{root}{_ENGINE}/"
        after: str | None = None
        is_whole = False
        while not is_whole:
            is_whole = True
            for page in store.list(root, after=after):
                keys = [each.key for each in page.objects]
                parsed = [(key, names.parse_anywhere(key)) for key in keys]
                yield [(key, found) for key, found in parsed if found is not None]
                if keys and keys[-1].startswith(engine):
                    # Nothing that begins alike is of interest: the next name has another sign than the slash.
                    after, is_whole = f"{root}{_ENGINE}0", False
                    break
