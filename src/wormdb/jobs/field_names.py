"""Which fields the documents of a collection without a model have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from wormdb.engine.blocks.portion import DOCUMENT
from wormdb.errors import LimitExceededError
from wormdb.format import json
from wormdb.jobs.work import Output

if TYPE_CHECKING:
    from wormdb.jobs.scan import Scan
    from wormdb.jobs.work import Runner, Told

__all__ = ["field_names"]

NAMES_MAX: Final = 10_000


def field_names(scan: Scan, runner: Runner, told: Told | None = None, *, tasks: int | None = None) -> list[str]:
    """The fields that some documents of a scan have, sorted, without the id. Reads every document.

    Raises LimitExceededError for too many, and what the first piece that failed raised.
    """
    bodies = runner.run("fields", _Fields(scan), scan.items(tasks), told)
    found = {name for body in bodies for name in msgspec.msgpack.decode(body, type=list[str])}
    if len(found) > NAMES_MAX:
        raise LimitExceededError(
            f"a table with more than {NAMES_MAX:,} columns",
            reason="the documents have so many different fields",
            fix="name some of them",
        )
    return sorted(found - {"_id"})


@dataclass(frozen=True, slots=True)
class _Fields:
    scan: Scan

    def __call__(self, body: bytes, /) -> Output:
        """The fields of the documents of one piece."""
        names: set[str] = set()
        rows = 0
        for portion in self.scan.portions(body, ["_id", DOCUMENT]):
            for text in portion.documents():
                names.update(json.decode_document(text, name="document"))
            rows += portion.rows
        return Output(msgspec.msgpack.encode(sorted(names)), rows)
