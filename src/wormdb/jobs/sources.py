"""Files that an import reads: found in folders and buckets, and cut into pieces of about the same size."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from wormdb.api.records import form_of
from wormdb.api.texts import PEEK_BYTES, bare_suffix, check_text, find_separator, is_packed, utf8_begin, wide_encoding
from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.jobs.parts import FileForm, FilePart, Piece
from wormdb.jobs.place import absolute
from wormdb.jobs.records import Chunk, Survey, parts_between, parts_of_groups, survey
from wormdb.jobs.target import store_at
from wormdb.jobs.work import Item, ProgressListener, Runner
from wormdb.settings import MIB
from wormdb.storage.store import ByteRange, ObjectInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


__all__ = ["pieces_of", "size_of"]

PIECE_BYTES: Final = 32 * MIB
"""Files are cut into pieces of about this size."""
GATHERED_BYTES: Final = 8 * MIB
GATHERED_FILES: Final = 1_000
"""Small files are put together, up to this many bytes and files."""
_BY_SUFFIX: Final[dict[str, FileForm]] = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
}
_PARQUET: Final = b"PAR1"
_WITHOUT_DIGEST: Final = frozenset({"parquet", "entities"})
"""Forms whose records have ids, or are taken by columns."""


def pieces_of(  # noqa: PLR0913 - one keyword for each choice
    sources: Iterable[str],
    form: FileForm | None,
    separator: str | None,
    runner: Runner | None = None,
    told: ProgressListener | None = None,
    *,
    digests: bool = False,
    encoding: str = "",
) -> list[Piece]:
    """The pieces of files, and of all files in folders. 1 LIST for a folder, 1 HEAD for each file that is named.

    With `digests` each file of text has one: of its content, in a bucket of its version.

    1 GET for each file whose form its name does not tell, and for each large one; of large Parquet what its footer
    takes, and large CSV is read once by `runner` to find out where rows begin; without one no text is cut. Raises
    InvalidRequestError for what cannot be read, NotFoundError for a file that is not there.
    """
    found = [
        (folder, replace(part, source=_digest(folder, info) if digests and part.form not in _WITHOUT_DIGEST else None))
        for source in sources
        for folder, info, part in _whole(source, form, separator, encoding)
    ]
    if not found:
        raise InvalidRequestError("import", reason="there are no files", fix="name files, or a folder with some")
    return list(_gathered(_cut(found, runner, told)))


def size_of(sources: Iterable[str]) -> int:
    """How many bytes there are to read. Costs and raises as listing them does."""
    return sum(info.size for source in sources for _, info in _files(source))


# --- finding ---


def _whole(
    source: str, form: FileForm | None, separator: str | None, encoding: str
) -> Iterator[tuple[str, ObjectInfo, FilePart]]:
    named = "" if "://" in source or Path(source).is_dir() else source
    for folder, info in _files(source):
        suffix = bare_suffix(info.key)
        chosen = form or _BY_SUFFIX.get(suffix) or _looked(folder, info.key, encoding)
        between = separator or ("\t" if suffix == ".tsv" else "")
        yield folder, info, FilePart(info.key, chosen, between, 0, info.size, info.size, name=named, encoding=encoding)


def _files(source: str) -> Iterator[tuple[str, ObjectInfo]]:
    """The folder of each file, and what is known of it."""
    folder, key = _split(source)
    if key:
        yield folder, store_at(folder).head(key)
        return
    for page in store_at(folder).list():
        for info in page.objects:
            # What begins with a dot or a line is another program's own: sentinels, indexes, marks of success.
            if info.size and not any(part.startswith((".", "_")) for part in info.key.split("/")):
                yield folder, info


def _digest(folder: str, info: ObjectInfo) -> bytes:
    """Of the content of a file; of one in a bucket, of its version: nothing is read for it."""
    if "://" not in folder:
        with Path(folder, info.key).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    version = info.version or store_at(folder).head(info.key).version
    return hashlib.sha256(f"{info.key}\n{info.size}\n{version}".encode()).digest()


def _split(source: str) -> tuple[str, str]:
    """A folder or bucket, and the file in it; no file if all are meant."""
    if "://" in source:
        place, mark, options = source.partition("?")
        folder, _, key = place.rpartition("/")
        return (source, "") if not key or not Path(key).suffix else (f"{folder}{mark}{options}", key)
    path = Path(absolute(source))
    if path.is_dir():
        return str(path), ""
    if not path.is_file():
        raise NotFoundError(source, reason="there is no such file or folder", fix="check the name")
    return str(path.parent), path.name


def _begin(folder: str, key: str) -> bytes:
    return store_at(folder).get_range(key, ByteRange(0, PEEK_BYTES))


def _looked(folder: str, key: str, encoding: str) -> FileForm:
    begin = _begin(folder, key)
    if begin.startswith(_PARQUET):
        return "parquet"
    return "ndjson" if is_packed(begin) else form_of(utf8_begin(begin, encoding))


# --- cutting ---


def _cut(
    found: Sequence[tuple[str, FilePart]], runner: Runner | None, told: ProgressListener | None
) -> Iterator[tuple[str, FilePart]]:
    """The parts of files, in order."""
    large = {} if runner is None else _find_large(found)
    tables = [place for place, part in large.items() if part.form == "csv"]
    chunks: dict[int, list[Chunk]] = {place: [] for place in tables}
    if runner is not None and tables:
        items, owners = [], []
        for place in tables:
            folder, part = found[place][0], large[place]
            for start in range(0, part.size, PIECE_BYTES):
                asked = Survey(folder, part.key, part.separator, start, min(start + PIECE_BYTES, part.size), part.size)
                items.append(Item(f"{folder}/{part.key} from byte {start:,}", asked.encode(), PIECE_BYTES))
                owners.append(place)
        for place, body in zip(owners, runner.run("import: rows", survey, items, told), strict=True):
            chunks[place].append(Chunk.decode(body))
    for place, (folder, part) in enumerate(found):
        if place in chunks:
            yield from ((folder, each) for each in parts_between(folder, large[place], chunks[place]))
        elif part.form == "parquet" and part.size > PIECE_BYTES:
            yield from ((folder, each) for each in parts_of_groups(folder, part, PIECE_BYTES))
        elif place in large:
            for start in range(0, part.size, PIECE_BYTES):
                stop = min(start + PIECE_BYTES, part.size)
                yield folder, replace(part, start=start, stop=stop)
        else:
            yield folder, part


def _find_large(found: Sequence[tuple[str, FilePart]]) -> dict[int, FilePart]:
    """The files of text that are cut, by their places. 1 GET for each."""
    looked = ((place, _as_large(folder, part)) for place, (folder, part) in enumerate(found))
    return {place: part for place, part in looked if part is not None}


def _as_large(folder: str, part: FilePart) -> FilePart | None:
    """A file of text that is cut, with its separator; None for a small one, one that is packed, or is not UTF-8.

    Raises InvalidRequestError if it is not text.
    """
    if part.form not in ("csv", "ndjson") or part.size <= PIECE_BYTES or part.encoding:
        return None
    begin = _begin(folder, part.key)
    if is_packed(begin) or wide_encoding(begin):
        return None
    check_text(begin, f"{folder.partition('?')[0].rstrip('/')}/{part.key}")
    return replace(part, separator=part.separator or find_separator(begin))


def _gathered(parts: Iterator[tuple[str, FilePart]]) -> Iterator[Piece]:
    """Pieces of parts; several whole files make one."""
    folder, waiting, size = "", list[FilePart](), 0
    for place, part in parts:
        own = part.size if part.is_whole else _share(part)
        is_full = size + own > GATHERED_BYTES or len(waiting) >= GATHERED_FILES
        if waiting and (place != folder or is_full or not part.is_whole or not waiting[-1].is_whole):
            yield Piece(folder, tuple(waiting), size)
            waiting, size = [], 0
        folder, size = place, size + own
        waiting.append(part)
    if waiting:
        yield Piece(folder, tuple(waiting), size)


def _share(part: FilePart) -> int:
    return PIECE_BYTES if part.form == "parquet" else part.stop - part.start
