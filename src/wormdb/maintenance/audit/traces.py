"""Where something of an erased document can still be found: every object of a collection is read and taken apart.

Frames are unpacked and their messages walked, keys of index nodes and page maps are put together again, blocks are read
column by column with the statistics in their footers, and other objects are searched as text. Keys of objects count
too. An object that cannot be read is a trace: nothing is known of it.

A place that belongs to another document and only mentions the id is told as such: it is that document's own.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.engine.log.paths import ENGINE_FOLDER, INDEX_FILES, MANIFEST_FILES, TRANSACTIONS_FOLDER
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.format import json
from wormdb.format.blob import BlobKey, blob_keys_in
from wormdb.format.frame import FrameKind, decode_frame, frame_length
from wormdb.format.key import encode_key
from wormdb.format.list_columns import names_in
from wormdb.format.node import front_decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.maintenance.collection import StoredCollection

__all__ = ["DocumentTrace", "find_traces"]

_FRAME_BYTES_MAX: Final = 2**32 - 1
_KIND_AT: Final = 4
_COMPLEMENT: Final = bytes(255 - byte for byte in range(256))
_KEY_BYTES_CERTAIN: Final = 8
"""A key of at least this many bytes is looked for anywhere in others; a shorter one might be there by chance."""
_FRONT_CODED: Final = {FrameKind.NODE: ("s", "x"), FrameKind.PAGE_MAP: ("ks", "kx")}
_HASHED: Final = frozenset({FrameKind.FILTER, FrameKind.FILTER_RUN, FrameKind.LIST_TRAINED})
"""Frames with nothing but hashes cut to a few bits, or what was learned of many documents together."""
_IDENTITIES: Final = ("_id", "id", "entityId")


@dataclass(frozen=True, slots=True)
class DocumentTrace:
    """A place where an id or a value was found."""

    key: str
    """Of the object."""
    what: str
    is_mention: bool = False
    """Whether it is a part of another document, which has it on its own account."""


def find_traces(
    site: StoredCollection,
    identity: Any,
    *,
    values: Sequence[str] = (),
    folders: Iterable[str] = (),
    told: Callable[[str], None] | None = None,
) -> list[DocumentTrace]:
    """What can be found of the document of an id, and of some `values`, in a collection; nothing is written.

    `folders` are those of its readable files elsewhere. 1 LIST for each 1,000 objects and 1 GET for each object, past
    every cache. Raises UnavailableError.
    """
    search = _Search(identity, tuple(values))
    for folder in dict.fromkeys((site.collection, TRANSACTIONS_FOLDER, *folders)):
        for page in site.store.list(folder):
            for info in page.objects:
                if _is_of_another(info.key, site.collection):
                    continue
                body = site.body(info.key)
                if told is not None:
                    told(info.key)
                if body is not None:
                    search.look(info.key, body)
    search.found += _unowned_blobs(site)
    return search.found


def _is_of_another(key: str, collection: str) -> bool:
    """Whether an object belongs to a collection in a folder inside this one."""
    before, found, _ = key.partition(ENGINE_FOLDER)
    return bool(found) and before != collection


def _unowned_blobs(site: StoredCollection) -> list[DocumentTrace]:
    """Blobs to which no document refers: whose they were is not known any more."""
    folder = site.paths.blobs
    there = {
        key: info.key
        for page in site.store.list(folder)
        for info in page.objects
        if (key := BlobKey.parse(f"sha256:{info.key.removeprefix(folder)}")) is not None
    }
    if not there:
        return []
    view = site.ledger().view()
    owned = {key for _, held in view.scan() for key in blob_keys_in(held.document) | blob_keys_in(held.trash)}
    return [
        DocumentTrace(path, "no document refers to this blob")
        for key, path in sorted(there.items())
        if key not in owned
    ]


@dataclass(slots=True)
class _Search:
    """What is looked for, and where it was found."""

    identity: Any
    values: tuple[str, ...]
    found: list[DocumentTrace] = field(default_factory=list)
    _text: str = field(init=False)
    _found: Callable[[str], object] = field(init=False)
    """Whether a text has the id as JSON writes it: a number, true and false only where no other value goes on."""
    _keys: tuple[bytes, ...] = field(init=False)
    _value_keys: tuple[bytes, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._text = json.encode(self.identity).decode()
        quoted = re.escape(self._text)
        self._found = re.compile(quoted if self._text[0] in '"{' else rf"(?<![\w.+-]){quoted}(?![\w.])").search
        key = encode_key(self.identity)
        self._keys = key, key.translate(_COMPLEMENT)
        stems = [encode_key(value)[:-1] for value in self.values]
        self._value_keys = tuple(form for stem in stems for form in (stem, stem.translate(_COMPLEMENT)))

    def look(self, key: str, body: bytes) -> None:
        """Search one object."""
        if isinstance(self.identity, str) and self.identity in key.split("/"):
            self._add(key, "its key has the id")
        try:
            if key.endswith(".run"):
                self._lists(key, body)
            elif body[:4] == b"WORM":
                self._frames(key, body)
            elif body[:4] == b"PAR1":
                self._block(key, body)
            elif "/blobs/" in key:
                self._plain(key, body)
            else:
                self._file(key, body)
        except (CorruptionError, UnsupportedFormatError) as error:
            self._add(key, f"it cannot be read: {error.reason}")

    def _add(self, key: str, what: str, *, is_mention: bool = False) -> None:
        trace = DocumentTrace(key, what, is_mention)
        if trace not in self.found:
            self.found.append(trace)

    # --- kinds of objects ---

    def _plain(self, key: str, body: bytes) -> None:
        for value in self.values:
            if value.encode() in body:
                self._add(key, f"it has the value {value!r}")

    def _file(self, key: str, body: bytes) -> None:
        self._plain(key, body)
        try:
            content = msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if self._found(body.decode(errors="replace")):
                self._add(key, "it has the id")
            return
        self._walk(key, content, is_file=True)

    def _frames(self, key: str, body: bytes) -> None:
        while body:
            cut = frame_length(body, name=key)
            kind = FrameKind(body[_KIND_AT])
            frame = decode_frame(body[:cut], kind, name=key, version_max=255, bytes_max=_FRAME_BYTES_MAX)
            if kind not in _HASHED:
                content = msgspec.msgpack.decode(frame.payload)
                self._walk(key, content)
                if kind in _FRONT_CODED:
                    shared, suffixes = (content[name] for name in _FRONT_CODED[kind])
                    for each in front_decode(shared, suffixes, name=key):
                        self._bytes(key, each)
            body = body[cut:]

    def _lists(self, key: str, body: bytes) -> None:
        """Lists of an index: ids of documents, and terms, which may be values folded to lower case."""
        wanted = {form.encode(): value for value in self.values for form in (value, value.casefold())}
        for term, identity in names_in(body, name=key):
            if identity == self._text.encode():
                self._add(key, "it has the id")
            for form, value in wanted.items():
                if not identity and form in term:
                    self._add(key, f"it has the value {value!r}")

    def _block(self, key: str, body: bytes) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            block = pq.ParquetFile(io.BytesIO(body))
            rows = block.read().to_pylist()
        except pa.ArrowException as error:
            self._add(key, f"it cannot be read: {error}")
            return
        for row in rows:
            own = self._is_own(row.get("_id"))
            for name, cell in row.items():
                if own or name != "_id":
                    self._cell(key, name, cell, is_own=own)
        for bound in _bounds(block.metadata):
            # One that only mentions a number is a text of another document.
            is_own = isinstance(self.identity, str) or self._is_own(bound)
            self._cell(key, "a bound of a column", bound, is_own=is_own)

    def _is_own(self, cell: Any) -> bool:
        """Whether a row is of the document: in history its id is a part of the row's."""
        text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
        return text in (self._text, self.identity) or text.startswith(f'{{"d":{self._text},')

    def _cell(self, key: str, name: str, cell: Any, *, is_own: bool) -> None:
        if isinstance(cell, bytes):
            cell = cell.decode(errors="replace")
        if not isinstance(cell, str):
            return
        if cell in (self._text, self.identity) or self._found(cell):
            self._add(key, f"the id is in {name}", is_mention=not is_own)
        for value in self.values:
            if value in cell:
                self._add(key, f"the value {value!r} is in {name}", is_mention=not is_own)

    # --- contents of messages ---

    def _walk(self, key: str, content: Any, *, is_file: bool = False) -> None:
        """Look at every part of a decoded message or file; names in messages are of the format, and short."""
        if isinstance(content, dict):
            if is_file and any(content.get(name) == self.identity for name in _IDENTITIES):
                self._add(key, "it has the document, or a line about it")
            for name, part in content.items():
                if is_file:
                    self._string(key, name, is_mention=False)
                self._walk(key, part, is_file=is_file)
        elif isinstance(content, list):
            for part in content:
                self._walk(key, part, is_file=is_file)
        elif isinstance(content, str):
            # In messages ids are bytes: a text is the name of a thing, or an actor. In files it is a field of another
            # document. But tables of readable files, and the record of their bounds, have ids as texts.
            self._string(key, content, is_mention=not _is_table(key))
        elif isinstance(content, bytes):
            self._bytes(key, content)

    def _string(self, key: str, text: str, *, is_mention: bool) -> None:
        if text in (self.identity, self._text):
            self._add(key, "it has the id", is_mention=is_mention)
        for value in self.values:
            if value in text:
                self._add(key, f"it has the value {value!r}")

    def _bytes(self, key: str, data: bytes) -> None:
        """Text, a message inside a message, or an order-preserving key."""
        if any(form in data if len(form) >= _KEY_BYTES_CERTAIN else _meets(form, data) for form in self._keys):
            self._add(key, "it has the key of the id")
        if any(form in data for form in self._value_keys):
            self._add(key, "it has the key of a value")
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = ""
        if text:
            self._json(key, text)
            return
        try:
            nested = msgspec.msgpack.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return
        if isinstance(nested, dict | list):
            self._walk(key, nested)

    def _json(self, key: str, text: str) -> None:
        """The bytes of a document, of an id, or any others that are text."""
        self._string(key, text, is_mention=False)
        if not self._found(text):
            return
        try:
            content = msgspec.json.decode(text)
        except msgspec.DecodeError:
            # A text with a number in it is a value of another document, unless it is JSON that was cut.
            if self._text[0] == '"' or text[0] in "{[":
                self._add(key, "it has the id")
            return
        own = isinstance(content, dict) and any(
            json.encode(content[name]).decode() == self._text for name in _IDENTITIES if name in content
        )
        self._add(key, "it has a version of the document" if own else "a document mentions it", is_mention=not own)


def _is_table(key: str) -> bool:
    return f"/{INDEX_FILES}" in key or f"/{MANIFEST_FILES}" in key or key.endswith(f"{ENGINE_FOLDER}files")


def _meets(form: bytes, data: bytes) -> bool:
    return data.startswith(form) or data.endswith(form)


def _bounds(metadata: Any) -> Iterator[Any]:
    """The least and the greatest values that the footer of a block tells."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            statistics = metadata.row_group(group).column(column).statistics
            if statistics is not None and statistics.has_min_max:
                yield statistics.min
                yield statistics.max
