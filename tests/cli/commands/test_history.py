"""worm history, diff, rollback and snapshot: the past of a document from a shell."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click
import pytest
from bson import ObjectId

import wormdb
from tests.cli.printed import Printed, worm
from wormdb.cli.input.document import readings
from wormdb.cli.main import run
from wormdb.cli.show.changes import FieldChange, field_changes
from wormdb.schema.load import load_model

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {"path": "#org/@customers/(id:string)", "snapshots": {"enabled": True}},
        "Invoice": {"path": "#org/@invoices/(id:seq)"},
        "Settings": {"path": "#org/@settings/[settings].json"},
        "User": {"path": "#org/(tenant:slug)/@users/(id:slug)"},
    },
}


@pytest.fixture
def url(memory: str) -> str:
    with wormdb.connect(memory, schema=SCHEMA, apply=True) as database:
        customers = database.model("Customer")
        acme = customers.insert(
            {"id": "acme", "name": "Acme", "address": {"city": "Rome", "zip": 5}, "old": 1}, actor="user:ada"
        )
        acme["name"], acme["address"]["city"] = "Acme Inc", "Oslo"
        del acme["old"]
        customers.save(acme)
        customers.delete("acme", metadata={"ticket": 4711})
        database.model("Invoice").insert({"total": 3})
        database.model("Settings").save({"theme": "dark"})
        database.model("User", tenant="x").insert({"id": "bob"})
        database["notes"].insert_many([{"id": 1, "n": 1}, {"id": "1", "n": 2}, {"id": 7, "n": 3}])
    return memory


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A terminal that gives these answers, the last one first; none at the beginning."""
    answers: list[bool] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: answers.pop())
    return answers


def at(url: str, *arguments: str) -> Printed:
    return worm(*arguments, "--url", url)


def without_times(printed: Printed) -> str:
    return "\n".join(line for line in printed.timeless.splitlines() if "createdAt" not in line)


def test_every_change_with_what_it_did(url: str) -> None:
    assert without_times(at(url, "history", "Customer", "acme")) == (
        "Customer acme: 3 changes\n"
        "1  create  2026-02-24T14:30:00Z  user:ada\n"
        '  + name       "Acme"\n'
        '  + address    {"city":"Rome","zip":5}\n'
        "  + old        1\n"
        "2  update  2026-02-24T14:30:00Z  --\n"
        '  ~ name          "Acme" → "Acme Inc"\n'
        '  ~ address.city  "Rome" → "Oslo"\n'
        "  - old           1\n"
        '3  delete  2026-02-24T14:30:00Z  --        {"ticket":4711}\n'
        '  - name       "Acme Inc"\n'
        '  - address    {"city":"Oslo","zip":5}'
    )


def test_the_newest_and_the_model_left_out(url: str) -> None:
    printed = at(url, "history", "acme", "--limit", "1")
    assert printed.lines[0] == "Customer acme: 1 of 3 changes"
    assert printed.lines[1].startswith("3  delete")
    assert at(url, "history", "acme", "--model", "Customer").lines[0] == "Customer acme: 3 changes"


def test_for_programs(url: str) -> None:
    created, updated, deleted = json.loads(at(url, "history", "Customer", "acme", "--json").text)
    assert (created["seq"], created["op"], created["actor"], created["snapshot"]["name"]) == (
        1,
        "create",
        "user:ada",
        "Acme",
    )
    assert updated["diff"]["address"] == [{"city": "Rome", "zip": 5}, {"city": "Oslo", "zip": 5}]
    assert "snapshot" not in updated
    assert (deleted["metadata"], deleted["ts"][-1]) == ({"ticket": 4711}, "Z")


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (["Settings"], "Settings singleton: 1 change"),
        (["Invoice", "0000000001"], "Invoice 0000000001: 1 change"),
        (["org/x/users", "bob"], "org/x/users bob: 1 change"),
        (["notes", "7"], "notes 7: 1 change"),
        (["notes", "%i1"], "notes 1: 1 change"),
        (["notes", '"1"'], "notes 1: 1 change"),
    ],
)
def test_ids_as_people_write_them(url: str, words: list[str], head: str) -> None:
    assert at(url, "history", *words).lines[0] == head


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["notes", "1"], 2, "'1' is the id of 2 documents (write one of: notes '\"1\"'; notes %i1)"),
        (["Customer", "nix"], 1, "No history of Customer 'nix'"),
        (["nix"], 1, "no document of Customer, Invoice ever had this id"),
        (["Invoice", "abc"], 2, "'abc' is not a seq"),
        (["Costumer", "acme"], 2, "Customer"),
        (["Customer", "acme", "more"], 2, "too many words"),
        (["Customer", "acme", "--model", "Customer"], 2, "MODEL is given twice"),
    ],
)
def test_what_names_no_document(url: str, words: list[str], code: int, text: str) -> None:
    printed = at(url, "history", *words)
    assert (printed.code, printed.errors.count("\n")) == (code, 1)
    assert text in printed.errors


