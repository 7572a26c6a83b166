"""References: recognized at any depth, as stored bytes and as values, and never where there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.engine.tree.definition import OWNERS, keys_of
from wormdb.engine.tree.extract import extract
from wormdb.format import json
from wormdb.format.blob import BlobKey, BlobReference, blob_keys_in, blob_keys_of, is_content_type, reference_of
from wormdb.format.values import normalize_document

DIGEST = "0123456789abcdef" * 4

keys = st.builds(
    BlobKey,
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.one_of(st.just(0), st.integers(1, 2**63 - 1)),
)
texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        [
            f"sha256:{DIGEST}",
            f'"_blob":"sha256:{DIGEST}"',
            f'\\"_blob":"sha256:{DIGEST}"',
            '"_blob"',
            "\\",
        ]
    ),
)
near = st.sampled_from(
    [f"sha256:{DIGEST[:-1]}", f"sha256:{DIGEST.upper()}", f"sha256:{DIGEST}-0", f"sha256:{DIGEST}-", f"md5:{DIGEST}", 7]
)


def model(value: Any) -> set[str]:
    """The keys in a value, by the words of the documentation."""
    if isinstance(value, dict):
        own = value.get("_blob")
        found = {own} if isinstance(own, str) and BlobKey.parse(own) is not None else set()
        return found.union(*map(model, value.values()))
    return set().union(*map(model, value)) if isinstance(value, list) else set()


values = st.recursive(
    st.one_of(texts, st.integers(-5, 5), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "_blob", 'q"']), st.one_of(inner, keys.map(str), near), max_size=3),
        keys.map(lambda key: {"_blob": str(key), "size": 3}),
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["x", "y", "_blob"]), values, max_size=3))
def test_bytes_and_values_tell_the_same(fields: dict[str, Any]) -> None:
    document = normalize_document({"_id": "1", **fields})
    body = json.encode_document(document)
    expected = model(document)
    assert {str(key) for key in blob_keys_of(document)} == expected
    assert {str(key) for key in blob_keys_in(body)} == expected
    extracted = extract(OWNERS, [b'"1"'], [body])
    assert list(extracted.keys[0]) == keys_of(OWNERS, document)
    assert len(extracted.keys[0]) == len(expected)


@given(keys)
def test_a_key_is_its_text(key: BlobKey) -> None:
    assert BlobKey.parse(str(key)) == key
    assert str(key) == f"sha256:{key.name}"


def test_a_reference_is_a_plain_value() -> None:
    reference = BlobReference(BlobKey(DIGEST), 5, "image/png", "cat.png")
    value = {"_blob": f"sha256:{DIGEST}", "size": 5, "contentType": "image/png", "name": "cat.png"}
    assert reference == value
    assert dict(reference) == value
    assert reference_of(value) == reference
    assert reference_of(reference) is reference
    assert hash(reference_of(value)) == hash(reference)
    assert normalize_document({"_id": 1, "deep": [{"photo": reference}]}) == {"_id": 1, "deep": [{"photo": value}]}


@pytest.mark.parametrize("value", [None, "sha256:" + DIGEST, {}, {"_blob": 5}, {"_blob": "sha256:x"}, [1], {"blob": 1}])
def test_what_is_no_reference(value: Any) -> None:
    assert reference_of(value) is None


def test_a_reference_of_others_may_say_little_or_nonsense() -> None:
    found = reference_of({"_blob": f"sha256:{DIGEST}-7", "size": -4, "contentType": "no type", "name": 5})
    assert found is not None
    assert (found.key, found.size, found.content_type, found.name) == (
        BlobKey(DIGEST, 7),
        -1,
        "application/octet-stream",
        None,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("image/png", True),
        ("text/plain; charset=utf-8", True),
        ("application/vnd.api+json", True),
        ("image", False),
        ("image/", False),
        ("image/png\r\nx: y", False),
        ("a/" + "b" * 300, False),
        ("image/pñg", False),
        (5, False),
    ],
)
def test_content_types(text: object, expected: bool) -> None:
    assert is_content_type(text) is expected
