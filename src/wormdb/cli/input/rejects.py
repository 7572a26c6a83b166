"""Records that were not imported, in files of lines of JSON that people can read and correct."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.api.imports.intake import RejectedRecord
from wormdb.cli.input.sources import STDIN
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import BinaryIO

    from wormdb.api.imports.intake import Rejection

__all__ = ["Rejects"]


class Rejects:
    """Where rejected records go: beside their file, or all to one. A file is made when the first one comes."""

    def __init__(self, path: Path | None, names: Sequence[str], other: str) -> None:
        """Without a path each file that is named has its own, `<file>.rejects.ndjson`; those of folders go to another.

        No file is made yet.
        """
        self._given = path
        self._names = frozenset(name for name in names if "://" not in name and not Path(name).is_dir())
        self._other = Path(other)
        self._open: dict[Path, BinaryIO] = {}
        self._counts: dict[str, int] = {}

    @property
    def written(self) -> list[Path]:
        """The files that were written, in order."""
        return list(self._open)

    @property
    def shown(self) -> str:
        """The files that were written, for people."""
        paths = list(map(str, self._open))
        return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")

    @property
    def counts(self) -> list[tuple[str, int, Path]]:
        """How many records of each file were rejected, and where they are."""
        return [(name, count, self._path_of(name)) for name, count in self._counts.items()]

    def check(self) -> None:
        """Raise InvalidRequestError for a place where no file can be, or that is one of the files to read."""
        for path in {self._path_of(name) for name in self._names} | {self._given or self._other}:
            if not path.parent.is_dir() or path.is_dir():
                raise InvalidRequestError(f"{path} cannot be written", fix="name another file: --rejects FILE")
            if any(other != STDIN and path.resolve() == Path(other).resolve() for other in self._names):
                raise InvalidRequestError(f"{path} is read and written", fix="name another file: --rejects FILE")

    def add(self, rejected: Rejection) -> None:
        """Write one; the first of a file replaces what was there."""
        path = self._path_of(rejected.file)
        try:
            if path not in self._open:
                self._open[path] = path.open("wb")
            self._open[path].write(RejectedRecord.of(rejected).to_line())
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "name another file: --rejects FILE"
            raise InvalidRequestError(f"{path} cannot be written", reason=reason, fix=fix) from error
        self._counts[rejected.file] = self._counts.get(rejected.file, 0) + 1

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()

    def _path_of(self, name: str) -> Path:
        if self._given is not None or name not in self._names:
            return self._given or self._other
        return Path(f"{'stdin' if name == STDIN else name}.rejects.ndjson")
