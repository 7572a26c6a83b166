"""What documents have in several indexes, quickly: only the fields that count are looked at, and equal ones once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from wormdb.files.contents.index import index_texts
from wormdb.files.value_text import value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.tree.definition import Index
    from wormdb.schema.model import Model

__all__ = ["IndexTexts"]

_KEPT_MAX: Final = 10_000
_KEPT_BYTES_MAX: Final = 200
_ABSENT: Final = msgspec.Raw()


class IndexTexts:
    """Some indexes of a model. For one thread."""

    def __init__(self, indexes: Sequence[Index], model: Model) -> None:
        """Nothing is kept yet."""
        self._indexes = indexes
        self._model = model
        names = list(dict.fromkeys(_top(field) for index in indexes for field in index.fields))
        fields = [(f"f{number}", msgspec.Raw, msgspec.field(default=_ABSENT)) for number in range(len(names))]
        rename = {f"f{number}": name for number, name in enumerate(names)}
        shape = msgspec.defstruct("Indexed", fields, rename=rename, gc=False)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(shape)
        self._tops = [tuple(dict.fromkeys(_top(field) for field in index.fields)) for index in indexes]
        self._attributes = [tuple(f"f{names.index(top)}" for top in tops) for tops in self._tops]
        self._is_plain = [
            len(index.fields) == 1 and index.fields == tops for index, tops in zip(indexes, self._tops, strict=True)
        ]
        self._kept: list[dict[tuple[bytes, ...], list[str]]] = [{} for _ in indexes]

    def of(self, document: bytes | None) -> list[list[str]]:
        """Of each index the values that a stored document has in it, as `index_texts` gives them. No requests."""
        if document is None:
            return [[] for _ in self._indexes]
        found = self._decoder.decode(document)
        return [self._texts(number, found) for number in range(len(self._indexes))]

    def _texts(self, number: int, found: Any) -> list[str]:
        values = tuple(bytes(getattr(found, name)) for name in self._attributes[number])
        kept = self._kept[number]
        texts = kept.get(values)
        if texts is None:
            texts = self._made(number, values)
            if len(kept) >= _KEPT_MAX:
                kept.clear()
            if sum(map(len, values)) <= _KEPT_BYTES_MAX:
                kept[values] = texts
        return texts

    def _made(self, number: int, values: tuple[bytes, ...]) -> list[str]:
        if self._is_plain[number] and values[0][:1] == b'"':
            return [value_text(msgspec.json.decode(values[0]))]
        members = [
            b"%b:%b" % (msgspec.json.encode(name), value)
            for name, value in zip(self._tops[number], values, strict=True)
            if value
        ]
        return index_texts(self._indexes[number], b"{%b}" % b",".join(members), self._model)


def _top(field: str) -> str:
    """The name in a document that a dotted name begins with."""
    return field.split(".", 1)[0]
