"""insert_many looks at documents together: that changes nothing for any of them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.api.document import ClassCodec, Document, PlainCodec
from wormdb.api.write import Writer
from wormdb.engine.commit.operations import Insert, InsertNext
from wormdb.errors import ValidationError, WormError
from wormdb.format import json
from wormdb.schema.load import load_model
from wormdb.system.clock import ManualClock, SeededChance
from wormdb.testing.strategies import documents, values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.api.document import Codec
    from wormdb.engine.commit.operations import Operation
    from wormdb.schema.model import Model

FIELDS = {"name": {"type": "string", "required": True}, "age": {"type": "integer", "default": 7}}


def model_of(kind: str, **keys: Any) -> Model:
    return load_model("Thing", {"path": f"@things/(id:{kind})", "fields": FIELDS, **keys})


MODELS = {
    "none": None,
    **{kind: model_of(kind) for kind in ("ulid", "uuid", "objectid", "seq", "slug", "any")},
    "files": model_of("string", files=True),
    "own type": model_of("code", id="ulid", dynamicTypes={"code": "0[0-9A-Z]+"}),
}


def writer_of(model: Model | None, codec: Codec[Any] | None = None) -> Writer[Any]:
    return Writer("Thing", model, codec or PlainCodec(), origin="x", clock=ManualClock(), chance=SeededChance(1))


def plain(operation: Operation) -> tuple[Any, ...]:
    """An operation without an id that was made for it."""
    assert isinstance(operation, Insert | InsertNext)
    if isinstance(operation, InsertNext):
        return (operation.document,)
    identity, made = operation.id, operation.fresh
    assert json.decode_document(operation.document, name="document")["_id"] == json.decode(identity, name="id")
    assert operation.document.startswith(b'{"_id":' + identity)
    rest = operation.document.removeprefix(b'{"_id":' + identity)
    return (made, rest) if made else (made, rest, identity)


def outcome(attempt: Any) -> list[tuple[Any, ...]] | tuple[type, str]:
    try:
        return [plain(operation) for operation in attempt()]
    except WormError as error:
        return type(error), str(error)


def check(model: Model | None, given: list[Any], codec: Codec[Any] | None = None) -> Any:
    """Together, one by one as they are made, and each alone: the same operations, or the same error."""
    alone = outcome(lambda: [writer_of(model, codec).prepare("insert", document).operation for document in given])
    assert outcome(lambda: writer_of(model, codec).inserts(given).operations) == alone
    assert outcome(lambda: writer_of(model, codec).inserts(tuple(given)).operations) == alone
    assert outcome(lambda: writer_of(model, codec).inserts(iter(given)).operations) == alone
    return alone


IDS = {
    "none": "x",
    "ulid": "01HV5Q8ZJ4N7XKTR2MDWE9GYBC",
    "uuid": "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28",
    "objectid": "65f0a1b2c3d4e5f60718293a",
    "seq": "0000000042",
    "slug": "a-b",
    "any": "any/thing",
    "files": "file name",
    "own type": "0ABC",
}


@pytest.mark.parametrize("kind", MODELS)
def test_documents_together_are_as_each_alone(kind: str) -> None:
    identity = IDS[kind]
    named: list[Any] = [
        {"id": identity, "name": "a"},
        {"name": "b", "_id": identity, "age": None, "born": datetime(2020, 1, 1, tzinfo=UTC)},
        {"_id": identity, "name": "c", "more": {"x": [1, {"y": "ü"}]}},
        OrderedDict(id=identity, name="d"),
        Document({"id": identity, "name": "e"}),
    ]
    assert len(check(MODELS[kind], named)) == 5
    for odd in (
        {"name": "x"},
        {},
        {"name": 7},
        {"name": "x", "id": "?/\\"},
        {"name": "x", "id": 7},
        "no document",
        None,
    ):
        check(MODELS[kind], [*named, odd, {"also": "wrong", "$": 1}])
        check(MODELS[kind], [{"name": "first"}, odd, {"name": "third"}])


@pytest.mark.parametrize("kind", ["none", "ulid"])
@given(
    st.lists(documents() | st.fixed_dictionaries({"name": st.text(max_size=3)}, optional={"age": values()}), max_size=5)
)
def test_any_documents(kind: str, given: list[Any]) -> None:
    check(MODELS[kind], given)


@dataclass
class Person:
    id: str
    name: str
    age: int | None = None


def test_instances_of_a_class() -> None:
    codec = ClassCodec(Person)
    ids = [IDS["uuid"].replace("6", digit) for digit in "123"]
    given = [Person(ids[0], "x"), Person(ids[1], "y", 7), {"id": ids[2], "name": "z"}]
    assert len(check(codec.model, given, codec)) == 3
    assert check(codec.model, [*given, Person(IDS["uuid"], 7)], codec)[0] is ValidationError  # type: ignore[arg-type] # wrong on purpose
    check(codec.model, [*given, "no person"], codec)


def test_made_ids_are_new_and_in_the_order_of_the_documents() -> None:
    clock = ManualClock()
    with wormdb.connect("memory://", clock=clock) as database:
        ids = database["things"].insert_many([{"n": n} for n in range(2_500)])
        assert len(set(ids)) == 2_500
        assert [database["things"].find_by_id(ids[n]) for n in (0, 999, 2_400)] == [
            {"id": ids[n], "n": n} for n in (0, 999, 2_400)
        ]
    assert [ids[:1_000], ids[1_000:2_000], ids[2_000:]] == [
        sorted(ids[:1_000]),
        sorted(ids[1_000:2_000]),
        sorted(ids[2_000:]),
    ]


def test_who_makes_documents_one_by_one_may_use_one_dict_for_all() -> None:
    def made() -> Iterator[dict[str, Any]]:
        one: dict[str, Any] = {"inner": []}
        for number in range(20):
            one["n"] = number
            one["inner"].append(number)
            yield one

    with wormdb.connect("memory://") as database:
        ids = database["things"].insert_many(made())
        found = [database["things"].find_by_id(identity) for identity in ids]
    assert [(one and one["n"], one and one["inner"]) for one in found] == [(n, list(range(n + 1))) for n in range(20)]


def test_documents_that_were_given_are_brought_up_to_date() -> None:
    with wormdb.connect("memory://") as database:
        things = database["things"]
        first, second = things.create(n=1), things.create(n=2)
        ids = things.insert_many([first, {"n": 3}, second])
        assert [first.id, second.id] == [ids[0], ids[2]]
        assert [first.rev, second.rev, first.seq] == [1, 1, 1]
        first["n"] = 10
        assert things.save(first).seq == 2


def test_numbers_are_given_in_order() -> None:
    schema = {"models": {"Thing": {"path": "@things/(id:seq)", "fields": FIELDS}}}
    with wormdb.connect("memory://", schema=schema) as database:
        ids = database.model("Thing").insert_many([{"name": "a"}, {"name": "b", "id": "0000000007"}, {"name": "c"}])
    assert ids == ["0000000001", "0000000007", "0000000008"]
