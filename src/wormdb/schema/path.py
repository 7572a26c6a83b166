"""The path language: where the documents of a model lie.

======================  ==========================================  ====================
#name                   namespace, a fixed folder; may repeat       org/
@name                   collection, a folder of documents           customers/
(label:type)            dynamic: the document's id when it is last, <encoded value>/
                        otherwise an outer value given at model(…)
[name].ext              the required file, always last              profile.json
(label:type).ext        the id as the name of the file: flat        ada.json
(label:path).ext        the id as folders and the name of the file  2024/05/17/ada.json
======================  ==========================================  ====================

The id stands right behind a collection: `#org/(tenant:slug)/@users/(id:uuid)/[user].json`. A path
whose last folder is fixed is a singleton: one document for each set of outer values. In a flat path,
`@users/(id:string).json`, the id is not a folder but the name of the file; with the type `path` it is all that follows
the collection, so that files lie in folders of any depth. The extension says what is in a file: `.ndjson` and `.jsonl`
many documents, a line each, and `.gz` that it is packed. Signs vanish in
the key; values are encoded by `wormdb.format.segment`, so `parse_key` is the inverse of `entity_key`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb.errors import InvalidRequestError, LimitExceededError, Problem, SchemaError
from wormdb.format.segment import decode_folders, decode_segment, encode_folders, encode_segment
from wormdb.schema.problems import did_you_mean
from wormdb.settings import SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "DEEP",
    "FILE_DEFAULT",
    "FLAT",
    "FOLDERS",
    "SINGLETON_ID",
    "PathTemplate",
    "Segment",
    "Symbols",
    "flat_name",
    "folder_texts",
    "is_hidden",
    "parse_template",
]

FILE_DEFAULT: Final = "data.json"
"""File of a document whose path names none."""

FLAT: Final = "*"
"""In the file of a flat path, `*.json`, where the id stands; no other name of a file has it."""

DEEP: Final = FLAT * 2
"""The same where the id may have folders: `**.json`."""

FOLDERS: Final = "path"
"""The type of an id that is a path below its collection."""

_PARTITION: Final = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.*)", re.ASCII | re.DOTALL)
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_MANY: Final = (".ndjson", ".jsonl")
_PACKED: Final = ".gz"

SINGLETON_ID: Final = "singleton"
"""The id of the one document of a singleton; it never occurs in a key."""

_LITERAL: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?", re.ASCII)
_LABEL: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TYPE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_EXTENSION: Final = re.compile(r"(\.[A-Za-z0-9]+)+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Symbols:
    """The signs a path is written with; canonical paths use the default ones."""

    namespace: str = "#"
    collection: str = "@"
    dynamic: str = "()"
    required_file: str = "[]"


@dataclass(frozen=True, slots=True)
class Segment:
    """One folder of a path; `type` only of a dynamic one."""

    kind: Literal["namespace", "collection", "dynamic"]
    name: str
    type: str = ""


@dataclass(frozen=True, slots=True)
class PathTemplate:
    """A parsed path. `file` is None where the path names none, and begins with `FLAT` where the id is its name."""

    segments: tuple[Segment, ...]
    file: str | None = None

    def __str__(self) -> str:
        parts = [_written(segment) for segment in self.segments]
        if self.is_flat:
            parts[-1] += self.extension
        elif self.file is not None:
            stem, _, extension = self.file.partition(".")
            parts.append(f"[{stem}].{extension}")
        return "/".join(parts)

    @property
    def id(self) -> Segment | None:
        """The segment of the document's id; None for a singleton."""
        return self.segments[-1] if self.segments[-1].kind == "dynamic" else None

    @property
    def is_flat(self) -> bool:
        """Whether the id is the name of the file, and not that of a folder."""
        return self.file is not None and self.file.startswith(FLAT)

    @property
    def is_deep(self) -> bool:
        """Whether the id is all that follows the collection: files lie in folders of any depth."""
        return self.file is not None and self.file.startswith(DEEP)

    @property
    def is_packed(self) -> bool:
        """Whether files are packed by gzip; only those of flat paths are."""
        return self.is_flat and self.file_name.endswith(_PACKED)

    @property
    def holds_many(self) -> bool:
        """Whether a file has many documents, one in each line; only those of flat paths have."""
        return self.is_flat and self.file_name.removesuffix(_PACKED).endswith(_MANY)

    @property
    def is_of_others(self) -> bool:
        """Whether only other programs write such files: one document cannot be written back into one."""
        return self.is_packed or self.holds_many

    @property
    def extension(self) -> str:
        """What follows the id in the name of a file, `.json`; empty if the path is not flat."""
        return self.file.lstrip(FLAT) if self.file is not None and self.is_flat else ""

    @property
    def outer(self) -> tuple[Segment, ...]:
        """The dynamic segments that are given at model(…)."""
        folders = self.segments if self.id is None else self.segments[:-1]
        return tuple(segment for segment in folders if segment.kind == "dynamic")

    @property
    def file_name(self) -> str:
        """The name of a document's file; `*.json` in a flat path."""
        return FILE_DEFAULT if self.file is None else self.file

    @property
    def collection_name(self) -> str:
        """The last fixed name: `customers`."""
        return next(segment.name for segment in reversed(self.segments) if segment.kind != "dynamic")

    def collection_prefix(self, outer: Mapping[str, Any] | None = None) -> str:
        """The collection's folder, ending with /. Raises InvalidRequestError for missing or unknown `outer`."""
        folders = self.segments if self.id is None else self.segments[:-1]
        values = self._outer_values(outer or {})
        names = (values[part.name] if part.kind == "dynamic" else part.name for part in folders)
        return "".join(f"{name}/" for name in names)

    def may_lie_in(self, folder: str) -> bool:
        """Whether a collection of this path may be a folder, which ends with /, or lie somewhere in it."""
        folders = self.segments if self.id is None else self.segments[:-1]
        names = folder.split("/")[:-1]
        pairs = zip(folders, names, strict=False)
        return len(names) <= len(folders) and all(part.kind == "dynamic" or part.name == name for part, name in pairs)

    def has_key(self, key: str) -> bool:
        """Whether a key lies in a collection of this path, of whatever outer values."""
        folders = self.segments if self.id is None else self.segments[:-1]
        names = key.split("/")[:-1]
        pairs = zip(folders, names, strict=False)
        return len(names) >= len(folders) and all(part.kind == "dynamic" or part.name == name for part, name in pairs)

    def entity_prefix(self, entity_id: Any = SINGLETON_ID, outer: Mapping[str, Any] | None = None) -> str:
        """The folder of one document, ending with /; a singleton's is its collection's.

        In a flat path its file is not in there, but what inline layouts add is.
        """
        prefix = self.collection_prefix(outer)
        return prefix if self.id is None else f"{prefix}{encode_segment(entity_id)}/"

    def entity_key(self, entity_id: Any = SINGLETON_ID, outer: Mapping[str, Any] | None = None) -> str:
        """The key of one document's file; a singleton ignores the id.

        Raises InvalidRequestError for an id that no key can hold and for missing or unknown `outer`.
        """
        if self.is_deep:
            return self.collection_prefix(outer) + encode_folders(entity_id) + self.extension
        if self.is_flat:
            return self.collection_prefix(outer) + flat_name(encode_segment(entity_id), self.file_name)
        return self.entity_prefix(entity_id, outer) + self.file_name

    def parse_key(self, key: str) -> tuple[dict[str, Any], Any] | None:
        """The outer values and the id of a document's key; None for any other key."""
        if self.is_deep:
            return self._parse_deep(key)
        folders, _, file = key.rpartition("/")
        if self.is_flat:
            names = [*folders.split("/"), file.removesuffix(self.extension)]
            values = _values(self.segments, names) if file.endswith(self.extension) and names[-1] else None
        else:
            values = None if file != self.file_name else _values(self.segments, folders.split("/"))
        if values is None:
            return None
        identity = SINGLETON_ID if self.id is None else values.pop(self.id.name)
        return values, identity

    def _parse_deep(self, key: str) -> tuple[dict[str, Any], Any] | None:
        count = len(self.segments) - 1
        parts = key.removesuffix(self.extension).split("/")
        values = _values(self.segments[:-1], parts[:count])
        if values is None or not key.endswith(self.extension) or len(parts) <= count or is_hidden(parts[count:]):
            return None
        try:
            return values, decode_folders("/".join(parts[count:]))
        except InvalidRequestError:
            return None

    def parse_folder(self, folder: str) -> dict[str, Any] | None:
        """The outer values of a collection's folder, which ends with /; None for any other folder."""
        return _values(self.segments if self.id is None else self.segments[:-1], folder.removesuffix("/").split("/"))

    def _outer_values(self, outer: Mapping[str, Any]) -> dict[str, str]:
        labels = [segment.name for segment in self.outer]
        missing = [label for label in labels if label not in outer]
        unknown = [label for label in outer if label not in labels]
        if missing:
            raise InvalidRequestError(
                f"the path {self} needs a value for {', '.join(missing)}",
                reason="its collection lies below it",
                fix=f"give it at model(…, {', '.join(f'{label}=…' for label in missing)})",
            )
        if unknown:
            raise InvalidRequestError(
                f"the path {self} has no outer segment {unknown[0]!r}", fix=did_you_mean(unknown[0], labels)
            )
        return {label: encode_segment(outer[label]) for label in labels}


