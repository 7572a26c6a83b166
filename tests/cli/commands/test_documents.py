"""worm get, put, insert, update, delete and watch: documents from a shell."""

from __future__ import annotations

import io
import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings

import wormdb
from tests.cli.printed import Printed, fill, worm
from wormdb.format import json as stored
from wormdb.testing.strategies import documents

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def notes(memory: str) -> str:
    with wormdb.connect(memory) as database:
        database["notes"].insert_many(
            [{"id": "a", "n": 1}, {"id": "b", "n": 2}, {"id": 7, "n": 3}, {"id": "7", "n": 4}]
        )
    return memory


def done(url: str, *arguments: str) -> Printed:
    """What a command line prints; it must succeed."""
    printed = worm(*arguments, "--url", url)
    assert printed.code == 0, printed.errors
    return printed


def refused(code: int, message: str, url: str, *arguments: str) -> None:
    """A command line fails with one line that holds `message`."""
    printed = worm(*arguments, "--url", url)
    assert (printed.code, printed.data) == (code, b""), printed
    assert message in printed.errors
    assert printed.errors.count("\n") == 1


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))


def test_a_document_is_printed_and_taken_back(notes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = done(notes, "get", "notes", "a")
    assert json.loads(printed.text) == {"id": "a", "n": 1}
    changed = printed.text.replace('"n": 1', '"n": 9').encode()
    piped(monkeypatch, changed)
    assert done(notes, "put", "notes").text == "a at revision 2\n"
    with wormdb.connect(notes) as database:
        assert database["notes"].find_by_id("a") == {"id": "a", "n": 9}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_what_get_prints_is_what_put_takes(memory: str, document: dict[str, Any]) -> None:
    with wormdb.connect(memory) as database:
        values = {name: value for name, value in document.items() if name != "_id"}
        kept = database["things"].save({**values, "id": "x"})
    printed = done(memory, "get", "things", "x")
    assert done(memory, "put", "copies", printed.text).code == 0
    with wormdb.connect(memory) as database:
        copy = database["copies"].find_by_id("x")
    assert copy is not None
    assert stored.encode(dict(copy)) == stored.encode(dict(kept))


def test_an_id_may_be_read_in_several_ways(notes: str) -> None:
    refused(2, "is the id of 2 documents", notes, "get", "notes", "7")
    assert json.loads(done(notes, "get", "notes", '"7"').text)["n"] == 4
    assert json.loads(done(notes, "get", "notes", "%i7").text)["n"] == 3
    refused(1, "does not exist", notes, "get", "notes", "zz")


def test_each_form_that_an_error_offers_for_an_id_means_that_one(memory: str) -> None:
    ids = [17, "17", 17.5, "17.5"]
    with wormdb.connect(memory) as db:
        db["odd"].insert_many([{"id": each, "is": f"{each!r}"} for each in ids])
    for text in ("17", "17.5"):
        printed = worm("get", "odd", text, "--url", memory)
        assert printed.code == 2
        forms = shlex.split(printed.errors.partition("write one of: ")[2].rstrip(")\n").replace(";", ""))
        assert len(forms) == 2
        found = {json.loads(worm("get", "odd", form, "--url", memory).text)["is"] for form in forms}
        assert found == {f"{each!r}" for each in ids if str(each) == text}


def test_plain_json_has_no_types_of_its_own(memory: str) -> None:
    text = '{"id": "t", "at": {"$date": "2026-01-02T03:04:05Z"}, "d": {"$numberDecimal": "1.50"}, "in": [{"x": null}]}'
    done(memory, "insert", "notes", text)
    assert json.loads(done(memory, "get", "notes", "t", "--plain").text) == {
        "id": "t",
        "at": "2026-01-02T03:04:05.000Z",
        "d": "1.50",
        "in": [{"x": None}],
    }


def test_a_document_of_the_past(notes: str) -> None:
    done(notes, "put", "notes", '{"id": "a", "n": 100}')
    assert json.loads(done(notes, "get", "notes", "a", "--as-of", "1").text)["n"] == 1


@pytest.mark.parametrize(
    "given", ['{"id": "x"}\n{"id": "y"}\n', '[{"id": "x"}, {"id": "y"}]', '\n{"id": "x"}\n\n{"id": "y"}']
)
def test_documents_come_as_a_list_or_one_a_line(memory: str, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    piped(monkeypatch, given.encode())
    assert done(memory, "insert", "things").lines == ["x", "y"]
    with wormdb.connect(memory) as database:
        assert [change.number for change in database["things"].watch()] == [1, 1], "all of them or none"


def test_documents_come_from_a_file(memory: str, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text('{"id": "f"}')
    assert json.loads(done(memory, "insert", "things", f"@{file}", "--json").text) == {"ids": ["f"]}
    refused(2, "cannot be read", memory, "insert", "things", f"@{tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("17", "a document is a JSON object"),
        ('{"id": ', "line 1"),
        ('{"id": "x"}\n{"id" "y"}', "line 2"),
        ("[]", "the list is empty"),
        ('{"id": "a"}', "it exists already"),
    ],
)
def test_what_cannot_be_inserted_is_told_and_nothing_is(notes: str, body: str, message: str) -> None:
    code = 1 if "exists" in message else 2
    refused(code, message, notes, "insert", "notes", body)
    with wormdb.connect(notes) as database:
        assert database["notes"].count() == 4


def test_put_of_a_revision_that_passed_is_refused(notes: str) -> None:
    done(notes, "put", "notes", '{"id": "a", "n": 5}', "--if-rev", "1")
    refused(1, "it changed since", notes, "put", "notes", '{"id": "a", "n": 6}', "--if-rev", "1")
    refused(2, "the command takes one", notes, "put", "notes", '[{"id": "a"}, {"id": "b"}]')


def test_updates_by_id_by_filter_and_of_all(notes: str) -> None:
    assert done(notes, "update", "notes", "a", '{"$inc": {"n": 10}}').text == "1 document found, 1 changed\n"
    counts = json.loads(done(notes, "update", "notes", '{"$set": {"big": true}}', "--filter", "n>3", "--json").text)
    assert (counts["matched"], counts["modified"]) == (2, 2)
    assert done(notes, "update", "notes", '{"$set": {"big": true}}', "--all").text == "4 documents found, 2 changed\n"
    refused(1, "does not exist", notes, "update", "notes", "zz", '{"$inc": {"n": 1}}')
    assert done(notes, "update", "hits", "zz", '{"$inc": {"n": 1}}', "--upsert").text == "inserted zz\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", '{"n": 1}'), "an update is an object of operators"),
        (('{"$set": {"n": 1}}',), "Name one ID, or --filter, or --all"),
        (("a", '{"$set": {"n": 1}}', "--all"), "Name one ID, or --filter, or --all"),
        (('{"$set": {"n": 1}}', "--all", "--upsert"), "--upsert needs an ID"),
        (("a", "b", '{"$set": {"n": 1}}'), "Too many arguments"),
        (("a", '{"$frob": {"n": 1}}'), "$frob"),
    ],
)
def test_an_update_that_cannot_be_meant(notes: str, arguments: tuple[str, ...], message: str) -> None:
    refused(2, message, notes, "update", "notes", *arguments)


