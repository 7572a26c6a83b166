"""Models from classes: fields from annotations, and instances there and back."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping, Sequence  # noqa: TC003 - annotations are resolved at run time
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal, NotRequired, Optional, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import SchemaError, ValidationError
from wormdb.format.values import Decimal128, ObjectId
from wormdb.schema.classes import Converter, from_document, model_from_class, to_document
from wormdb.schema.validate import new_document, validate
from wormdb.system.clock import ManualClock, SeededChance

MOMENT = datetime(2026, 2, 24, 14, 30, tzinfo=UTC)
ID = "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"


class Status(enum.Enum):
    OPEN = "open"
    DONE = "done"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    city: str
    zip: str | None = None


@dataclass
class Customer:
    name: str
    email: str
    id: str = ""
    age: int | None = None
    balance: Decimal = Decimal("0.00")
    joined: datetime | None = None
    status: Status = Status.OPEN
    level: Level = Level.LOW
    kind: Literal["person", "company"] = "person"
    tags: list[str] = field(default_factory=list)
    address: Address | None = None
    former: list[Address] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    owner: ObjectId | None = None
    token: UUID | None = None
    raw: bytes = b""
    score: float = 0.5
    COUNT: ClassVar[int] = 0


class Line(msgspec.Struct, rename="camel"):
    unit_price: Decimal
    id: str | None = None
    sold_at: datetime | None = None
    amount: Decimal128 | None = None


class Invoice(TypedDict):
    id: str
    number: int
    note: NotRequired[str]
    lines: list[Address]


@dataclass
class Node:
    id: int
    children: list[Node] = field(default_factory=list)
    parent: Node | None = None
    anything: Annotated[int | str, "a note"] = 0
    either: int | float = 0
    many: Sequence[Mapping[str, int]] = ()
    pair: tuple[int, str] = (1, "a")
    old: Optional[str] = None  # noqa: UP045 - the older spelling works too


def test_annotations_become_fields() -> None:
    model = model_from_class(Customer, path="#org/@customers/(id:uuid)/[profile].json")
    assert model.name == "Customer"
    written = model.to_json()["fields"]
    assert "id" not in written
    assert "COUNT" not in written
    assert written == {
        "name": {"type": "string", "required": True},
        "email": {"type": "string", "required": True},
        "age": {"type": "integer"},
        "balance": {"type": "decimal", "default": {"$numberDecimal": "0.00"}},
        "joined": {"type": "datetime"},
        "status": {"type": "string", "default": "open", "enum": ["open", "done"]},
        "level": {"type": "integer", "default": 1, "enum": [1, 2]},
        "kind": {"type": "string", "default": "person", "enum": ["person", "company"]},
        "tags": {"type": "array", "default": [], "items": {"type": "string"}},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string", "required": True}, "zip": {"type": "string"}},
        },
        "former": {
            "type": "array",
            "default": [],
            "items": {
                "type": "object",
                "properties": {"city": {"type": "string", "required": True}, "zip": {"type": "string"}},
            },
        },
        "extra": {"type": "object", "default": {}},
        "owner": {"type": "objectid"},
        "token": {"type": "string"},
        "raw": {"type": "binary", "default": {"$binary": {"base64": "", "subType": "00"}}},
        "score": {"type": "number", "default": 0.5},
    }


def test_structs_use_their_stored_names_and_typed_dicts_their_optional_keys() -> None:
    line = model_from_class(Line)
    assert line.to_json()["fields"] == {
        "unitPrice": {"type": "decimal", "required": True},
        "soldAt": {"type": "datetime"},
        "amount": {"type": "decimal"},
    }
    invoice = model_from_class(Invoice).to_json()["fields"]
    assert {name for name, each in invoice.items() if each.get("required")} == {"number", "lines"}


def test_classes_may_name_themselves_and_unions_widen() -> None:
    model = model_from_class(Node)
    assert str(model.path) == "@node/(id:any)"
    kinds = {name: each.type for name, each in model.fields.items()}
    assert kinds == {
        "children": "array",
        "parent": "object",
        "anything": "any",
        "either": "number",
        "many": "array",
        "pair": "array",
        "old": "string",
    }
    assert model.fields["pair"].default == [1, "a"]


def test_overrides_are_keys_of_the_schema() -> None:
    model = model_from_class(
        Customer,
        name="Client",
        path="@clients/(id:ulid)",
        soft_delete={"ttl": 30},
        indexes={"byEmail": {"field": "email", "unique": True}},
        fields={"email": {"description": "where letters go"}, "later": {"type": "string"}},
    )
    assert (model.name, model.id, model.soft_delete.ttl, model.files) == ("Client", "ulid", 30, False)
    assert model.fields["email"].description == "where letters go"
    assert model.fields["email"].required
    assert model.fields["later"].type == "string"


def test_default_paths_are_the_name_in_snake_case() -> None:
    assert str(model_from_class(Customer).path) == "@customer/(id:string)"
    assert str(model_from_class(Customer, name="OrgSettings").path) == "@org_settings/(id:string)"


@pytest.mark.parametrize(
    ("annotation", "kind", "made"),
    [(str, "string", "uuid"), (str | None, "string", "uuid"), (UUID, "uuid", "uuid"), (int, "any", "given")],
)
def test_the_annotation_of_the_id_says_which_ids_there_are(annotation: Any, kind: str, made: str) -> None:
    model = model_from_class(make_dataclass("Note", [("id", annotation), ("title", str)]))
    assert (str(model.path), model.id) == (f"@note/(id:{kind})", made)
    assert str(model_from_class(make_dataclass("Note", [("title", str)])).path) == "@note/(id:uuid)"


def test_every_mistake_of_a_class_is_reported() -> None:
    @dataclass
    class Wrong:
        a: range
        b: type
        c: dict[int, str]
        d: list[complex]
        e: None
        fine: int = 0

    with pytest.raises(SchemaError) as caught:
        model_from_class(Wrong, colour="red", indxes={})
    assert [problem.path for problem in caught.value.problems] == [
        "colour",
        "indxes",
        "Wrong.a",
        "Wrong.b",
        "Wrong.c",
        "Wrong.d",
        "Wrong.e",
    ]
    assert caught.value.problems[1].fix == "did you mean 'indexes'?"
    with pytest.raises(SchemaError, match=r"models\.Customer\.indexes\.a\.field"):
        model_from_class(Customer, indexes={"a": {"field": "emial"}})
    with pytest.raises(SchemaError, match="cannot be a model"):
        model_from_class(int)


def test_mistakes_inside_nested_classes_name_the_attribute() -> None:
    @dataclass
    class Inner:
        when: complex

    @dataclass
    class Outer:
        inner: Inner

    Outer.__annotations__["inner"] = Inner
    with pytest.raises(SchemaError, match=r"Outer\.inner: when: complex cannot be a field"):
        model_from_class(Outer)


def test_annotations_that_cannot_be_resolved_are_refused() -> None:
    @dataclass
    class Lost:
        x: Nowhere  # type: ignore[name-defined] # noqa: F821 - the point of the test

    with pytest.raises(SchemaError, match="class Lost: its annotations cannot be resolved"):
        model_from_class(Lost)


FULL = Customer(
    "Acme",
    "hi@acme.com",
    id=ID,
    age=7,
    balance=Decimal("12.50"),
    joined=MOMENT,
    status=Status.DONE,
    level=Level.HIGH,
    kind="company",
    tags=["vip"],
    address=Address("Bonn"),
    former=[Address("Köln", "50667")],
    extra={"x": [1, {"y": None}]},
    owner=ObjectId("65f0a1b2c3d4e5f60718293a"),
    token=UUID(int=5),
    raw=b"\x00",
)


def test_instances_become_documents_and_come_back() -> None:
    document = to_document(FULL)
    assert next(iter(document)) == "_id"
    assert document["_id"] == ID
    assert document["balance"] == Decimal128("12.50")
    assert (document["status"], document["level"], document["token"]) == ("done", 2, str(UUID(int=5)))
    assert document["former"] == [{"city": "Köln", "zip": "50667"}]
    assert validate(model_from_class(Customer), document) == document
    assert from_document(Customer, document) == FULL


@given(
    st.builds(
        Customer,
        name=st.text(max_size=5),
        email=st.text(max_size=5),
        id=st.just(ID),
        age=st.none() | st.integers(-(2**63), 2**63 - 1),
        balance=st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**9), max_value=10**9),
        joined=st.none() | st.just(MOMENT),
        owner=st.none(),
        address=st.none() | st.builds(Address, city=st.text(max_size=3)),
        extra=st.dictionaries(st.sampled_from("ab"), st.integers(-9, 9) | st.text(max_size=2)),
        score=st.floats(allow_nan=False),
    )
)
def test_any_instance_comes_back(customer: Customer) -> None:
    document = validate(model_from_class(Customer), to_document(customer))
    assert from_document(Customer, document) == customer


@pytest.mark.parametrize("identity", ["", None])
def test_an_empty_id_is_left_to_be_made(identity: str | None) -> None:
    line = Line(Decimal(1), id=identity)
    document = to_document(line)
    assert "_id" not in document
    made = new_document(model_from_class(Line), document, clock=ManualClock(), chance=SeededChance(1))
    assert from_document(Line, made).id == made["_id"]


def test_structs_and_typed_dicts_come_back() -> None:
    line = Line(Decimal("1.5"), id=ID, sold_at=MOMENT, amount=Decimal128("2.0"))
    assert to_document(line) == {
        "_id": ID,
        "unitPrice": Decimal128("1.5"),
        "soldAt": MOMENT,
        "amount": Decimal128("2.0"),
    }
    assert from_document(Line, to_document(line)) == line
    invoice: Invoice = {"id": ID, "number": 5, "lines": [Address("Bonn")]}
    converter = Converter(Invoice)
    document = converter.to_document(invoice)
    assert document == {"_id": ID, "number": 5, "lines": [{"city": "Bonn", "zip": None}]}
    assert converter.from_document({**document, "unknown": 1}) == invoice


def test_nullable_attributes_without_default_may_be_missing() -> None:
    @dataclass
    class Loose:
        id: str
        nick: str | None

    assert from_document(Loose, {"_id": "a"}) == Loose("a", None)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"_id": "a", "name": "x"}, "email"),
        ({"_id": "a", "name": 5, "email": ""}, "name"),
        ({"name": "", "email": "", "owner": 5}, "ObjectId"),
    ],
)
def test_documents_that_do_not_fit_are_refused(document: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        from_document(Customer, document)


class LikePydantic:
    """Speaks the part of pydantic's protocol that is used; pydantic itself is not a dependency."""

    model_fields: ClassVar[dict[str, Any]] = {
        "id": SimpleNamespace(
            annotation=str, alias=None, default=None, default_factory=None, is_required=lambda: False
        ),
        "name": SimpleNamespace(
            annotation=str, alias=None, default=None, default_factory=None, is_required=lambda: True
        ),
        "age": SimpleNamespace(
            annotation=int, alias="years", default=3, default_factory=None, is_required=lambda: False
        ),
        "tags": SimpleNamespace(
            annotation=list[str], alias=None, default=None, default_factory=list, is_required=lambda: False
        ),
    }

    def __init__(self, **values: Any) -> None:
        self.values = values
        for name, info in self.model_fields.items():
            if (info.alias or name) in values:
                setattr(self, name, values[info.alias or name])

    @classmethod
    def model_validate(cls, values: dict[str, Any]) -> LikePydantic:
        if "name" not in values:
            raise ValueError("1 validation error\nname: field required")
        return cls(**values)