def flat_name(segment: str, file_name: str) -> str:
    """The name of the file of an id in a flat path, as it is encoded. Raises LimitExceededError. No requests."""
    name = segment + file_name.lstrip(FLAT)
    if len(name) > SEGMENT_BYTES_MAX:
        raise LimitExceededError(
            f"a file name of {len(name)} bytes",
            reason=f"SEGMENT_BYTES_MAX is {SEGMENT_BYTES_MAX}",
            fix="use a shorter id, or a path with a folder for each document",
        )
    return name


def folder_texts(path: str) -> dict[str, str]:
    """What the folders of a path tell, as Hive calls them: year and month of `year=2024/month=05/a`. No requests."""
    found = [_PARTITION.fullmatch(folder) for folder in path.split("/")[:-1]] if "=" in path else []
    return {each[1]: each[2] for each in found if each is not None and each[2] != _NULL and each[1] != "id"}


def is_hidden(parts: Iterable[str]) -> bool:
    """Whether some part of a path below a collection is not that of a document: programs call their own files so."""
    return any(part.startswith((".", "_")) for part in parts)


def _values(segments: Sequence[Segment], parts: Sequence[str]) -> dict[str, Any] | None:
    """The values of the dynamic segments in the parts of a key; None if it is another's."""
    if len(parts) != len(segments):
        return None
    values: dict[str, Any] = {}
    for segment, part in zip(segments, parts, strict=True):
        if segment.kind != "dynamic":
            if segment.name != part:
                return None
            continue
        try:
            values[segment.name] = decode_segment(part)
        except InvalidRequestError:
            return None
    return values


