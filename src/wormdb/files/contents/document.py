"""The file of one document: its id first, its fields, and the log number of its last change as `_rev`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.files.contents.values import STAMPS, indented, plain_document, plain_fields, read_object, read_values
from wormdb.format.damage import corrupt
from wormdb.format.kinds import MISSING
from wormdb.format.values import equal, normalize

if TYPE_CHECKING:
    from wormdb.format.kinds import Document
    from wormdb.schema.model import Model

__all__ = ["entity_file", "plain_fields", "read_entity"]


def entity_file(document: bytes, rev: int, model: Model | None) -> bytes:
    """The file of a stored document (extended JSON with `_id`) that entry `rev` of the log wrote. No requests.

    Declared dates are plain ISO text, and all other values that JSON lacks are extended JSON. A field that a user
    calls `_rev` is not shown: the log's number is.
    """
    shown = plain_document(document, model)
    stamps = {name: shown.pop(name) for name in STAMPS if name in shown}
    shown.pop("_rev", None)
    return indented({**shown, "_rev": rev, **stamps})


def read_entity(body: bytes, *, key: str, model: Model | None, identity: Any = MISSING) -> tuple[Document, int | None]:
    """The normalized document in a file, with `_id` first if it has one, and its `_rev`. No requests.

    With `identity`, the id in the file's key, that is the id; the file may lack one, or write it as text. Raises
    CorruptionError naming the key for what is no document, and for an id that is another one.
    """
    values = read_object(body, key=key)
    rev = values.get("_rev")
    if type(rev) is int and rev >= 0:
        del values["_rev"]
    else:
        rev = None
    written = [values.pop(name) for name in ("_id", "id") if name in values]
    for one in written:
        wanted = written[0] if identity is MISSING else identity
        if not equal(one, wanted) and (identity is MISSING or str(one) != str(wanted)):
            corrupt(key, f"its id is {one!r}, not {wanted!r}")
    known = written[:1] if identity is MISSING else [identity]
    document = normalize({**({"_id": known[0]} if known else {}), **read_values(values, model)})
    assert type(document) is dict
    return document, rev
