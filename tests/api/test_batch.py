"""Several changes at once: all of them or none, and a batch is used once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.api.batch import Batch
from wormdb.errors import (
    AlreadyExistsError,
    ClosedError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    UnavailableError,
)

if TYPE_CHECKING:
    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document


@pytest.fixture
def things(db: Database) -> Collection[Document]:
    things = db["things"]
    things.insert_many([{"id": "a", "n": 1}, {"id": "b", "n": 1}])
    return things


def test_a_batch_is_one_entry_and_tells_its_number_and_time(things: Collection[Document]) -> None:
    batch = things.batch()
    batch.insert({"id": "c", "n": 1}).update({"id": "a", "n": 2}).save({"id": "d"}).delete("b")
    assert len(batch) == 4
    committed = batch.flush()
    assert committed.number == 2
    assert committed.misc > 0
    assert [dict(document) for document in things] == [{"id": "a", "n": 2}, {"id": "c", "n": 1}, {"id": "d"}]
    assert {change.number for change in things.watch(after=1)} == {2}
    assert {change.misc for change in things.watch(after=1)} == {committed.misc}


def test_nothing_is_seen_before_the_flush_and_nothing_is_sent(db: Database, things: Collection[Document]) -> None:
    before = db.cost().requests
    batch = things.batch().insert({"id": "c"}).delete("a")
    assert db.cost().requests == before
    assert things.count() == 2
    batch.discard()
    assert things.count() == 2


@pytest.mark.parametrize(
    ("verb", "document", "error"),
    [
        ("insert", {"id": "b"}, AlreadyExistsError),
        ("update", {"id": "nothing"}, NotFoundError),
    ],
)
def test_one_refused_change_refuses_all(
    things: Collection[Document], verb: str, document: dict[str, Any], error: type[Exception]
) -> None:
    batch = things.batch().save({"id": "a", "n": 2}).insert({"id": "c"})
    getattr(batch, verb)(document)
    with pytest.raises(error):
        batch.flush()
    assert [dict(document) for document in things] == [{"id": "a", "n": 1}, {"id": "b", "n": 1}]


def test_a_loaded_document_must_be_unchanged_at_the_flush(things: Collection[Document]) -> None:
    document = things.find_by_id("a")
    assert document is not None
    batch = things.batch().save(document | {"n": 2}).insert({"id": "c"})
    things.save({"id": "a", "n": 9})
    with pytest.raises(ConflictError):
        batch.flush()
    assert things.count() == 2


def test_a_refused_batch_can_be_flushed_again(things: Collection[Document]) -> None:
    """Nothing was written, and what stood in the way may be gone."""
    batch = things.batch().insert({"id": "a", "n": 5})
    with pytest.raises(AlreadyExistsError):
        batch.flush()
    things.delete("a")
    batch.flush()
    assert things.find_by_id("a") == {"id": "a", "n": 5}


@pytest.mark.parametrize(("end", "said"), [("flush", "Batch already flushed"), ("discard", "Batch already discarded")])
def test_a_batch_is_refused_after_use(things: Collection[Document], end: str, said: str) -> None:
    batch = things.batch().insert({"id": "c"})
    getattr(batch, end)()
    uses: list[Any] = [
        batch.flush,
        batch.discard,
        lambda: batch.insert({}),
        lambda: batch.save({}),
        lambda: batch.update({"id": "a"}),
        lambda: batch.delete("a"),
    ]
    for use in uses:
        with pytest.raises(ClosedError, match=said) as caught:
            use()
        assert caught.value.fix == "make a new batch"


def test_an_empty_batch_is_refused(db: Database, things: Collection[Document]) -> None:
    before = db.cost().requests
    with pytest.raises(InvalidRequestError, match="it is empty"):
        things.batch().flush()
    assert db.cost().requests == before


def test_a_block_flushes_at_its_end_and_discards_if_it_raised(things: Collection[Document]) -> None:
    with things.batch() as batch:
        batch.insert({"id": "c"})
    assert things.exists("c")
    with pytest.raises(ZeroDivisionError), things.batch() as batch:
        batch.insert({"id": "d", "n": 1 / 0})
    with pytest.raises(ZeroDivisionError), things.batch().insert({"id": "d"}):
        raise ZeroDivisionError
    assert not things.exists("d")
    with things.batch():
        pass
    with things.batch() as batch:
        batch.insert({"id": "e"})
        batch.flush()
    with things.batch() as batch:
        batch.insert({"id": "f"})
        batch.discard()
    assert [document.id for document in things] == ["a", "b", "c", "e"]


def test_documents_know_their_revision_after_the_flush(things: Collection[Document]) -> None:
    loaded = things.find_by_id("a")
    assert loaded is not None
    loaded["n"] = 2
    created = things.create({"n": 3})
    things.batch().save(loaded).insert(created).delete("nothing").flush()
    assert (loaded.rev, loaded.seq, created.rev, created.seq) == (2, 2, 2, 1)
    loaded["n"] = 4
    things.save(loaded)
    created["n"] = 5
    things.save(created)
    assert things.count() == 3


def test_a_document_that_was_edited_before_the_flush_keeps_the_edit(things: Collection[Document]) -> None:
    document = things.find_by_id("a")
    assert document is not None
    document["n"] = 2
    batch = things.batch().save(document)
    document["n"] = 3
    batch.flush()
    assert things.find_by_id("a") == {"id": "a", "n": 2}
    assert document["n"] == 3
    things.save(document)
    assert things.find_by_id("a") == {"id": "a", "n": 3}


def test_a_batch_belongs_to_one_collection(db: Database, things: Collection[Document]) -> None:
    document = things.find_by_id("a")
    assert document is not None
    other = db["other"].batch()
    for verb in (other.save, other.update, other.delete):
        with pytest.raises(InvalidRequestError, match=r"things/, and this is .*other/ .*one batch belongs to one"):
            verb(document)
    assert len(other) == 0


def test_changes_see_those_before_them(things: Collection[Document]) -> None:
    things.batch().insert({"id": "c", "n": 1}).update({"id": "c", "n": 2}).delete("c").insert(
        {"id": "c", "n": 3}
    ).flush()
    assert things.find_by_id("c") == {"id": "c", "n": 3}
    assert [change.op for change in things.watch(after=1)] == ["create", "update", "delete", "create"]


def test_a_delete_of_nothing_is_not_taken_for_the_insert_behind_it(things: Collection[Document]) -> None:
    document = things.create({"n": 1})
    things.batch().delete(document.id).delete("nothing").insert(document).delete("a").insert({"id": "a"}).flush()
    assert (document.rev, document.seq) == (2, 1)
    assert things.count() == 3


def test_an_unknown_outcome_uses_the_batch_up_and_a_refusal_does_not() -> None:
    outcomes: list[Exception] = [UnavailableError("x"), OutcomeUnknownError("x")]

    def flush(prepared: list[Any]) -> Any:
        raise outcomes.pop(0)

    batch: Batch[Any] = Batch(lambda verb, document: (verb, document), flush)
    batch.insert({})
    with pytest.raises(UnavailableError):
        batch.flush()
    with pytest.raises(OutcomeUnknownError):
        batch.flush()
    with pytest.raises(ClosedError, match="flushed with an unknown outcome"):
        batch.flush()


def test_half_a_batch_is_never_seen(url: str) -> None:
    with wormdb.connect(url) as database, wormdb.connect(url) as reader:
        bank = database["bank"]
        bank.insert_many([{"id": name, "money": 50} for name in "abcd"])
        for amount in range(20):
            with bank.batch() as batch:
                for name, sign in (("a", -1), ("b", 1)):
                    account = bank.find_by_id(name)
                    assert account is not None
                    batch.save(account | {"money": account["money"] + sign * amount})
            assert sum(account["money"] for account in reader["bank"]) == 200
