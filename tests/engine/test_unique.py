from __future__ import annotations

from typing import Any

import pytest

from tests.engine.rig import doc, ident
from wormdb.engine.state import Held
from wormdb.engine.unique import UniqueKeys, keys_of
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.entry import Batch, Change, Entry
from wormdb.index.definition import Index
from wormdb.limits import INDEX_KEY_BYTES_MAX
from wormdb.types import WriteId


def index(*fields: str, sparse: bool = True) -> Index:
    return Index("i", fields, unique=True, sparse=sparse)


def values_of(wanted: Index, **values: Any) -> list[Any]:
    return list(keys_of(wanted, doc("a", **values)).values())


@pytest.mark.parametrize(
    ("fields", "values", "shown"),
    [
        (("email",), {"email": "x"}, ["x"]),
        (("email",), {"email": ""}, [""]),
        (("email",), {"email": 0}, [0]),
        (("email",), {"email": None}, []),
        (("email",), {}, []),
        (("tags",), {"tags": ["x", "y", "x"]}, ["x", "y"]),
        (("tags",), {"tags": []}, []),
        (("tags",), {"tags": [None, "x"]}, ["x"]),
        (("a.b",), {"a": {"b": 1}}, [1]),
        (("a.b",), {"a": [{"b": 1}, {"b": 2}]}, [1, 2]),
        (("a", "b"), {"a": 1, "b": 2}, [[1, 2]]),
        (("a", "b"), {"a": 1}, [[1, None]]),
        (("a", "b"), {}, []),
        (("a", "b"), {"a": None, "b": None}, []),
        (("a", "b"), {"a": [1, 2], "b": 3}, [[1, 3], [2, 3]]),
    ],
)
def test_what_a_document_claims(fields: tuple[str, ...], values: dict[str, Any], shown: list[Any]) -> None:
    assert values_of(index(*fields), **values) == shown


def test_an_index_that_is_not_sparse_counts_null_and_missing_as_one_value() -> None:
    wanted = index("email", sparse=False)
    assert keys_of(wanted, doc("a")) == keys_of(wanted, doc("b", email=None))
    assert values_of(wanted) == [None]


def test_nothing_is_claimed_by_a_document_that_is_gone() -> None:
    assert keys_of(index("email"), None) == {}


def test_equal_numbers_claim_the_same_key_whatever_their_type() -> None:
    wanted = index("n")
    assert keys_of(wanted, doc("a", n=1)).keys() == keys_of(wanted, doc("b", n=1.0)).keys()
    assert keys_of(wanted, doc("a", n=1)).keys() != keys_of(wanted, doc("b", n=True)).keys()
    assert keys_of(wanted, doc("a", n=1)).keys() != keys_of(wanted, doc("b", n="1")).keys()


def owners(keys: UniqueKeys, *emails: str) -> list[bytes | None]:
    return [keys.owner(next(iter(keys_of(keys.index, doc("q", email=email))))) for email in emails]


def entry(*changes: Change) -> Entry:
    name = WriteId("0" * 32)
    batch = Batch(id=name, changes=changes)
    return Entry(number=1, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))


def change(identity: str, before: str | None, after: str | None) -> Change:
    return Change(
        id=ident(identity),
        seq=1,
        before=None if before is None else doc(identity, email=before),
        after=None if after is None else doc(identity, email=after),
    )


def test_owners_follow_the_entries() -> None:
    keys = UniqueKeys.build(index("email"), [Held(ident("a"), 1, 1, doc("a", email="x")), Held(ident("z"), 1, 2, None)])
    assert owners(keys, "x", "y") == [ident("a"), None]
    keys.apply(entry(change("a", "x", "y")))
    assert owners(keys, "x", "y") == [None, ident("a")]
    keys.apply(entry(change("a", "y", None)))
    assert owners(keys, "x", "y") == [None, None]


def test_documents_may_trade_values_in_one_entry_whichever_comes_first() -> None:
    for order in (0, 1):
        keys = UniqueKeys(index("email"))
        keys.apply(entry(change("a", None, "x"), change("b", None, "y")))
        trade = [change("a", "x", "y"), change("b", "y", "x")]
        keys.apply(entry(*(reversed(trade) if order else trade)))
        assert owners(keys, "x", "y") == [ident("b"), ident("a")]


def test_a_ring_of_three_and_a_detour_end_right() -> None:
    keys = UniqueKeys(index("email"))
    keys.apply(entry(change("a", None, "x"), change("b", None, "y"), change("c", None, "z")))
    keys.apply(entry(change("a", "x", "w"), change("b", "y", "x"), change("c", "z", "y"), change("a", "w", "z")))
    assert owners(keys, "x", "y", "z", "w") == [ident("b"), ident("c"), ident("a"), None]


def test_two_arrays_in_one_index_and_a_key_too_long_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="index i: two fields of one index are arrays"):
        keys_of(index("a", "b"), doc("x", a=[1], b=[2]))
    with pytest.raises(LimitExceededError, match="a key of index i"):
        keys_of(index("a"), doc("x", a="x" * INDEX_KEY_BYTES_MAX))


def test_an_array_within_an_array_is_one_value() -> None:
    assert values_of(index("a"), a=[[1, 2], 1]) == [[1, 2], 1]
