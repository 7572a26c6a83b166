"""What files of other programs hold beside one document: one in each line, and values in the names of folders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.schema.cells import CellReader
from wormdb.schema.path import folder_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.schema.model import Model

__all__ = ["FileLine", "folder_values", "lines_of"]

_BOM: Final = b"\xef\xbb\xbf"
_WIDE: Final = (b"\xff\xfe", b"\xfe\xff")


# --- lines ---


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of a file that is not empty."""

    number: int
    """From 1."""
    text: bytes
    problem: str = ""
    """Why it cannot be a document, seen by its bytes."""


def lines_of(body: bytes) -> Iterator[FileLine]:
    """The lines of a file, in order. No requests; one line is copied at a time."""
    if body.startswith(_WIDE):
        yield FileLine(1, b"", "it must be UTF-8, and is UTF-16")
        return
    start, number, end = len(_BOM) if body.startswith(_BOM) else 0, 0, len(body)
    while start < end:
        stop = body.find(b"\n", start)
        stop = end if stop < 0 else stop
        number += 1
        text = body[start:stop].strip()
        start = stop + 1
        if text:
            yield FileLine(number, text, _encoding_problem(text))


def _encoding_problem(text: bytes) -> str:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return f"it must be UTF-8: byte {error.start + 1} is not"
    return ""


# --- folders ---


def folder_values(path: str, model: Model | None) -> dict[str, Any]:
    """What the folders of a file tell, as Hive calls them: `year=2024/month=05/a` has two values. No requests.

    They are read as cells of CSV are, by the types of the model.
    """
    texts = folder_texts(path)
    return CellReader(model).document(texts) if texts else {}
