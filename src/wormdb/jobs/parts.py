"""Parts of files that an import reads, as values that can be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["FORMS", "FileForm", "FilePart", "Piece"]

FileForm = Literal["ndjson", "json", "csv", "parquet", "entities"]
FORMS: Final[tuple[FileForm, ...]] = ("ndjson", "json", "csv", "parquet", "entities")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or a part of one. A value that can be sent."""

    key: str
    form: FileForm
    separator: str
    """Between cells of CSV; empty if its first line tells it."""
    start: int
    """Bytes; of Parquet row groups."""
    stop: int
    size: int
    """Bytes of the whole file."""
    first: int = 0
    """Lines before it, or rows of Parquet, if they are known."""
    columns: tuple[str, ...] | None = None
    """Of CSV, where the first line lies before."""
    source: bytes | None = None
    """A digest of the file, if ids are made of it."""
    before: int = 0
    """Records of the file before it, if ids are made of that."""
    name: str = ""
    """The file as its user named it; without it, folder and key."""
    encoding: str = ""
    """Of text; empty for UTF-8, and for what a mark at its beginning tells."""

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole file."""
        return (self.start, self.stop) == (0, self.size)


@dataclass(frozen=True, slots=True)
class Piece:
    """Parts that are read one after the other. A value that can be sent."""

    folder: str
    parts: tuple[FilePart, ...]
    size: int

    @property
    def name(self) -> str:
        """For people."""
        first = self.parts[0]
        name = self.file(first)
        if len(self.parts) > 1:
            return f"{name} and {len(self.parts) - 1:,} more"
        if first.is_whole:
            return name
        unit = "row groups" if first.form == "parquet" else "bytes"
        return f"{name}, {unit} {first.start:,} to {first.stop:,}"

    def file(self, part: FilePart) -> str:
        """The file of a part, as its user named it, or with its folder."""
        return part.name or f"{self.folder.partition('?')[0].rstrip('/')}/{part.key}"
