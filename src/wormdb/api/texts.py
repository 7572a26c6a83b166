"""Files of text as other programs write them: which encoding, which separator, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import io
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = [
    "PEEK_BYTES",
    "bare_suffix",
    "check_encoding",
    "check_separator",
    "check_text",
    "find_separator",
    "is_packed",
    "open_packed",
    "open_text",
    "utf8_begin",
    "wide_encoding",
]

PEEK_BYTES: Final = 64 * 1024
"""How much of the beginning of a file is looked at."""
_PACKED_AT_ONCE: Final = 1024
"""Packed bytes that are unpacked together: what they become, up to some 30 MB, is in memory."""
_WINDOW_BYTES_MAX: Final = 128 * 1024 * 1024
_SEPARATORS: Final = (",", ";", "\t", "|")
"""Signs between cells, those that are preferred first."""
_NAMED_SEPARATORS: Final = {"\\t": "\t", "tab": "\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\v\f\r\x1b"))
_CONTROLS_SHARE: Final = 20
"""Of text fewer than one in this many bytes are control characters."""
_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS: Final = (
    (re.compile(rb"PK\x03\x04"), "a ZIP archive, or a spreadsheet", "unpack it, or save the sheet as CSV"),
    (re.compile(rb"BZh[1-9]1AY&SY"), "packed by bzip2", "unpack it, or pack it by gzip"),
    (re.compile(rb"\xfd7zXZ\x00"), "packed by xz", "unpack it, or pack it by gzip"),
    (re.compile(rb"PAR1"), "a Parquet file", "give it as a file called .parquet, or with --format parquet"),
    (re.compile(rb"Obj\x01"), "an Avro file", "write it as NDJSON or Parquet"),
    (re.compile(rb"SQLite format 3\x00"), "a database of SQLite", "write its tables as CSV"),
    (re.compile(rb"%PDF-"), "a PDF", "name a file of records"),
    (re.compile(rb"\x89PNG|\xff\xd8\xff|GIF8"), "a picture", "name a file of records"),
)


def check_encoding(name: str) -> str:
    """The name of an encoding as Python has it; empty for UTF-8. Raises InvalidRequestError. No requests."""
    try:
        found = codecs.lookup(name)
        "".encode(found.name)
    except (LookupError, ValueError) as error:
        raise InvalidRequestError(
            f"encoding {name!r:.40}", reason="there is none of that name", fix="use utf-8, utf-16, latin-1, cp1252, …"
        ) from error
    return "" if found.name in ("utf-8", "utf-8-sig", "ascii") else found.name


def check_separator(sign: str) -> str:
    """The sign between cells that a person means: one sign, or the name of one. Raises InvalidRequestError.

    No requests.
    """
    found = _NAMED_SEPARATORS.get(sign, sign)
    if len(found) != 1 or found in '"\r\n':
        raise InvalidRequestError(
            f"separator {sign!r:.40}", reason="it must be one sign", fix=r"use ',', ';', '|' or '\t' (a tab)"
        )
    return found


def is_packed(begin: bytes) -> bool:
    """Whether a file that begins like this is packed by gzip or zstd. No requests."""
    return begin.startswith((_GZIP, _ZSTD))


def bare_suffix(name: str) -> str:
    """The end of a file's name in small letters, without that of what packed it: `.csv` of `a.CSV.gz`. No requests."""
    return PurePath(name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()


def open_packed(stream: io.BufferedReader[Any], size: int = PEEK_BYTES) -> io.BufferedReader[Any]:
    """A stream whose content is unpacked if it is packed by gzip or zstd; else itself. No requests.

    Reading it raises OSError, EOFError or zlib.error for what is damaged or cut off.
    """
    begin = stream.peek(len(_ZSTD))
    if begin.startswith(_GZIP):
        return io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=stream)), size)
    return io.BufferedReader(_Unpacked(stream), size) if begin.startswith(_ZSTD) else stream


