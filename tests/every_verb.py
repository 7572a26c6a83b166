"""All verbs on a store where none can succeed, and all that their errors show."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING

import pytest

from wormdb.errors import WormError
from wormdb.storage.store import ByteRange, IfAbsent
from wormdb.testing.store_contract.uploads import GeneratedBytes

if TYPE_CHECKING:
    from wormdb.storage.store import Store

__all__ = ["every_verb", "shown"]


def every_verb(store: Store) -> list[WormError]:
    """The errors of all verbs on a store where none can succeed."""
    calls = (
        lambda: store.get("key"),
        lambda: store.get_range("key", ByteRange(0, 1)),
        lambda: store.get_ranges("key", [ByteRange(0, 1), ByteRange(100_000, 1)]),
        lambda: store.probe("key"),
        lambda: store.head("key"),
        lambda: list(store.list("f/")),
        lambda: list(store.list("f/", delimiter="/")),
        lambda: store.put("key", b"body"),
        lambda: store.put("key", b"body", IfAbsent()),
        lambda: store.upload("key", GeneratedBytes(5)),
        lambda: store.delete("key"),
        lambda: store.delete_many(["key", "other"]),
    )
    errors = []
    for call in calls:
        with pytest.raises(WormError) as caught:
            call()
        errors.append(caught.value)
    return errors


def shown(errors: list[WormError]) -> str:
    return "".join("".join(traceback.format_exception(error)) + repr(vars(error)) for error in errors)