def test_the_protocol_of_pydantic() -> None:
    model = model_from_class(LikePydantic)
    assert model.to_json()["fields"] == {
        "name": {"type": "string", "required": True},
        "years": {"type": "integer", "default": 3},
        "tags": {"type": "array", "items": {"type": "string"}},
    }
    document = to_document(LikePydantic(id=ID, name="x", years=5))
    assert document == {"_id": ID, "name": "x", "years": 5}
    assert from_document(LikePydantic, document).values == {"id": ID, "name": "x", "years": 5}
    with pytest.raises(ValidationError, match="validation error name: field required"):
        from_document(LikePydantic, {"_id": ID})


@pytest.mark.parametrize("kind", ["dataclass", "struct"])
def test_a_class_is_read_before_its_first_document(kind: str) -> None:
    """msgspec crashes if two threads make it read a class at once, so one thread does it, when the model is made."""

    @dataclass
    class Customer:
        name: str
        id: str = ""

    class Order(msgspec.Struct):
        name: str
        id: str = ""

    converter: Converter[Any] = Converter(Customer if kind == "dataclass" else Order)
    called: list[str] = []
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name))
    try:
        made = converter.from_document({"_id": "a", "name": "Ada"})
    finally:
        sys.setprofile(None)
    assert (made.id, made.name) == ("a", "Ada")
    assert "from_document" in called
    assert [name for name in called if name in {"get_class_annotations", "get_dataclass_info"}] == []
