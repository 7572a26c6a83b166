"""Bad input of every kind is refused by a typed error, before any request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from wormdb.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    return db["things"]


class NotADocument:
    """Nothing that a document can be made of."""


BAD_DOCUMENTS: list[Any] = [None, 5, "text", b"bytes", [1], [("id", 1)], NotADocument(), dict, object]
BAD_VALUES: list[Any] = [{1, 2}, object(), 2**63, 1j, NotADocument, "\ud800", lambda: None]
BAD_IDS: list[Any] = [float("nan"), [1], {"a": 1}, "\ud800", object(), "x" * 2_000, 2**63]
BAD_ID_ARGUMENTS: list[Any] = [None, "", *BAD_IDS]


@pytest.mark.parametrize("bad", BAD_DOCUMENTS, ids=lambda value: type(value).__name__)
def test_what_is_no_document_is_refused(db: Database, things: Collection[Document], bad: Any) -> None:
    calls: list[Callable[[Any], object]] = [
        things.insert,
        things.save,
        lambda given: things.insert_many([given]),
        things.batch().insert,
        things.batch().save,
        things.batch().update,
    ]
    calls += [things.create] if bad is not None else []
    for call in calls:
        with pytest.raises(InvalidRequestError) as caught:
            call(bad)
        assert caught.value.reason
    assert db.cost().requests == 0


@pytest.mark.parametrize("bad", BAD_VALUES, ids=lambda value: ascii(value)[:20])
def test_what_cannot_be_stored_is_refused(db: Database, things: Collection[Document], bad: Any) -> None:
    for document in ({"id": "a", "v": bad}, {"id": "a", "v": {"deep": [bad]}}):
        for call in (things.insert, things.save, things.create, things.batch().save):
            with pytest.raises(InvalidRequestError):
                call(document)
    assert db.cost().requests == 0


@pytest.mark.parametrize("bad", BAD_IDS, ids=lambda value: ascii(value)[:20])
def test_an_id_that_cannot_be_one_is_refused_in_a_document(
    db: Database, things: Collection[Document], bad: Any
) -> None:
    for call in (things.insert, things.save, things.batch().insert, things.delete):
        with pytest.raises(InvalidRequestError):
            call({"id": bad})
    assert db.cost().requests == 0


@pytest.mark.parametrize("bad", BAD_ID_ARGUMENTS, ids=lambda value: ascii(value)[:20])
def test_an_id_that_cannot_be_one_is_refused_as_an_argument(
    db: Database, things: Collection[Document], bad: Any
) -> None:
    calls: list[Callable[[Any], object]] = [
        things.find_by_id,
        things.exists,
        things.delete,
        lambda given: things.modify(given, lambda document: document),
        things.batch().delete,
    ]
    for call in calls:
        with pytest.raises(InvalidRequestError):
            call(bad)
    assert db.cost().requests == 0


def test_field_names_must_be_text_and_documents_must_end(db: Database, things: Collection[Document]) -> None:
    endless: dict[str, Any] = {"id": "a"}
    endless["self"] = endless
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"d": deep}
    bad: list[dict[Any, Any]] = [
        {1: 2},
        {None: 1},
        {"id": "a", "x": {1: 2}},
        {"": 1, "\x00": 2},
        {"$set": 1},
        endless,
        deep,
    ]
    for document in bad:
        with pytest.raises(InvalidRequestError):
            things.insert(document)
    with pytest.raises(LimitExceededError):
        things.insert({"id": "a", "text": "x" * 17_000_000})
    assert db.cost().requests == 0


def test_a_delete_without_an_id_is_refused(db: Database, things: Collection[Document]) -> None:
    with pytest.raises(InvalidRequestError, match="it has no id"):
        things.delete({"n": 1})
    with pytest.raises(InvalidRequestError, match="its id must not be null"):
        things.delete(things.create() | {"id": None})
    assert db.cost().requests == 0
