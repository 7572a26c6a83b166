"""Records that were not imported, in a file of lines of JSON that people can read and mend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wormdb.cli.input.sources import STDIN
from wormdb.errors import InvalidRequestError
from wormdb.format import json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from wormdb.api.imports import Rejection
    from wormdb.api.records import Record

__all__ = ["Rejects", "mended"]


class Rejects:
    """Where rejected records go: beside their file, or all to one. A file is made when the first one comes."""

    def __init__(self, path: Path | None) -> None:
        """Without a path each file has its own: `<file>.rejects.ndjson`."""
        self._given = path
        self._open: dict[Path, BinaryIO] = {}

    def path_of(self, name: str) -> Path:
        """The file for what is rejected of a file."""
        return self._given or Path(f"{'stdin' if name == STDIN else name}.rejects.ndjson")

    def check(self, names: Iterable[str]) -> None:
        """Raise InvalidRequestError for a place where no file can be, or that is one of the files to read."""
        names = tuple(names)
        for name in names:
            path = self.path_of(name)
            if not path.parent.is_dir() or path.is_dir():
                raise InvalidRequestError(f"{path} cannot be written", fix="name another file: --rejects FILE")
            if any(other != STDIN and path.resolve() == Path(other).resolve() for other in names):
                raise InvalidRequestError(f"{path} is read and written", fix="name another file: --rejects FILE")

    def add(self, name: str, rejected: Rejection) -> None:
        """Write one; the first of a file replaces what was there."""
        path = self.path_of(name)
        try:
            if path not in self._open:
                self._open[path] = path.open("wb")
            self._open[path].write(json.encode(_written(name, rejected)) + b"\n")
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "name another file: --rejects FILE"
            raise InvalidRequestError(f"{path} cannot be written", reason=reason, fix=fix) from error

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()


def _written(name: str, rejected: Rejection) -> dict[str, Any]:
    record = rejected.record
    found: dict[str, Any] = {"file": name, "line": record.line, "reason": rejected.reason}
    if rejected.fix:
        found["fix"] = rejected.fix
    if len(rejected.problems) > 1:
        found["problems"] = [str(problem) for problem in rejected.problems]
    if record.values is None:
        return {**found, "text": record.text}
    return {**found, **({"form": "csv"} if record.is_text else {}), "record": record.values}


def mended(records: Iterable[Record]) -> Iterator[Record]:
    """The records in a file of rejects, after people corrected them there."""
    for each in records:
        whole = each.values or {}
        if isinstance(values := whole.get("record"), dict):
            yield replace(each, values=values, is_text=whole.get("form") == "csv")
        else:
            problem, text = each.problem or "it has no record", each.text or json.encode(whole).decode()
            yield replace(each, values=None, problem=problem, text=text)
