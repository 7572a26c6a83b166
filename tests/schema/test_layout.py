"""System folders in the three layouts, with overrides and names that collide."""

from __future__ import annotations

from typing import Any

import pytest

from wormdb.errors import InvalidRequestError
from wormdb.schema.layout import StorageResolver
from wormdb.schema.load import load_schema

MODELS = {
    "Customer": "#org/@customers/(id:string)/[profile].json",
    "Archived": "#archive/@customers/(id:string)/[profile].json",
    "User": "#org/(tenant:slug)/@users/(id:string)/[user].json",
    "Settings": "#org/@settings/[settings].json",
}


def resolver(storage: dict[str, str], models: dict[str, str] | None = None, **taken: Any) -> StorageResolver:
    schema = load_schema(
        {"models": {name: {"path": path} for name, path in (models or MODELS).items()}, "storage": storage}
    )
    return StorageResolver(schema, **taken)


@pytest.mark.parametrize(
    ("layout", "oplog", "snapshots", "trash"),
    [
        ("root", ".oplog/customers/abc-123/", ".snapshots/customers/abc-123/", ".worm.trash/customers/abc-123/"),
        (
            "collection",
            "org/customers/.oplog/abc-123/",
            "org/customers/.snapshots/abc-123/",
            "org/customers/.worm.trash/abc-123/",
        ),
        (
            "inline",
            "org/customers/abc-123/.oplog/",
            "org/customers/abc-123/.snapshots/",
            "org/customers/abc-123/.worm.trash/",
        ),
    ],
)
def test_layouts_of_the_seed(layout: str, oplog: str, snapshots: str, trash: str) -> None:
    paths = resolver({"layout": layout})
    assert paths.oplog_path("Customer", "abc-123") == oplog
    assert paths.snapshot_path("Customer", "abc-123") == snapshots
    assert paths.trash_path("Customer", "abc-123") == trash


def test_overrides_win() -> None:
    paths = resolver({"layout": "root", "snapshots": "inline", "trash": "collection"})
    assert paths.oplog_path("Customer", "a") == ".oplog/customers/a/"
    assert paths.snapshot_path("Customer", "a") == "org/customers/a/.snapshots/"
    assert paths.trash_path("Customer", "a") == "org/customers/.worm.trash/a/"


def test_the_second_collection_of_a_name_uses_its_full_path() -> None:
    paths = resolver({"layout": "root"})
    assert paths.oplog_path("Customer", "a") == ".oplog/customers/a/"
    assert paths.oplog_path("Archived", "a") == ".oplog/archive/customers/a/"
    assert paths.taken_names == {"customers": "org/customers/", "settings": "org/settings/"}


def test_who_has_a_name_keeps_it_when_the_schema_changes() -> None:
    first = resolver({"layout": "root"}, {"Archived": MODELS["Archived"]})
    assert first.oplog_path("Archived", "a") == ".oplog/customers/a/"
    later = resolver({"layout": "root"}, MODELS, taken_names=first.taken_names)
    assert later.oplog_path("Archived", "a") == ".oplog/customers/a/"
    assert later.oplog_path("Customer", "a") == ".oplog/org/customers/a/"


def test_collections_below_outer_segments_use_their_full_path() -> None:
    paths = resolver({"layout": "root"})
    assert paths.oplog_path("User", "u", {"tenant": "a"}) == ".oplog/org/a/users/u/"
    assert resolver({"layout": "inline"}).oplog_path("User", "u", {"tenant": "a"}) == "org/a/users/u/.oplog/"


def test_singletons() -> None:
    assert resolver({"layout": "inline"}).oplog_path("Settings") == "org/settings/.oplog/"
    assert resolver({"layout": "collection"}).trash_path("Settings") == "org/settings/.worm.trash/singleton/"
    assert resolver({"layout": "root"}).snapshot_path("Settings", "any") == ".snapshots/settings/singleton/"


def test_ids_are_encoded() -> None:
    assert resolver({"layout": "root"}).oplog_path("Customer", "../x") == ".oplog/customers/%2E.%2Fx/"


def test_unknown_models_and_missing_outer_values() -> None:
    with pytest.raises(InvalidRequestError, match=r"Unknown model: Custmer.*did you mean 'Customer'"):
        resolver({}).oplog_path("Custmer", "a")
    with pytest.raises(InvalidRequestError, match="tenant"):
        resolver({}).oplog_path("User", "a")
