"""Fetched documents against what led to them: a contradiction means that the guide is older than the files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.files.foreign.rows import DamagedRowsError
from wormdb.format import json
from wormdb.format.kinds import MISSING
from wormdb.format.path import parse_path, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.engine.state.view import Held
    from wormdb.files.foreign.manifest import Manifest
    from wormdb.files.foreign.source import Witness
    from wormdb.format.kinds import Document
    from wormdb.format.path import Path

__all__ = ["matches_condition", "matches_row"]

_ABSENT: Final = "missing"


def matches_condition(matches: Callable[[Document], bool], name: str) -> Witness:
    """An index led there: the document must be there, and have one of the values."""

    def witness(_: bytes, held: Held | None) -> str | None:
        if held is None:
            return f"index {name} is stale: a document that it names is not there"
        if not matches(_decoded(held)):
            return f"index {name} is stale: {held.id.decode()} has another value"
        return None

    return witness


def matches_row(manifest: Manifest, fields: Sequence[str]) -> Witness:
    """The manifest led there: the document must be there, and have what its row has."""
    paths: list[tuple[str, Path]] = [(name, parse_path(name)) for name in manifest.available(fields) if name != "_id"]
    places: dict[bytes, int] = {key: row for row, key in enumerate(manifest.rows.keys)}

    def witness(key: bytes, held: Held | None) -> str | None:
        if held is None:
            return "manifest is stale: a document that it names is not there"
        document = _decoded(held)
        try:
            row = manifest.rows.document(places[key])
        except DamagedRowsError as error:
            return f"manifest is stale: {error}"
        for name, path in paths:
            if _written(row, path) != _written(document, path):
                return f"manifest is stale: {held.id.decode()} has another {name}"
        return None

    return witness


def _decoded(held: Held) -> Document:
    assert held.document is not None, "files hold live documents"
    return json.decode_document(held.document, name=f"document {held.id.decode()}")


def _written(document: Document, path: Path) -> list[Any]:
    return [_ABSENT if value is MISSING else json.encode(value) for value in resolve(document, path)]