class _Unpacked(io.RawIOBase):
    """Content that is packed by zstd, frame behind frame. Not thread-safe."""

    def __init__(self, stream: io.BufferedReader[Any]) -> None:
        import zstandard

        self._stream, self._error = stream, zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX).decompressobj
        self._frame: Any = None
        self._packed = self._held = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        while not self._held:
            packed = self._packed or self._stream.read(_PACKED_AT_ONCE)
            if not packed and self._frame is None:
                return 0
            if not packed:
                raise EOFError("it is cut off")
            self._frame = self._frame or self._new()
            try:
                self._held, self._packed = self._frame.decompress(packed), b""
            except self._error as error:
                raise OSError(str(error)) from error
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        count = min(len(target), len(self._held))
        target[:count], self._held = self._held[:count], self._held[count:]
        return count


def wide_encoding(begin: bytes) -> str:
    """The encoding that a mark at the beginning tells; empty if there is none, or it is that of UTF-8. No requests."""
    return next((name for mark, name in _MARKS if begin.startswith(mark)), "")


def utf8_begin(begin: bytes, encoding: str = "") -> bytes:
    """The beginning of a file as UTF-8, as far as it is whole. No requests."""
    encoding = encoding or wide_encoding(begin)
    return codecs.getincrementaldecoder(encoding)("replace").decode(begin).encode() if encoding else begin


def check_text(begin: bytes, name: str) -> None:
    """Raise InvalidRequestError if a file that begins like this is not text, saying what it is. No requests."""
    fix = "name a file of NDJSON, JSON, CSV or Parquet; for text in another encoding, use --encoding"
    for pattern, kind, remedy in _KINDS:
        if pattern.match(begin):
            raise InvalidRequestError(f"{name} is not text", reason=f"it is {kind}", fix=remedy)
    if (place := begin.find(b"\0")) >= 0:
        raise InvalidRequestError(f"{name} is not text", reason=f"byte {place + 1:,} is 0: it is binary", fix=fix)
    controls = len(begin) - len(begin.translate(None, _CONTROLS))
    if controls * _CONTROLS_SHARE > len(begin):
        reason = f"{controls:,} of the first {len(begin):,} bytes are control characters: it is binary"
        raise InvalidRequestError(f"{name} is not text", reason=reason, fix=fix)


def find_separator(begin: bytes) -> str:
    """The sign that is most often between names in the first line of CSV: comma, semicolon, tab or |. No requests.

    Of signs that are equally frequent the comma is preferred, which it is too where there are none.
    """
    text = begin.decode("utf-8-sig", errors="replace").lstrip("\r\n")
    line = _QUOTED.sub("", text).partition("\n")[0]
    return max(_SEPARATORS, key=line.count)


def open_text(stream: io.BufferedReader[Any], name: str, encoding: str = "") -> io.BufferedReader[Any]:
    """A stream of text, as UTF-8. Its encoding is told, or by a mark at its beginning; else it must be UTF-8.

    Raises InvalidRequestError for what is not text; reading it raises the same for bytes that the encoding has not.
    """
    begin = stream.peek(PEEK_BYTES)[:PEEK_BYTES]
    encoding = encoding or wide_encoding(begin)
    if not encoding:
        check_text(begin, name)
        return stream
    return io.BufferedReader(_Recoded(stream, name, encoding), PEEK_BYTES)


class _Recoded(io.RawIOBase):
    """Text of another encoding as UTF-8. Not thread-safe."""

    def __init__(self, stream: BinaryIO | io.BufferedReader[Any], name: str, encoding: str) -> None:
        self._stream, self._name, self._encoding = stream, name, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)("strict")
        self._held = b""
        self._is_ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        target = memoryview(buffer).cast("B")
        while not self._held and not self._is_ended:
            data = self._stream.read(PEEK_BYTES)
            self._is_ended = not data
            try:
                self._held = self._decoder.decode(data, final=not data).encode()
            except UnicodeError as error:
                raise InvalidRequestError(
                    f"{self._name} cannot be read", reason=str(error)[:200], fix="name another --encoding"
                ) from error
        count = min(len(target), len(self._held))
        target[:count], self._held = self._held[:count], self._held[count:]
        return count
