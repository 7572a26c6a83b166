"""Files that are read record by record: by name or from standard input, packed or not."""

from __future__ import annotations

import io
import sys
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import click

from wormdb.api.records import Form, Record, form_of, read_records
from wormdb.api.texts import PEEK_BYTES, bare_suffix, check_separator, find_separator, open_packed, open_text
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["SEPARATOR", "STDIN", "Source", "is_stream", "open_source"]

STDIN: Final = "-"


def _check_separator(context: click.Context, parameter: click.Parameter, sign: str | None) -> str | None:  # noqa: ARG001 - click's signature
    return None if sign is None else check_separator(sign)


SEPARATOR = click.option(
    "--separator",
    metavar="SIGN",
    callback=_check_separator,
    help=r"What is between cells of CSV: , ; | or \t.  [default: as its first line tells]",
)
_FORMS: Final[dict[str, Form]] = {".ndjson": "ndjson", ".jsonl": "ndjson", ".csv": "csv", ".tsv": "csv"}


def is_stream(name: str) -> bool:
    """Whether a name is that of what can be read only once: standard input, or a pipe. No requests."""
    if name == STDIN:
        return True
    path = Path(name)
    return "://" not in name and path.exists() and not path.is_file() and not path.is_dir()


@dataclass(frozen=True, slots=True)
class Source:
    """An open file."""

    name: str
    form: Form
    separator: str
    stream: io.BufferedReader[Any]
    raw: io.BufferedReader[Any]
    """What is read, packed as it may be; the same as `stream` if it is not."""
    size: int | None
    """Bytes of the file; None if unknown."""

    def records(self) -> Iterator[Record]:
        """Every record. Raises InvalidRequestError if the file cannot be read any further."""
        try:
            yield from self._read()
        except (OSError, EOFError, zlib.error) as error:
            raise _unreadable(self.name, error) from error

    def _read(self) -> Iterator[Record]:
        name = "standard input" if self.name == STDIN else self.name
        return read_records(cast("BinaryIO", self.stream), self.form, separator=self.separator, name=name)

    def done(self) -> float | None:
        """How much of it is read, from 0 to 1; None if unknown."""
        return self.raw.tell() / self.size if self.size else None


@contextmanager
def open_source(
    name: str, form: Form | None = None, separator: str | None = None, encoding: str = ""
) -> Iterator[Source]:
    """Open a file, `-` for standard input; the form is told by its name or else by how it begins.

    Raises InvalidRequestError if it cannot be read.
    """
    if name == STDIN:
        yield _source(name, cast("io.BufferedReader[Any]", sys.stdin.buffer), form, separator, encoding)
        return
    try:
        file = io.FileIO(name)
    except OSError as error:
        raise _unreadable(name, error) from error
    with io.BufferedReader(file, PEEK_BYTES) as raw:
        yield _source(name, raw, form, separator, encoding)


def _source(name: str, raw: io.BufferedReader[Any], form: Form | None, separator: str | None, encoding: str) -> Source:
    try:
        stream = open_text(open_packed(raw), "standard input" if name == STDIN else name, encoding)
        begin = stream.peek(PEEK_BYTES)
        status = None if name == STDIN else Path(name).stat()
    except (OSError, EOFError, zlib.error) as error:
        raise _unreadable(name, error) from error
    suffix = bare_suffix(name)
    size = status.st_size if status is not None and S_ISREG(status.st_mode) else None
    between = separator or ("\t" if suffix == ".tsv" else find_separator(begin))
    return Source(name, form or _FORMS.get(suffix) or form_of(begin), between, stream, raw, size)


def _unreadable(name: str, error: Exception) -> InvalidRequestError:
    what = "standard input" if name == STDIN else name
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InvalidRequestError(f"{what} cannot be read", reason=reason)
