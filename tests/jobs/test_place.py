"""A process that stays has the schema that is published now, not the one of its first job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import NotFoundError
from wormdb.jobs.place import Where

if TYPE_CHECKING:
    from pathlib import Path


def schema(**models: dict[str, Any]) -> dict[str, Any]:
    """Models by their fields, each in a folder of its name."""
    return {
        "schemaVersion": "1.0",
        "models": {name: {"path": f"@{name}/(id:string)", "fields": fields} for name, fields in models.items()},
    }


def publish(url: str, **models: dict[str, Any]) -> None:
    wormdb.connect(url, schema=schema(**models), apply=True).close()


def test_a_model_that_came_later_is_found(tmp_path: Path) -> None:
    url = str(tmp_path)
    first, second = Where.named(url, "First"), Where.named(url, "Second")
    publish(url, First={"n": {"type": "integer"}})
    assert first.handle().count() == 0
    with pytest.raises(NotFoundError, match="Unknown model: Second"):
        second.handle()
    publish(url, First={"n": {"type": "integer"}}, Second={"n": {"type": "integer"}})
    assert second.handle().count() == 0


def test_a_model_that_has_changed_is_the_one_that_jobs_write_by(tmp_path: Path) -> None:
    url = str(tmp_path)
    where = Where.named(url, "First")
    publish(url, First={"n": {"type": "integer"}})
    where.handle().insert({"id": "a", "n": 1})
    publish(url, First={"n": {"type": "integer"}, "text": {"type": "string"}})
    model = where.access().writer.model
    assert model is not None
    assert "text" in model.fields
    where.handle().insert({"id": "b", "n": 2, "text": "two"})
    assert where.handle().count() == 2


def test_who_asks_only_for_the_log_asks_once_for_the_schema(tmp_path: Path) -> None:
    where = Where.named(str(tmp_path), "First")
    publish(where.url, First={"n": {"type": "integer"}})
    where.access(renews=False)
    before = where.open().cost()
    where.access(renews=False)
    assert where.open().cost() == before
    where.access()
    assert where.open().cost() != before
