"""Records in a stream of bytes: lines of JSON, JSON, or CSV. One at a time, however long the stream is.

A record that cannot be read is one too: it says why, and reading goes on behind it.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, TextIO, TypeAlias

from wormdb.errors import InvalidRequestError
from wormdb.format import json
from wormdb.settings import RECORD_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_Row: TypeAlias = "tuple[int, str, list[str | None] | None]"

__all__ = [
    "FORMS",
    "Form",
    "Record",
    "RowCut",
    "cut_rows",
    "form_of",
    "plain_cell",
    "plain_cells",
    "read_columns",
    "read_records",
    "safe_cell",
]

Form = Literal["ndjson", "json", "csv"]
FORMS: Final[tuple[Form, ...]] = ("ndjson", "json", "csv")

_BOM: Final = b"\xef\xbb\xbf"
_CHUNK: Final = 64 * 1024
_HARMLESS: Final = re.compile("(?![=+@'\t\r-])[^\x00-\x09\x0b-\x1f\x7f-\x9f]*")
_MARKED: Final = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\\]")
_MARK: Final = re.compile(r"\\(?:u([0-9a-f]{4})|\\)")
_TEXT_SHOWN: Final = 10_000
"""Characters that are kept of a record that cannot be read at all."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record, as it stands in a file."""

    line: int
    """The line in which it begins, from 1."""
    values: dict[str, Any] | None
    """None if it cannot be read."""
    size: int = 0
    """About how many bytes it has."""
    is_text: bool = False
    """Whether values are text whose types only a model can tell: cells of CSV."""
    problem: str = ""
    """Why it cannot be read."""
    text: str = ""
    """What is there instead."""


def safe_cell(text: str) -> str:
    r"""A text as a cell that no spreadsheet takes for a formula and that has no control characters. No requests.

    Text that begins with = + - @ or ', or holds a control character other than a newline, gets a ' before it, its
    backslashes are doubled, and such characters are written as \u and four digits. `plain_cell` takes
    that back exactly.
    """
    if _HARMLESS.fullmatch(text):
        return text
    return "'" + _MARKED.sub(lambda found: _mark(found[0]), text)


def plain_cell(text: str) -> str:
    """What `safe_cell` was given. No requests."""
    if not text.startswith("'"):
        return text
    return _MARK.sub(lambda found: "\\" if found[1] is None else chr(int(found[1], 16)), text[1:])


def _mark(sign: str) -> str:
    return "\\\\" if sign == "\\" else f"\\u{ord(sign):04x}"


def plain_cells(record: Record) -> Record:
    """A record of CSV whose names and cells `safe_cell` wrote, as they were; any other as it is. No requests."""
    if not record.is_text or record.values is None:
        return record
    return replace(record, values={plain_cell(name): plain_cell(cell) for name, cell in record.values.items()})


def form_of(begin: bytes) -> Form:
    """The form of a stream that begins like this: a list is JSON, an object in one line NDJSON, all else CSV."""
    data = begin.removeprefix(_BOM).lstrip()
    if data.startswith(b"["):
        return "json"
    if not data.startswith(b"{"):
        return "csv"
    line, newline, _ = data.partition(b"\n")
    # An object that goes on behind its first line is not NDJSON. One that is cut off may be: its line is long.
    if newline and not _is_balanced(line):
        return "json"
    return "ndjson"


def _is_balanced(line: bytes) -> bool:
    bare = re.sub(rb'"(?:[^"\\]|\\.)*"', b"", line)
    return bare.count(b"{") == bare.count(b"}")


def read_records(
    stream: BinaryIO, form: Form, *, separator: str = ",", columns: Sequence[str] | None = None, name: str = ""
) -> Iterator[Record]:
    """The records of a stream, in order, with bounded memory.

    `columns` are those of CSV whose first line is not in the stream; errors tell the `name` of its file. Raises
    InvalidRequestError for a first line that names no columns; what is wrong with one record is told by it. Errors of
    the stream go through.
    """
    if form == "csv":
        return _read_csv(stream, separator, columns, name)
    return _read_pieces(_lines(stream) if form == "ndjson" else _Splitter(stream).run())


def _unreadable(line: int, text: str, problem: str, size: int = 0) -> Record:
    return Record(line, None, size or len(text), problem=problem, text=text[:_TEXT_SHOWN])


# --- JSON ---