def parse_template(text: str, symbols: Symbols | None = None) -> PathTemplate:
    """Read a path; raises SchemaError listing every mistake with its column. No requests."""
    parser = _TemplateParser(text, symbols or Symbols())
    template = parser.parse()
    if template is None:
        raise SchemaError(f"invalid path {text!r}", problems=parser.problems)
    return template


def _written(segment: Segment) -> str:
    match segment.kind:
        case "namespace":
            return f"#{segment.name}"
        case "collection":
            return f"@{segment.name}"
        case "dynamic":
            return f"({segment.name}:{segment.type})"


class _TemplateParser:
    """One path: collects every mistake instead of stopping at the first."""

    def __init__(self, text: str, symbols: Symbols) -> None:
        self.problems: list[Problem] = []
        self._text = text
        self._symbols = symbols
        self._segments: list[tuple[int, Segment]] = []
        self._file: str | None = None

    def parse(self) -> PathTemplate | None:
        if not self._text:
            self._refuse(1, "the path is empty", "write for example @customers/(id:uuid)/[customer].json")
            return None
        pieces = list(self._pieces())
        for column, piece in pieces:
            self._piece(column, piece, is_last=(column, piece) == pieces[-1])
        if not self.problems:
            self._check_order()
        if self.problems:
            return None
        return PathTemplate(tuple(segment for _, segment in self._segments), self._file)

    def _pieces(self) -> Iterator[tuple[int, str]]:
        column = 1
        for piece in self._text.split("/"):
            yield column, piece
            column += len(piece) + 1

    def _piece(self, column: int, piece: str, *, is_last: bool) -> None:
        symbols = self._symbols
        if not piece:
            self._refuse(column, "a segment is empty", "remove the extra /")
        elif piece[0] == symbols.namespace:
            self._literal(column, piece, "namespace")
        elif piece[0] == symbols.collection:
            self._literal(column, piece, "collection")
        elif piece[0] == symbols.dynamic[0]:
            self._dynamic(column, self._unsuffixed(column, piece, is_last=is_last))
        elif piece[0] == symbols.required_file[0]:
            self._required_file(column, piece, is_last=is_last)
        else:
            name = piece.lstrip(".") or "name"
            self._refuse(
                column,
                f"{piece!r} has no sign that says what it is",
                f"write {symbols.namespace}{name} for a folder or {symbols.collection}{name} for a collection",
            )

    def _literal(self, column: int, piece: str, kind: Literal["namespace", "collection"]) -> None:
        if self._check_name(column + 1, piece[1:]):
            self._segments.append((column, Segment(kind, piece[1:])))

    def _check_name(self, column: int, name: str) -> bool:
        if not name:
            self._refuse(column, "the name is empty", "write a name behind the sign")
        elif name.startswith("."):
            self._refuse(column, f"{name!r} is reserved: names with a dot first are the database's own", "rename it")
        elif not _LITERAL.fullmatch(name):
            self._refuse(column, f"{name!r} is not a plain name", "use letters, digits, _, - and . only")
        elif len(name) > SEGMENT_BYTES_MAX:
            self._refuse(column, f"a name is longer than {SEGMENT_BYTES_MAX} bytes", "use a shorter name")
        else:
            return True
        return False

    def _unsuffixed(self, column: int, piece: str, *, is_last: bool) -> str:
        """The dynamic segment of a piece; what follows it is the extension of a flat path's file."""
        closing = self._symbols.dynamic[1]
        segment, closed, extension = piece.partition(closing)
        if not closed or not extension or not _EXTENSION.fullmatch(extension):
            return piece
        if not is_last:
            self._refuse(column, f"{piece!r} is a file, and not the last segment", "move it to the end")
        self._file = (DEEP if segment.endswith(f":{FOLDERS}") else FLAT) + extension
        return segment + closed

    def _dynamic(self, column: int, piece: str) -> None:
        opening, closing = tuple(self._symbols.dynamic)
        if not piece.endswith(closing) or len(piece) < 2:
            self._refuse(column, f"{piece!r} is not closed", f"end the segment with {closing}")
            return
        label, colon, kind = piece[1:-1].partition(":")
        example = f"{opening}{label if _LABEL.fullmatch(label) else 'id'}:uuid{closing}"
        if not colon or not kind:
            self._refuse(column, f"{piece!r} names no type", f"write for example {example}")
        elif not _LABEL.fullmatch(label):
            self._refuse(column + 1, f"{label!r} is not a label", f"write for example {example}")
        elif not _TYPE.fullmatch(kind):
            self._refuse(
                column + 2 + len(label), f"{kind!r} cannot be the name of a type", f"write for example {example}"
            )
        elif any(label == other.name and other.kind == "dynamic" for _, other in self._segments):
            self._refuse(column + 1, f"the label {label!r} occurs twice", "give each dynamic segment its own label")
        else:
            self._segments.append((column, Segment("dynamic", label, kind)))

    def _required_file(self, column: int, piece: str, *, is_last: bool) -> None:
        opening, closing = tuple(self._symbols.required_file)
        name, closed, extension = piece[1:].partition(closing)
        if not closed:
            self._refuse(column, f"{piece!r} is not closed", f"write for example {opening}profile{closing}.json")
        elif not is_last:
            self._refuse(column, "the required file is not the last segment", "move it to the end")
        elif not _EXTENSION.fullmatch(extension):
            self._refuse(
                column + len(name) + 2, "the file has no extension", f"write for example {opening}{name}{closing}.json"
            )
        elif "." in name.lstrip("."):
            self._refuse(column + 1, f"{name!r} holds a dot", f"write dots of the extension behind {closing}")
        elif self._check_name(column + 1, name):
            self._file = name + extension

    def _check_order(self) -> None:
        if not any(segment.kind != "dynamic" for _, segment in self._segments):
            self._refuse(1, "the path has no fixed folder", f"begin it with {self._symbols.collection}name")
            return
        column, last = self._segments[-1]
        if last.kind != "dynamic":
            return
        before = self._segments[-2][1]
        if before.kind != "collection":
            self._refuse(
                column,
                f"the id {last.name!r} does not follow a collection",
                f"put {self._symbols.collection}name before it, or a fixed folder behind it for a singleton",
            )

    def _refuse(self, column: int, reason: str, fix: str) -> None:
        self.problems.append(Problem("", f"column {column}: {reason}", fix))