def test_readings_of_an_id() -> None:
    oid, uuid = "65f0a1b2c3d4e5f60718293a", "6f1c2b9e-83d4-4a57-b0ec-5d9a7f3e1c28"
    assert readings("7", None) == ["7", 7]
    assert readings("1e3", None) == ["1e3", 1000.0]
    assert readings(oid, None) == [oid, ObjectId(oid)]
    assert [type(value).__name__ for value in readings(uuid, None)] == ["str", "Binary"]
    assert readings("a%2Fb", None) == ["a%2Fb", "a/b"]
    assert readings("50%", None) == ["50%"]
    assert readings('{"$oid": "' + oid + '"}', None) == [ObjectId(oid)]
    assert readings("99999999999999999999", None) == ["99999999999999999999"]
    text_only = load_model("M", {"path": "@m/(id:string)"})
    assert readings("7", text_only) == ["7"]
    assert readings("7", load_model("M", {"path": "@m/(id:any)"})) == ["7", 7]


def test_differences_go_into_objects_and_know_types() -> None:
    diff = {"a": ({"b": 1, "c": {"d": 1}}, {"b": 1.0, "c": {"d": 1, "e": 2}}), "x": (None, 1), "y": ([1], [2])}
    assert list(field_changes(diff)) == [
        FieldChange("a.b", 1, 1.0),
        FieldChange("a.c.e", None, 2),
        FieldChange("x", None, 1),
        FieldChange("y", [1], [2]),
    ]


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("setting", "is_coloured"), [("", True), ("1", False)])
def test_colours_on_a_terminal_only(url: str, monkeypatch: pytest.MonkeyPatch, setting: str, is_coloured: bool) -> None:
    monkeypatch.setenv("NO_COLOR", setting)
    with redirect_stdout(_Terminal(io.BytesIO(), encoding="utf-8")) as stream:
        assert run(["diff", "Customer", "acme", "1", "2", "--url", url]) == 0
        stream.flush()
        text = stream.buffer.getvalue().decode()  # type: ignore[attr-defined] # it is the BytesIO above
    assert ("\x1b[31m" in text, "\x1b[32m" in text) == (is_coloured, is_coloured)
    assert "\x1b" not in at(url, "diff", "Customer", "acme", "1", "2").text


def test_text_cannot_write_to_the_terminal(url: str) -> None:
    with wormdb.connect(url) as database:
        database["notes"].insert({"id": "evil", "\x1b[31m": "\x1b]0;title\x07\x9b"})
    assert at(url, "history", "notes", "evil").lines[-1] == '  + ·[31m  "\\u001b]0;title\\u0007·"'


def test_diff_of_two_versions(url: str) -> None:
    printed = at(url, "diff", "acme", "2", "1", "--model", "Customer")
    assert printed.lines == [
        "Customer acme: 2 → 1",
        '  ~ name          "Acme Inc" → "Acme"',
        '  ~ address.city  "Oslo" → "Rome"',
        "  + old           1",
    ]
    assert json.loads(at(url, "diff", "Customer", "acme", "1", "2", "--json").text)["old"] == [1, None]
    assert at(url, "diff", "acme", "1", "1").text == "Customer acme: 1 → 1, no difference\n"
    assert at(url, "diff", "acme", "1").code == 2
    assert "choose 1 to 3" in at(url, "diff", "acme", "1", "9").errors


def test_rollback_shows_asks_and_does(url: str, terminal: list[bool]) -> None:
    terminal += [True, False]
    refused = at(url, "rollback", "acme", "--to", "1")
    assert (refused.code, refused.errors) == (1, "nothing was changed\n")
    assert '  + name       "Acme"' in refused.lines
    done = at(url, "rollback", "acme", "--to", "1", "--actor", "user:eve")
    assert (done.code, done.lines[-1]) == (0, "rolled back: change 4")
    with wormdb.connect(url) as database:
        entry = database.model("Customer").get_history("acme")[-1]
        assert (entry.op, entry.actor, entry.metadata) == ("restore", "user:eve", {"rollbackTo": 1})
    again = at(url, "rollback", "acme", "--to", "1")
    assert (again.code, again.errors) == (0, "Customer acme: nothing differs from 1, nothing was changed\n")
    assert at(url, "history", "acme").lines[0] == "Customer acme: 4 changes"


