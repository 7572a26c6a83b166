"""References to blobs: what a document holds of a large body that is stored beside it.

    {"_blob": "sha256:<64 hex digits>", "size": 4711, "contentType": "image/png", "name": "cat.png"}

A reference is a plain embedded value, so JSON, files, columns and other tools carry it as it is. What makes it one is
`_blob`; the rest is for its readers. The same content that was removed once and written again has another key, with
the log number of that removal: `sha256:<64 hex digits>-<number>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from wormdb.settings import BLOB_BYTES_MAX, BLOB_TYPE_CHARS_MAX, INT_MAX

__all__ = [
    "BLOB_FIELD",
    "BlobKey",
    "BlobReference",
    "blob_keys_in",
    "blob_keys_of",
    "is_content_type",
    "may_refer",
    "reference_of",
]

BLOB_FIELD: Final = "_blob"
_MARK: Final = b'"_blob"'
_KEY: Final = r"sha256:([0-9a-f]{64})(?:-([1-9][0-9]{0,18}))?"
_TEXT: Final = re.compile(_KEY, re.ASCII)
# A quotation mark inside of a text has a backslash before it, so this is a field and never a part of a text.
_STORED: Final = re.compile(rb'"_blob":\s*"(' + _KEY.encode() + rb')"')
_TYPE: Final = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(?:; ?[\x20-\x7e]+)?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class BlobKey:
    """Which object a reference means: the digest of its bytes, and which of its lives."""

    sha256: str
    """Hexadecimal."""
    suffix: int = 0

    def __str__(self) -> str:
        return f"sha256:{self.name}"

    @property
    def name(self) -> str:
        """The name of the object."""
        return f"{self.sha256}-{self.suffix}" if self.suffix else self.sha256

    @classmethod
    def parse(cls, text: object) -> BlobKey | None:
        """The key written as `sha256:…`; None if it is none."""
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None:
            return None
        suffix = int(found[2] or 0)
        return cls(found[1], suffix) if suffix <= INT_MAX else None


class BlobReference(Mapping[str, Any]):
    """A blob of one collection. Put it anywhere into a document of that collection: it is a mapping of plain values.

    A document that is read has the mapping; `reference_of` makes a reference of it. An attribute of a dataclass or a
    Struct that is declared as a reference gets one.
    """

    __slots__ = ("content_type", "key", "name", "size")

    def __init__(
        self, key: BlobKey, size: int, content_type: str = "application/octet-stream", name: str | None = None
    ) -> None:
        """Made when a blob is stored, and by `reference_of`."""
        self.key = key
        self.size = size
        """In bytes; -1 if the value does not say."""
        self.content_type = content_type
        self.name = name
        """The file name it had, if its writer said one."""

    @property
    def sha256(self) -> str:
        """Of its bytes, hexadecimal."""
        return self.key.sha256

    def to_dict(self) -> dict[str, Any]:
        """As a document holds it."""
        value = {BLOB_FIELD: str(self.key), "size": self.size, "contentType": self.content_type}
        return value if self.name is None else {**value, "name": self.name}

    def __repr__(self) -> str:
        return f"BlobReference({self.to_dict()!r})"

    def __hash__(self) -> int:
        return hash(self.key)

    def __getitem__(self, field: str) -> Any:
        return self.to_dict()[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


def reference_of(value: Any) -> BlobReference | None:
    """The reference that an embedded value is; None if it is none. No requests.

    A size or content type that cannot be is as good as none: only `_blob` says which object it is.
    """
    if isinstance(value, BlobReference):
        return value
    key = BlobKey.parse(value.get(BLOB_FIELD)) if isinstance(value, Mapping) else None
    if key is None:
        return None
    size, kind, name = value.get("size"), value.get("contentType"), value.get("name")
    return BlobReference(
        key,
        size if type(size) is int and 0 <= size <= BLOB_BYTES_MAX else -1,
        kind if is_content_type(kind) else "application/octet-stream",
        name if isinstance(name, str) else None,
    )


def is_content_type(text: object) -> bool:
    """Whether it is a content type, such as `image/png` or `text/plain; charset=utf-8`."""
    return isinstance(text, str) and len(text) <= BLOB_TYPE_CHARS_MAX and _TYPE.fullmatch(text) is not None


def may_refer(document: bytes | None) -> bool:
    """Whether a stored document may refer to blobs; False is certain. No requests."""
    return document is not None and _MARK in document


def blob_keys_in(document: bytes | None) -> frozenset[BlobKey]:
    """The blobs that a stored document refers to, at any depth. No requests."""
    if document is None or not may_refer(document):
        return frozenset()
    found = (BlobKey.parse(match[1].decode()) for match in _STORED.finditer(document))
    return frozenset(key for key in found if key is not None)


def blob_keys_of(value: Any) -> frozenset[BlobKey]:
    """As `blob_keys_in`, of a decoded value. No requests."""
    keys: set[BlobKey] = set()
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            key = BlobKey.parse(one.get(BLOB_FIELD))
            if key is not None:
                keys.add(key)
            waiting += one.values()
        elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
            waiting += one
    return frozenset(keys)
