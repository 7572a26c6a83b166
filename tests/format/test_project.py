from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError
from wormdb.format.json import encode, encode_document
from wormdb.format.kinds import MISSING, equal
from wormdb.format.path import TRAVERSED
from wormdb.format.project import project, project_raw, read_id
from wormdb.testing.strategies import documents, ids


def reference(document: dict[str, Any], path: str) -> Any:
    """What stands at a path, worked out on the decoded document."""
    value: Any = document
    for name in path.split("."):
        if isinstance(value, list):
            return TRAVERSED
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def paths_of(document: dict[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in document.items():
        found.append(prefix + name)
        if isinstance(value, dict):
            found += paths_of(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            found += [f"{prefix}{name}.0", f"{prefix}{name}.0.deep"]
    return found


@given(stored=st.lists(documents(), min_size=1, max_size=4), data=st.data())
def test_projected_values_are_those_of_the_document(stored: list[dict[str, Any]], data: st.DataObject) -> None:
    """Of all paths, and of some: a path that leads on from another may be asked for without what lies before both."""
    known = sorted({path for document in stored for path in paths_of(document)} | {"absent", "absent.deep"})
    check_projection(stored, known)
    check_projection(stored, data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True)))


def check_projection(stored: list[dict[str, Any]], paths: list[str]) -> None:
    columns = project([encode_document(document) for document in stored], paths, name="x")
    for path, column in zip(paths, columns, strict=True):
        expected = [reference(document, path) for document in stored]
        assert all(map(same, expected, column)), (path, expected, column)


def same(expected: Any, actual: Any) -> bool:
    return expected is actual or equal(expected, actual)


def test_many_documents_and_gaps() -> None:
    stored = [None if number % 7 == 0 else b'{"n":%d,"x":"%d"}' % (number, number) for number in range(2000)]
    (column,) = project(stored, ["n"], name="x")
    assert column == [MISSING if number % 7 == 0 else number for number in range(2000)]


def test_nothing_gives_nothing() -> None:
    assert project([], ["a", "b.c"], name="x") == [[], []]


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"7", b"{", b'{"a":{"$date":5}}', b'{"a":"\xff"}', b'{"a":' + b"[" * 5000 + b"}"]
)
def test_what_is_no_document_is_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        project([data], ["a"], name="some/key")
    assert caught.value.key == "some/key"


@given(st.lists(st.none() | documents(), max_size=5))
def test_fields_of_the_first_level_as_they_stand(given: list[dict[str, Any] | None]) -> None:
    stored = [None if document is None else encode_document({"_id": 1, **document, "own": [1]}) for document in given]
    identities, own, other = project_raw(stored, ["_id", "own", "no such"], name="x")
    assert identities == [MISSING if document is None else encode({"_id": 1, **document}["_id"]) for document in given]
    assert own == [MISSING if document is None else b"[1]" for document in given]
    assert other == [MISSING] * len(given)


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"a":1', b'{"a":}', b"\xff"])
def test_fields_of_what_is_no_document_are_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="x"):
        project_raw([data], ["a"], name="x")


@given(ids())
def test_an_id_is_read_alone(identity: Any) -> None:
    data = b'{"before":[{"x":1}],"_id":' + encode(identity) + b',"after":{"_id":5}}'
    assert equal(read_id(data, name="x"), identity)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"id":1}', b'{"_id":{"$oid":"x"}}', b"[1]", b'{"_id":1'])
def test_a_document_without_a_readable_id_is_corruption(data: bytes) -> None:
    with pytest.raises(CorruptionError) as caught:
        read_id(data, name="some/key")
    assert caught.value.key == "some/key"