def test_rollback_over_a_live_document_shows_what_it_changed(url: str) -> None:
    assert at(url, "rollback", "acme", "--to", "2", "--yes").code == 0
    printed = at(url, "rollback", "acme", "--to", "1", "--yes", "--json")
    assert json.loads(printed.text)["old"] == 1
    assert at(url, "history", "acme", "--limit", "1").lines[2:] == [
        '  ~ name          "Acme Inc" → "Acme"',
        '  ~ address.city  "Oslo" → "Rome"',
        "  + old           1",
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--to", "1"], 2, "there is no terminal to ask for confirmation (add --yes)"),
        (["--to", "3", "--yes"], 2, "Cannot roll back to seq 3: entity was deleted"),
        (["--to", "9", "--yes"], 1, "No oplog entry 9"),
        (["--to", "0"], 2, "--to"),
        ([], 2, "Missing option '--to'"),
    ],
)
def test_rollback_refused_before_anything_is_written(url: str, arguments: list[str], code: int, text: str) -> None:
    printed = at(url, "rollback", "acme", *arguments)
    assert printed.code == code
    assert text in printed.errors
    assert at(url, "history", "acme").lines[0] == "Customer acme: 3 changes"


def test_whoever_says_yes_says_it_to_what_was_shown(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(*_: object, **__: object) -> bool:
        with wormdb.connect(url) as database:
            database.model("Customer").insert({"id": "acme", "name": "another"})
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click, "confirm", meanwhile)
    printed = at(url, "rollback", "acme", "--to", "1")
    assert printed.code == 1
    assert "another writer changed it meanwhile" in printed.errors
    with wormdb.connect(url) as database:
        found = database.model("Customer").find_by_id("acme")
        assert found is not None
        assert found["name"] == "another"


def test_snapshots(url: str, terminal: list[bool]) -> None:
    assert at(url, "snapshot", "list", "acme").text == "Customer acme: no snapshots\n"
    assert "worm snapshot take" in at(url, "snapshot", "restore", "acme").errors
    assert at(url, "snapshot", "take", "acme").code == 1
    for seq in ("1", "2"):
        assert at(url, "rollback", "acme", "--to", seq, "--yes").code == 0
        assert at(url, "snapshot", "take", "Customer", "acme").code == 0
    first, second = json.loads(at(url, "snapshot", "list", "acme", "--json").text)
    assert (first["seq"], second["seq"], first["manual"]) == (4, 5, True)
    assert at(url, "snapshot", "list", "acme").lines[0].split() == ["Taken", "Seq", "Size", "By"]
    same = at(url, "snapshot", "restore", "acme")
    assert (same.code, "nothing differs" in same.errors) == (0, True)
    terminal += [True, False]
    assert at(url, "snapshot", "restore", "Customer", "acme", first["ts"]).code == 1
    done = at(url, "snapshot", "restore", "acme", first["ts"].removesuffix("000Z") + "Z")
    assert (done.code, done.lines[-1]) == (0, "restored: change 6")
    assert at(url, "snapshot", "restore", "acme", "2020-01-01T00:00:00Z").code == 1


def test_reading_commands_write_nothing(url: str) -> None:
    def numbers() -> list[int]:
        with wormdb.connect(url) as database:
            return [each.number for each in database.status(database.collections())]

    before = numbers()
    for arguments in (["history", "acme"], ["diff", "acme", "1", "2"], ["snapshot", "list", "acme"]):
        assert at(url, *arguments).code == 0
    assert numbers() == before


def test_files_of_another_program_have_no_history_yet(tmp_path: Path) -> None:
    """What they have no answer for says so; what can be told of them is told."""
    model = {"path": "@customers/(id:string)/[customer].json", "mode": "readonly"}
    place = tmp_path / "feed"
    (place / "customers/ada").mkdir(parents=True)
    (place / "customers/ada/customer.json").write_text('{"id": "ada", "name": "Ada"}')
    (place / ".worm.schema.json").write_text(json.dumps({**SCHEMA, "models": {"Customer": model}}))
    for words in (["history", "ada"], ["history", "Customer", "ada"], ["trash", "list", "Customer"]):
        printed = at(str(place), *words)
        assert printed.code == 2
        assert "Customer has no log" in printed.errors
    assert at(str(place), "table", "list").lines[-1].split() == ["Customer", "1", "n/a", "--", "--"]
    assert "not known: another program keeps the files" in at(str(place), "table", "inspect", "Customer").text
    described = json.loads(at(str(place), "table", "inspect", "Customer", "--json").text)
    assert described["collection"] == {"count": 1, "sizeBytes": None, "lastUpdated": None}
