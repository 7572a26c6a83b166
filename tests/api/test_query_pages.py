"""Pages and tokens: a place in an order, which another process and another state understand."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.api.market import MARKET, filled
from wormdb.api.options import TokenKind, seal, unseal
from wormdb.errors import InvalidRequestError
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document


@pytest.fixture
def orders(url: str) -> Iterator[Collection[Document]]:
    with wormdb.connect(url, schema=MARKET, clock=ManualClock()) as db:
        yield filled(db, "Order", forwarded=not url.startswith("memory")).model("Order")


def pages(orders: Collection[Document], **asked: Any) -> list[list[str]]:
    found: list[list[str]] = []
    page = None
    while True:
        rows = orders.find(page=page, **asked)
        found.append([row.id for row in rows])
        page = rows.next_page
        if page is None:
            return found


def test_pages_together_are_all_rows_once(orders: Collection[Document]) -> None:
    sorts: list[Any] = [None, "-total", ["customerId", "-total"], "tags", "nothing"]
    for sort, limit in product(sorts, [1, 5, 12, 13]):
        found = pages(orders, sort=sort, limit=limit)
        assert [identity for page in found for identity in page] == [row.id for row in orders.find(sort=sort)]
        assert {len(page) for page in found[:-1]} <= {limit}


def test_a_page_that_is_not_full_is_the_last(orders: Collection[Document]) -> None:
    assert orders.find("total>=100", limit=3).next_page is None
    full = orders.find("total>=100", limit=2)
    assert full.next_page is not None
    assert orders.find_all("total>=100", limit=2, page=full.next_page) == []
    assert orders.find("total>=100").next_page is None


def test_a_page_that_was_not_read_to_its_end_is_read_for_its_token(orders: Collection[Document]) -> None:
    page = orders.find(limit=3)
    next(iter(page))
    token = page.next_page
    assert token is not None
    assert token == orders.find(limit=3).next_page
    assert [row.id for row in orders.find(limit=2, page=token)] == ["o03", "o04"]


def test_pages_see_what_changes_behind_them_and_nothing_before(orders: Collection[Document]) -> None:
    first = orders.find(sort="total", limit=6)
    token = first.next_page
    orders.insert({"id": "before", "total": 1})
    orders.insert({"id": "behind", "total": 61})
    orders.delete("o07")
    orders.delete("o05")  # the row that the token is of
    rest = [row.id for row in orders.find(sort="total", page=token)]
    assert rest == ["o06", "behind", "o08", "o09", "o10", "o11"]


def test_a_token_is_for_every_process_and_any_limit(orders: Collection[Document], url: str) -> None:
    token = orders.find({"total": {"$gte": 20}}, sort="-total", limit=2, select=["total"]).next_page
    with wormdb.connect(url, schema=MARKET) as other:
        rows = other.model("Order").find_all("total>=20", sort=[("total", -1)], limit=1, page=token, select=["total"])
    assert rows == [{"id": "o09", "total": 90}]
    token = orders.find(limit=1, select=["total", "tags"]).next_page
    assert [row["id"] for row in orders.find(limit=1, page=token, select={"tags": 1, "total": 1, "id": 1})] == ["o01"]


def test_pages_of_a_state_of_the_past_stay_in_it(orders: Collection[Document]) -> None:
    first = orders.find(limit=10, as_of=1)
    token = first.next_page
    orders.insert({"id": "o99"})
    assert [row.id for row in orders.find(limit=10, page=token, as_of=1)] == ["o10", "o11"]
    with pytest.raises(InvalidRequestError, match="another filter, sort, selection or as_of"):
        orders.find(limit=10, page=token)


def test_a_token_of_another_query_is_refused(orders: Collection[Document], url: str) -> None:
    token = orders.find("total>0", sort="total", limit=2).next_page
    asked: list[dict[str, Any]] = [
        {"filter": "total>1", "sort": "total"},
        {"filter": "total>0", "sort": "-total"},
        {"filter": "total>0"},
        {"filter": "total>0", "sort": "total", "select": ["total"]},
    ]
    for other in asked:
        with pytest.raises(InvalidRequestError, match="another filter, sort, selection or as_of"):
            orders.find(page=token, **other)
    with (
        wormdb.connect(url, schema=MARKET) as db,
        pytest.raises(InvalidRequestError, match="another collection than customers"),
    ):
        db.model("Customer").find("total>0", sort="total", page=token)


def test_a_page_has_no_offset(orders: Collection[Document]) -> None:
    token = orders.find(limit=2, offset=3).next_page
    assert [row.id for row in orders.find(limit=2, page=token)] == ["o05", "o06"]
    with pytest.raises(InvalidRequestError, match="leave out offset"):
        orders.find(limit=2, offset=3, page=token)


def test_what_is_no_token_is_refused(db: Database) -> None:
    tokens: list[Any] = ["", "x", "cAE", "ünïcode", "a b", 7, b"cAE", "=" * 8]
    for token in tokens:
        with pytest.raises(InvalidRequestError, match="the page token"):
            db["orders"].find(page=token)
        with pytest.raises(InvalidRequestError, match="the cursor token"):
            db["orders"].resume(token)
    assert db.cost().requests == 0


KINDS: st.SearchStrategy[TokenKind] = st.sampled_from(("page", "cursor"))


@given(KINDS, st.binary(max_size=40))
def test_tokens_are_safe_in_urls_and_give_back_what_they_hold(kind: TokenKind, body: bytes) -> None:
    token = seal(kind, body)
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert unseal(kind, token) == body
    other: TokenKind = "cursor" if kind == "page" else "page"
    with pytest.raises(InvalidRequestError, match="something else"):
        unseal(other, token)


@given(KINDS, st.binary(max_size=20), st.data())
@settings(max_examples=200)
def test_a_changed_token_is_refused(kind: TokenKind, body: bytes, data: st.DataObject) -> None:
    token = seal(kind, body)
    place = data.draw(st.integers(0, len(token) - 1))
    letter = data.draw(st.sampled_from([*"AQgw-_ \n=é", ""]))
    changed = token[:place] + letter + token[place + 1 :]
    if changed != token:
        with pytest.raises(InvalidRequestError, match="damaged"):
            unseal(kind, changed)


def test_a_token_of_another_version_says_so() -> None:
    from base64 import urlsafe_b64encode
    from zlib import crc32

    content = b"p\x02abc"
    token = urlsafe_b64encode(content + crc32(content).to_bytes(4, "big")).decode().rstrip("=")
    with pytest.raises(InvalidRequestError, match="another version"):
        unseal("page", token)