def test_deletes_are_all_or_none(notes: str) -> None:
    refused(1, "does not exist", notes, "delete", "notes", "a", "zz")
    refused(2, "there is no terminal", notes, "delete", "notes", "--filter", "n>1")
    assert done(notes, "delete", "notes", "a", "b").text == "2 documents deleted\n"
    assert json.loads(done(notes, "delete", "notes", "--all", "--yes", "--json").text)["deleted"] == 2
    refused(2, "Name IDs, or --filter, or --all", notes, "delete", "notes")


def test_a_singleton_needs_no_id(memory: str) -> None:
    fill(memory, 1)
    done(memory, "put", "OrgSettings", '{"theme": "dark"}')
    assert json.loads(done(memory, "get", "OrgSettings").text)["theme"] == "dark"
    refused(2, "Missing argument 'ID'", memory, "get", "Customer")
    refused(2, "has many collections", memory, "insert", "User", "{}")


def test_the_log_is_shown_line_by_line_and_goes_on_at_a_mark(notes: str) -> None:
    done(notes, "delete", "notes", "a", "--actor", "ada")
    changes = [json.loads(line) for line in done(notes, "watch", "notes", "--no-follow").lines]
    assert [change["op"] for change in changes] == ["create"] * 4 + ["delete"]
    assert changes[-1]["actor"] == "ada"
    assert changes[-1]["before"] == {"id": "a", "n": 1}
    rest = done(notes, "watch", "notes", "--no-follow", "--after", changes[2]["resume"])
    assert [json.loads(line) for line in rest.lines] == changes[3:]
    assert len(done(notes, "watch", "notes", "--after", "0", "--limit", "2").lines) == 2, "it stops, though it follows"


def test_a_verb_that_was_mistyped_is_told(notes: str) -> None:
    refused(2, "Did you mean 'insert'?", notes, "inser", "notes")
    refused(2, "Did you mean 'query'?", notes, "table", "qery", "notes")
    refused(2, "Did you mean 'table query'?", notes, "query", "notes")
    refused(2, "Did you mean 'table aggregate'?", notes, "agregate", "notes")
    refused(2, "'node list'", notes, "list")


@pytest.mark.parametrize("verb", [("get", "notes", "a"), ("table", "list"), ("status",), ("delete", "notes", "a")])
def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path, verb: tuple[str, ...]) -> None:
    refused(1, "it does not exist", str(tmp_path / "typo"), *verb)
    assert not (tmp_path / "typo").exists()


def test_a_url_in_the_environment_does_not_keep_from_estimating(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORM_URL", "memory://any")
    assert worm("cost", "--documents", "1e6").code == 0
    assert worm("cost", "memory://any").code == 2
