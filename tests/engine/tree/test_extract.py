"""Keys of many documents at once are those of each by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.tree.definition import Index, array_fields, keys_of
from wormdb.engine.tree.entries import changes_of
from wormdb.engine.tree.extract import extract
from wormdb.errors import CorruptionError, InvalidRequestError
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.values import normalize_document
from wormdb.settings import INDEX_KEY_BYTES_MAX
from wormdb.testing.strategies import values

INDEXES = [
    Index("one", ("a",)),
    Index("unsparse", ("a",), sparse=False),
    Index("deep", ("a.b",)),
    Index("position", ("a.0",)),
    Index("several", ("a", "c", "d.e")),
    Index("four", ("a", "c", "d.e", "a.b")),
]

inner = st.one_of(
    values(),
    st.lists(values(), max_size=3),
    st.fixed_dictionaries({}, optional={"b": values(), "e": values(), "0": values()}),
    st.lists(st.fixed_dictionaries({}, optional={"b": values(), "0": values()}), max_size=3),
)
documents = st.fixed_dictionaries({}, optional={"a": inner, "c": values(), "d": inner})


@given(st.lists(st.one_of(st.none(), documents), min_size=1, max_size=5), st.sampled_from(INDEXES))
def test_many_documents_at_once_have_the_keys_that_each_has(found: list[dict[str, Any] | None], index: Index) -> None:
    stored = [
        None if one is None else json.encode_document(normalize_document({"_id": number, **one}))
        for number, one in enumerate(found)
    ]
    decoded = [None if one is None else json.decode_document(one, name="document") for one in stored]
    identities = [json.encode(number) for number in range(len(found))]
    try:
        keys = [keys_of(index, one) for one in decoded]
    except InvalidRequestError:
        with pytest.raises(InvalidRequestError, match=r"document [0-4]: "):
            extract(index, identities, stored)
        return
    extracted = extract(index, identities, stored)
    assert [list(one) for one in extracted.keys] == keys
    for identity, one, own in zip(identities, decoded, extracted.keys, strict=True):
        id_key = encode_key(json.decode(identity, name="id"))
        assert changes_of(index, identity, None, one) == [(key + id_key, identity) for key in own]
    arrays = [array_fields(index, one) for one in decoded if one is not None]
    assert extracted.arrays == tuple(any(column) for column in zip(*arrays, strict=True)) or not arrays


def test_a_key_that_is_too_long_names_the_document() -> None:
    document = json.encode_document({"_id": "x", "a": "y" * INDEX_KEY_BYTES_MAX})
    with pytest.raises(InvalidRequestError, match="document 'x': a key of index one takes"):
        extract(INDEXES[0], [b'"x"'], [document])


def test_bytes_that_are_no_document_are_damage() -> None:
    with pytest.raises(CorruptionError):
        extract(INDEXES[0], [b'"x"'], [b"{"])


def test_nothing_has_no_keys() -> None:
    extracted = extract(INDEXES[1], [b'"x"'], [None])
    assert ([list(keys) for keys in extracted.keys], extracted.arrays) == ([[]], (False,))
