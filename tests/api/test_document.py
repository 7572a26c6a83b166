from __future__ import annotations

import copy
import pickle  # noqa: TID251 - documents go to other processes by pickle; nothing is stored with it

import pytest

import wormdb
from wormdb.api.document import Document, stored
from wormdb.engine.commit.operations import ReadVersion
from wormdb.engine.state.view import StoredVersion
from wormdb.system.clock import SystemChance
from wormdb.system.types import LogNumber


def loaded(rev: int = 3, seq: int = 2) -> ReadVersion:
    return ReadVersion(StoredVersion(b'"a"', rev, seq, b'{"_id":"a"}'), LogNumber(9))


def test_a_document_is_a_dict_that_knows_its_id_and_revision() -> None:
    document = Document({"id": "a", "n": 1}, loaded())
    assert document == {"id": "a", "n": 1}
    assert (document.id, document.rev, document.seq) == ("a", 3, 2)
    assert repr(document) == "Document({'id': 'a', 'n': 1}, rev=3)"


def test_a_document_that_was_not_saved_has_revision_0() -> None:
    document = Document({"n": 1})
    assert (document.id, document.rev, document.seq) == (None, 0, 0)


@pytest.mark.parametrize(
    "duplicate",
    [lambda d: d.copy(), copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d)), lambda d: d | {}],
    ids=["copy", "copy.copy", "deepcopy", "pickle", "or"],
)
def test_a_copy_is_of_the_same_state_but_its_id_is_not_new_any_more(duplicate: object) -> None:
    assert callable(duplicate)
    document = Document({"id": "a", "n": [1]}, loaded(), fresh="a")
    copied = duplicate(document)
    assert isinstance(copied, Document)
    assert copied == document
    assert copied.rev == 3
    assert copied.fresh is None
    copied["n"] = 2
    assert document["n"] == [1]


def test_a_document_sent_to_another_process_still_notices_a_conflict() -> None:
    url = f"memory://{SystemChance().token(8).hex()}"
    with wormdb.connect(url) as database, wormdb.connect(url) as other:
        sent = pickle.dumps(database["things"].insert({"id": "a", "n": 1}))
        arrived = pickle.loads(sent)
        arrived["n"] = 2
        other["things"].save(arrived)
        late = pickle.loads(sent)
        late["n"] = 3
        with pytest.raises(wormdb.ConflictError):
            database["things"].save(late)


def test_the_id_is_stored_as_id_with_an_underscore_in_first_place() -> None:
    assert list(stored({"n": 1, "id": "a"}).items()) == [("_id", "a"), ("n", 1)]
    assert list(stored({"n": 1, "_id": "a"}).items()) == [("_id", "a"), ("n", 1)]
    assert stored({"_id": "a", "id": "a"}) == {"_id": "a"}
    assert stored({"n": 1}) == {"n": 1}


def test_two_different_ids_in_one_document_are_refused() -> None:
    with pytest.raises(wormdb.InvalidRequestError, match="_id 'a' and id 'b' differ"):
        stored({"_id": "a", "id": "b"})
