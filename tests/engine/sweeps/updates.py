"""More of what the sweeps run: changes of what a filter finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.engine.sweeps.commits import (
    Scenario,
    State,
    block_and_tail,
    one_person,
    put_model,
    soft,
    two_in_a_block,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.update import UpdateResult

__all__ = ["UPDATES", "delete_where", "update_where"]


# --- the model ---


def update_where(
    test: Callable[[dict[str, Any]], bool], change: Callable[[dict[str, Any]], dict[str, Any]]
) -> Callable[[State], State | None]:
    """What a change of all documents that pass a test does."""

    def model(state: State) -> State | None:
        changed: State | None = state
        for identity, (_, values) in state.items():
            if values is not None and test(values) and changed is not None:
                changed = put_model(identity, change(values))(changed)
        return changed

    return model


def delete_where(test: Callable[[dict[str, Any]], bool]) -> Callable[[State], State | None]:
    """What a delete of all documents that pass a test does."""

    def model(state: State) -> State | None:
        changed: State | None = state
        for identity, (_, values) in state.items():
            if values is not None and test(values) and changed is not None:
                changed = put_model(identity, None)(changed)
        return changed

    return model


def _upsert_model(state: State) -> State | None:
    values = state["x"][1] if "x" in state else None
    return put_model("x", {"n": 1} if values is None else {**values, "n": values["n"] + 1})(state)


def _upsert_person_model(state: State) -> State | None:
    owner = next((key for key, (_, values) in state.items() if values and values.get("email") == "q@x"), "q")
    values = state[owner][1] if owner in state else None
    return put_model(owner, {**(values or {"email": "q@x"}), "name": "Q"})(state)


def _greatest_model(state: State) -> State | None:
    alive = [(values["n"], key) for key, (_, values) in state.items() if values is not None]
    number, key = max(alive)
    return put_model(key, {"n": number + 1})(state)


# --- operations ---


def _told(result: UpdateResult) -> tuple[int, int, object]:
    return (result.matched, result.modified, result.upserted_id)


def _update_one(things: Collection[Document]) -> object:
    return _told(things.update_one({"id": "a"}, {"$inc": {"n": 1}}))


def _update_known(things: Collection[Document]) -> object:
    """By a process that has read the document, and does not ask again before it writes."""
    assert things.find_by_id("a") is not None
    assert things._ledger.trusted() is not None
    return _update_one(things)


def _delete_known(things: Collection[Document]) -> object:
    assert things.find_by_id("a") is not None
    return things.delete_one({"id": "a"}).deleted


def _update_many(things: Collection[Document]) -> object:
    return _told(things.update_many({"n": {"$gte": 1}}, {"$inc": {"n": 10}}))


def _update_nothing(things: Collection[Document]) -> object:
    return _told(things.update_many({"n": {"$gte": 1}}, {"$max": {"n": 0}}))


def _upsert(things: Collection[Document]) -> object:
    return _told(things.update_one({"id": "x"}, {"$inc": {"n": 1}}, upsert=True))


def _upsert_person(people: Collection[Document]) -> object:
    update = {"$set": {"name": "Q"}, "$setOnInsert": {"_id": "q"}}
    return _told(people.update_one({"email": "q@x"}, update, upsert=True))


def _replace(things: Collection[Document]) -> object:
    return _told(things.replace_one({"id": "a"}, {"m": 1}))


def _greatest(things: Collection[Document]) -> object:
    found = things.find_one_and_update({"n": {"$gt": 0}}, {"$inc": {"n": 1}}, sort="-n", return_document="after")
    return None if found is None else (found["id"], found["n"])


UPDATES = (
    Scenario(
        "update by id",
        "things",
        two_in_a_block,
        _update_one,
        lambda state: put_model("a", {"n": (state["a"][1] or {})["n"] + 1})(state),
        (1, 1, None),
    ),
    Scenario(
        "update by id of what is known",
        "things",
        two_in_a_block,
        _update_known,
        lambda state: put_model("a", {"n": (state["a"][1] or {})["n"] + 1})(state),
        (1, 1, None),
    ),
    Scenario("delete by id of what is known", "things", two_in_a_block, _delete_known, put_model("a", None), 1),
    Scenario(
        "update many",
        "things",
        block_and_tail,
        _update_many,
        update_where(lambda values: values["n"] >= 1, lambda values: {"n": values["n"] + 10}),
        (2, 2, None),
    ),
    Scenario("update nothing", "things", block_and_tail, _update_nothing, lambda state: state, (2, 0, None)),
    Scenario("upsert", "things", two_in_a_block, _upsert, _upsert_model, (0, 0, "x")),
    Scenario("upsert what is unique", "Person", one_person, _upsert_person, _upsert_person_model, (0, 0, "q")),
    Scenario("replace", "things", two_in_a_block, _replace, put_model("a", {"m": 1}), (1, 1, None)),
    Scenario("find one and update", "things", block_and_tail, _greatest, _greatest_model, ("b", 2)),
    Scenario(
        "delete many",
        "things",
        block_and_tail,
        lambda c: c.delete_many({"n": 1}).deleted,
        delete_where(lambda values: values["n"] == 1),
        2,
    ),
    Scenario(
        "soft delete many",
        "Soft",
        soft,
        lambda c: c.delete_many({"n": {"$lte": 2}}).deleted,
        delete_where(lambda values: values["n"] <= 2),
        2,
    ),
)
