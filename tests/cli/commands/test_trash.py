"""worm trash: what was deleted, and the ways out; worm table of the past."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest

import wormdb
from tests.cli.printed import Printed, worm
from wormdb.system.clock import ManualClock, SystemClock

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {"path": "#org/@customers/(id:string)", "softDelete": {"ttl": 30}},
        "Invoice": {"path": "#org/@invoices/(id:seq)"},
    },
}
DAY_MS = 86_400_000


@pytest.fixture
def url(memory: str) -> str:
    """Three customers in the trash: one whose time is over, one that was just deleted, and one that is alive again."""
    long_ago = ManualClock(SystemClock().now_ms() - 40 * DAY_MS)
    with wormdb.connect(memory, schema=SCHEMA, apply=True, clock=long_ago) as database:
        customers = database.model("Customer")
        customers.insert_many([{"id": "ada"}, {"id": "bob"}, {"id": "cyd"}])
        long_ago.advance(1)
        customers.delete("ada", actor="user:eve")
    with wormdb.connect(memory) as database:
        database.model("Customer").delete("bob")
    return memory


def at(url: str, *arguments: str) -> Printed:
    return worm(*arguments, "--url", url)


def no_to_all(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A terminal that answers no; what it is asked."""
    asked: list[str] = []

    def refuse(question: str, **_: object) -> bool:
        asked.append(question)
        return False

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", refuse)
    return asked


def ids(url: str) -> list[str]:
    return [each["id"] for each in json.loads(at(url, "trash", "list", "--json").text)]


def test_list(url: str) -> None:
    assert at(url, "trash", "list", "Customer").timeless.splitlines() == [
        "Id   Deleted               By        Expires",
        "---  --------------------  --------  --------------------",
        "ada  2026-02-24T14:30:00Z  user:eve  2026-02-24T14:30:00Z",
        "bob  2026-02-24T14:30:00Z  --        2026-02-24T14:30:00Z",
    ]
    ada, _ = json.loads(at(url, "trash", "list", "--json").text)
    assert (ada["deletedBy"], ada["document"]["id"], ada["expiresAt"][-1]) == ("user:eve", "ada", "Z")


def test_restore(url: str) -> None:
    assert at(url, "trash", "restore", "ada").text == "restored Customer ada\n"
    assert ids(url) == ["bob"]
    assert json.loads(at(url, "trash", "restore", "Customer", "bob", "--json").text)["id"] == "bob"
    assert at(url, "trash", "list").text == "the trash is empty\n"
    assert at(url, "trash", "restore", "bob").code == 1


def test_purge_asks(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    piped = at(url, "trash", "purge", "ada")
    assert (piped.code, "add --yes" in piped.errors) == (2, True)
    asked = no_to_all(monkeypatch)
    assert at(url, "trash", "purge", "ada").code == 1
    assert asked == ["Purge Customer ada for good?"]
    assert ids(url) == ["ada", "bob"]
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    assert at(url, "trash", "purge", "ada").text == "purged 1 document (ada)\n"
    assert ids(url) == ["bob"]
    assert at(url, "history", "ada", "--limit", "1").lines[1].startswith("3  purge")


def test_what_is_alive_is_not_purged(url: str) -> None:
    printed = at(url, "trash", "purge", "cyd", "--yes")
    assert printed.code == 1
    assert "it is not in the trash" in printed.errors


def test_purge_expired(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert at(url, "trash", "purge-expired").code == 2
    asked = no_to_all(monkeypatch)
    assert at(url, "trash", "purge-expired").code == 1
    assert asked == ["Purge 1 document (ada) of Customer for good?"]
    assert json.loads(at(url, "trash", "purge-expired", "Customer", "--yes", "--json").text) == {"purged": ["ada"]}
    assert at(url, "trash", "purge-expired", "Customer").text == "nothing is expired\n"
    assert ids(url) == ["bob"]


def test_a_model_without_a_trash(url: str) -> None:
    assert "Soft delete is not enabled for Invoice" in at(url, "trash", "list", "Invoice").errors


def test_no_model_is_named_and_several_could_be(memory: str) -> None:
    assert "no model of the schema has a trash" in at(memory, "trash", "list").errors
    models = {name: {"path": f"@{name}/(id:string)", "softDelete": True} for name in ("A", "B")}
    with wormdb.connect(memory, schema={**SCHEMA, "models": models}, apply=True):
        pass
    assert "A, B have a trash" in at(memory, "trash", "list").errors


def test_tables_of_the_past(url: str) -> None:
    """Deleted documents are there again, in every command that reads a table."""
    with wormdb.connect(url) as database:
        past = database.model("Customer").get_history("ada")[0].ts.isoformat()
    assert at(url, "table", "query", "Customer", "--as-of", past, "--count").text == "3\n"
    assert json.loads(at(url, "table", "aggregate", "Customer", "--as-of", past, "--json").text) == {"count": 3}
    assert len(at(url, "table", "export", "Customer", "--as-of", past).lines) == 3
    assert at(url, "table", "inspect", "Customer", "--as-of", past).lines[-1].split() == ["Count:", "3"]
    inspected = json.loads(at(url, "table", "inspect", "Customer", "--as-of", "2", "--json").text)
    assert inspected["collection"] == {"count": 3}
    assert at(url, "table", "list", "--as-of", past).lines[2].split() == ["Customer", "3"]
    listed = json.loads(at(url, "table", "list", "--as-of", past[:10], "--json").text)
    assert [each["count"] for each in listed] == [None, None]
    assert at(url, "table", "list", "--as-of", "2").code == 2
