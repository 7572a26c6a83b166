"""In which fields two stored documents differ. Fields that are equal as bytes are never decoded."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from wormdb.format import json

__all__ = ["STAMPED", "difference", "raw_difference"]

STAMPED: Final = "updatedAt"
"""Changes at every save of a model's document, so it says nothing about what was changed."""
_FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def difference(before: bytes | None, after: bytes | None, *, stamped: bool) -> dict[str, tuple[Any, Any]]:
    """The fields in which two documents differ, with both values; None is no document. No requests.

    The id is not among them, nor `updatedAt` if a model keeps it.
    """
    found = raw_difference(before, after, stamped=stamped)
    return {name: (_value(one), _value(two)) for name, (one, two) in found.items()}


def raw_difference(
    before: bytes | None, after: bytes | None, *, stamped: bool
) -> dict[str, tuple[bytes | None, bytes | None]]:
    """`difference` with values as JSON, None where a field is absent. No requests."""
    one, two = _fields(before), _fields(after)
    skipped = {"_id", STAMPED} if stamped else {"_id"}
    names = [name for name in {**one, **two} if name not in skipped and one.get(name) != two.get(name)]
    return {name: (one.get(name), two.get(name)) for name in names}


def _fields(document: bytes | None) -> dict[str, bytes]:
    return {} if document is None else {name: bytes(raw) for name, raw in _FIELDS.decode(document).items()}


def _value(field: bytes | None) -> Any:
    return None if field is None else json.decode(field, name="document")
