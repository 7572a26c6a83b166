"""Models from real pydantic classes: defaults, nested classes, dates, and documents that do not fit."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

import pytest
from pydantic import BaseModel, Field

import wormdb


class Tier(Enum):
    BASIC = "basic"
    GOLD = "gold"


class Address(BaseModel):
    city: str
    zip_code: str | None = None


class Customer(BaseModel):
    name: str
    tier: Tier = Tier.BASIC
    tags: list[str] = Field(default_factory=list)
    address: Address | None = None
    since: datetime | None = None
    id: str = ""


def test_instances_go_in_and_come_out() -> None:
    with wormdb.connect("memory://") as db:
        customers = db.model(Customer)
        given = Customer(
            name="Ada", tier=Tier.GOLD, address=Address(city="Turin"), since=datetime(2026, 1, 2, tzinfo=UTC)
        )
        ada = customers.insert(given)
        assert ada.id
        assert customers.find_by_id(ada.id) == given.model_copy(update={"id": ada.id})
        ada.tags.append("vip")
        assert customers.save(ada).tags == ["vip"]
        assert customers.modify(ada.id, lambda it: it.model_copy(update={"name": "Ada L."})).name == "Ada L."
        assert [customer.name for customer in customers] == ["Ada L."]


def test_what_does_not_fit_the_class_is_refused() -> None:
    with wormdb.connect("memory://") as db:
        customers = db.model(Customer)
        with pytest.raises(wormdb.ValidationError, match="name"):
            customers.insert({"tier": "gold"})
        with pytest.raises(wormdb.ValidationError, match="tier"):
            customers.insert({"name": "Bob", "tier": "silver"})
        assert customers.count() == 0