def _read_pieces(pieces: Iterator[tuple[int, bytes, str]]) -> Iterator[Record]:
    for line, data, problem in pieces:
        if problem:
            yield _unreadable(line, data.decode(errors="replace"), problem, len(data))
            continue
        try:
            values = json.parse(data.decode())
        except UnicodeDecodeError as error:
            yield _unreadable(line, data.decode(errors="replace"), f"it must be UTF-8: byte {error.start + 1} is not")
        except InvalidRequestError as error:
            yield _unreadable(line, data.decode(), error.reason or error.what)
        else:
            if type(values) is dict:
                yield Record(line, values, len(data))
            else:
                yield _unreadable(line, data.decode(), "it must be a JSON object")


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes, str]]:
    number = 0
    while line := stream.readline(RECORD_BYTES_MAX):
        number += 1
        if not line.endswith(b"\n") and len(line) == RECORD_BYTES_MAX:
            while (rest := stream.readline(_CHUNK)) and not rest.endswith(b"\n"):
                pass
            yield number, line[:_TEXT_SHOWN], _too_long()
            continue
        line = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if line:
            yield number, line, ""


def _too_long() -> str:
    return f"it is longer than {RECORD_BYTES_MAX:,} bytes"


_OUTSIDE: Final = re.compile(rb'["{}\[\],]')
_INSIDE: Final = re.compile(rb'"|\\.', re.DOTALL)


class _Splitter:
    """Cuts JSON, a list or values one after the other, by brackets and quotes alone: what is in them is read later."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._data = bytearray()
        self._at = 0
        self._line = 1
        self._skipped = 0
        self._depth = 0
        self._is_list = False
        self._in_string = False
        self._is_cut = False

    def run(self) -> Iterator[tuple[int, bytes, str]]:
        self._more()
        if self._data.startswith(_BOM):
            del self._data[: len(_BOM)]
        self._open()
        while True:
            found = (_INSIDE if self._in_string else _OUTSIDE).search(self._data, self._at)
            if found is None:
                if not self._more():
                    break
                continue
            self._at = found.end()
            if self._in_string:
                self._in_string = found[0] != b'"'
            elif self._ends(found[0]):
                is_inner = found[0] == b"," or (self._is_list and not self._depth)
                yield from self._cut(self._at - is_inner)
        yield from self._rest()

    def _open(self) -> None:
        """Step into the list, if there is one."""
        while not (begin := self._data.lstrip()) and self._more():
            pass
        if begin.startswith(b"["):
            self._at = self._data.index(b"[") + 1
            self._is_list, self._depth = True, 1
            self._drop(self._at)

    def _more(self) -> bool:
        """Read on; whether there was something. What is searched already is not searched again."""
        # An escape needs the byte behind it: a backslash at the end waits for that.
        waits = self._in_string and self._at < len(self._data) and self._data.endswith(b"\\")
        self._at = len(self._data) - waits
        if len(self._data) > RECORD_BYTES_MAX:
            self._skipped += self._data.count(b"\n", _TEXT_SHOWN, self._at)
            del self._data[_TEXT_SHOWN : self._at]
            self._at, self._is_cut = len(self._data) - waits, True
        chunk = self._stream.read(_CHUNK)
        self._data += chunk
        return bool(chunk)

    def _ends(self, sign: bytes) -> bool:
        """Take a sign outside of text in; whether a record ends there."""
        if sign == b'"':
            self._in_string = True
        elif sign in b"{[":
            self._depth += 1
        elif sign in b"}]":
            self._depth -= 1
            return self._depth <= 0
        else:
            return self._is_list and self._depth == 1
        return False

    def _cut(self, end: int) -> Iterator[tuple[int, bytes, str]]:
        """The record that ends there, if there is one; and what is behind it stays."""
        piece = bytes(self._data[:end])
        line = self._line + piece.count(b"\n", 0, len(piece) - len(piece.lstrip()))
        if self._is_list and self._depth <= 0:
            self._is_list, self._depth = False, 0
        self._drop(self._at)
        self._depth = max(self._depth, 0)
        if piece.strip():
            yield line, piece.strip(), _too_long() if self._is_cut else ""
        self._is_cut = False

    def _drop(self, end: int) -> None:
        self._line += self._data.count(b"\n", 0, end) + self._skipped
        del self._data[:end]
        self._at = self._skipped = 0

    def _rest(self) -> Iterator[tuple[int, bytes, str]]:
        piece = bytes(self._data).strip()
        if piece or self._is_list:
            begin = len(self._data) - len(self._data.lstrip())
            what = "the list" if self._is_list else "it"
            problem = f"{what} does not end" if self._depth or self._in_string else "it must be a JSON object"
            yield self._line + self._data.count(b"\n", 0, begin), piece[:_TEXT_SHOWN], problem


# --- CSV ---

_QUOTED: Final = re.compile(r'"([^"]*(?:""[^"]*)*)"(?!")')


@dataclass(frozen=True, slots=True)
class RowCut:
    """Where rows of CSV begin in some whole lines of a file."""

    start: int | None
    """The byte where the first one does; None if none does."""
    lines: int
    """How many lines are before it."""
    is_open: bool
    """Whether the last row goes on behind them."""


def cut_rows(data: bytes, separator: str, *, is_open: bool) -> RowCut:
    """Where rows begin in `data`, whole lines; `is_open` says that a quoted cell goes on from before. No requests."""
    if b'"' not in data:
        return RowCut(None if is_open or not data else 0, 0, is_open)
    start = None if is_open else 0
    at = lines = 0
    for line in io.TextIOWrapper(io.BytesIO(data), errors="surrogateescape", encoding="utf-8", newline=""):
        if '"' in line:
            bare = line.rstrip("\r\n")
            is_open = _split(f'"\n{bare}' if is_open else bare, separator)[1]
        if start is None:
            at += len(line.encode(errors="surrogateescape"))
            lines += 1
            start = None if is_open else at
    return RowCut(start, lines, is_open)


def read_columns(begin: BinaryIO, separator: str) -> list[str]:
    """The columns that the first line of CSV names. Raises InvalidRequestError if it does not. No requests."""
    text = io.TextIOWrapper(begin, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        return _columns(next(_rows(text, separator), (0, "", None)))
    finally:
        text.detach()


def _read_csv(stream: BinaryIO, separator: str, columns: Sequence[str] | None, name: str) -> Iterator[Record]:
    text = io.TextIOWrapper(stream, "utf-8-sig" if columns is None else "utf-8", errors="surrogateescape", newline="")
    try:
        yield from _csv_records(_rows(text, separator), columns, name)
    finally:
        text.detach()  # the stream is its owner's to close


def _csv_records(rows: Iterator[_Row], columns: Sequence[str] | None, name: str) -> Iterator[Record]:
    head = next(rows, None) if columns is None else (0, "", None)
    if head is None:
        return
    names = _columns(head, name) if columns is None else columns
    for line, text, cells in rows:
        if cells is None:
            yield _unreadable(line, _shown(text), "a quote is not closed, or there is text behind one")
        elif len(cells) != len(names):
            yield _unreadable(line, _shown(text), _cells_problem(len(cells), len(names)))
        elif not text.isascii() and _shown(text) != text:
            yield _unreadable(line, _shown(text), "it must be UTF-8, or its encoding told (--encoding latin-1)")
        else:
            found = {name: cell for name, cell in zip(names, cells, strict=True) if cell is not None}
            yield Record(line, found, len(text), is_text=True)


def _shown(text: str) -> str:
    """Text without bytes that are none."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _cells_problem(cells: int, columns: int) -> str:
    return f"it has {cells} cell{'s' * (cells != 1)}, and there are {columns} columns"


def _columns(head: _Row, file: str = "") -> list[str]:
    line = f"the first line{' of ' * bool(file)}{file}"
    names = [(name or "").strip() for name in head[2] or ()]
    for place, name in enumerate(names):
        if not name or name in names[:place]:
            raise InvalidRequestError(
                f"column {place + 1} of {line}",
                reason=f"{name!r:.100} is there twice" if name else "it has no name",
                fix="name every column in the first line, each differently",
            )
    if not names:
        raise InvalidRequestError(line, reason="it names no columns", fix="name them: id,name,email")
    return names


def _rows(stream: TextIO, separator: str) -> Iterator[_Row]:
    """Rows that are not empty: the line where each begins, its text, and its cells; None for what is not a row."""
    number = 0
    while line := stream.readline(RECORD_BYTES_MAX):
        number += 1
        begin, text = number, line
        if not line.rstrip("\r\n"):
            continue
        cells, is_open = _split(line.rstrip("\r\n"), separator)
        while is_open and len(text) < RECORD_BYTES_MAX and (line := stream.readline(RECORD_BYTES_MAX)):
            number += 1
            text += line  # the break belongs to the cell
            if '"' in line:  # nothing else ends it
                cells, is_open = _split(text.rstrip("\r\n"), separator)
        yield begin, text.rstrip("\r\n"), None if is_open else cells


def _split(text: str, separator: str) -> tuple[list[str | None] | None, bool]:
    """The cells of a row, None for those with nothing in them; and whether a quoted one goes on behind the text."""
    if '"' not in text:
        return [cell or None for cell in text.split(separator)], False
    cells: list[str | None] = []
    at = 0
    while True:
        if text.startswith('"', at):
            found = _QUOTED.match(text, at)
            if found is None:
                return None, True
            cells.append(found[1].replace('""', '"'))
            at = found.end()
        else:
            end = text.find(separator, at)
            end = len(text) if end < 0 else end
            cells.append(text[at:end] or None)
            at = end
        if at == len(text):
            return cells, False
        if not text.startswith(separator, at):
            return None, False
        at += len(separator)
