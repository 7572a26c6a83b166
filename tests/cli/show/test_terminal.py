"""Nothing that a database, a file or an argument holds controls the terminal of who looks at it, whatever the verb."""

from __future__ import annotations

import io
import json
import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.cli.main import run
from wormdb.cli.main import worm as root
from wormdb.cli.show.terminal import guarded_terminals, harmless, write_own
from wormdb.cli.show.text import one_line

if TYPE_CHECKING:
    from pathlib import Path

QUICK = wormdb.Settings(forward="manual", forward_interval_ms=0)
EVIL = "\x1b]0;evil\x07\x9b2J\x1b[2K\u202e\u2066\x08\x7f\r\u200b\u2028x"
"""None of it is what we write ourselves."""
BLOB = b"\x1b[2J\x9b" + EVIL.encode()
OWN = re.compile(r"\x1b\[[0-9;]*m|\r\x1b\[K")
BAD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


class FakeTerminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def at_terminal(*arguments: str) -> tuple[int, str]:
    """A command line as it runs where both streams are terminals; its code, and all that came out."""
    raw = io.BytesIO()
    streams = [FakeTerminal(raw, encoding="utf-8", errors="replace", newline="", write_through=True) for _ in "12"]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = run(arguments)
    for stream in streams:
        stream.flush()
    return code, raw.getvalue().decode("utf-8", "replace")


def schema() -> dict[str, Any]:
    customer = {
        "path": "#org/@customers/(id:any)/[profile].json",
        "oplog": True,
        "softDelete": True,
        "snapshots": {"enabled": True},
        "manifest": {"enabled": True, "fields": ["name"]},
        "fields": {"name": {"type": "string"}},
        "indexes": {"byName": {"field": "name"}},
    }
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Customer": customer}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which every name and value that may be so is hostile."""
    folder = tmp_path_factory.mktemp("terminal")
    url = str(folder / "db")
    with wormdb.connect(url, schema=schema(), apply=True, actor=f"{EVIL}actor", settings=QUICK) as database:
        customers = database.model("Customer")
        for name in (f"{EVIL}id", "gone", "other"):
            customers.insert(
                {"id": name, "name": f"{EVIL}name", f"{EVIL}field": [EVIL, {EVIL: 1}]}, metadata={EVIL: EVIL}
            )
        customers.save({"id": f"{EVIL}id", "name": "new", f"{EVIL}new": EVIL})
        customers.snapshot(f"{EVIL}id")
        customers.delete("gone")
        database["notes"].insert({"id": f"{EVIL}id", f"{EVIL}field": EVIL, "n": 1})
        database["notes"].create_index("n")
        database["notes"].create_index(f"{EVIL}field", name="odd")
        reference = database["notes"].put_blob(BLOB)
        database["notes"].insert({"id": "b", "file": reference})
        database.forward()
    manifest = folder / "db/org/customers/.worm.manifest.json"
    manifest.write_text(manifest.read_text().replace('"Customer"', json.dumps(f"{EVIL}model")))
    (folder / "db/org/customers" / f"evil{EVIL.replace('/', '')}").mkdir()
    (folder / "evil.ndjson").write_text(json.dumps({"id": 1, EVIL: EVIL}) + "\n" + EVIL + "\n")
    (folder / "evil.csv").write_text(f"id,{EVIL}\n1,{EVIL}\n", newline="")
    (folder / "files").mkdir()
    (folder / "files" / f"evil{EVIL}").write_text(EVIL)
    (folder / "files" / "\u202etext").write_text(EVIL)
    odd = schema()
    odd["models"]["Customer"][f"{EVIL}key"] = EVIL
    odd["models"][f"{EVIL}Model"] = {"path": EVIL}
    (folder / "evil.json").write_text(json.dumps(odd))
    return folder


def blob_name() -> str:
    return f"sha256:{sha256(BLOB).hexdigest()}"


def lines(place: Path) -> dict[str, list[list[str]]]:
    """Command lines for each verb, in an order in which they can run."""
    return {**reading_lines(place), **working_lines(place), **folder_lines(place)}


def reading_lines(place: Path) -> dict[str, list[list[str]]]:
    """For verbs about documents."""
    url, evil = str(place / "db"), f"{EVIL}id"
    on = ["--url", url]
    return {
        "status": [["status", url]],
        "table list": [["table", "list", *on], ["table", "list", *on, "--json"]],
        "table inspect": [["table", "inspect", name, *on] for name in ("Customer", "notes", EVIL)],
        "table query": [
            ["table", "query", name, *on, *more]
            for name in ("Customer", "notes")
            for more in (
                [],
                ["--format", "csv"],
                ["--format", "json"],
                ["--format", "ndjson"],
                ["--json"],
                ["--explain"],
            )
        ]
        + [
            [
                "table",
                "query",
                "notes",
                *on,
                "--filter",
                f'{{"{evil}": {{"$evil{evil}": 1}}}}'.replace("\x1b", "\\u001b"),
            ]
        ],
        "verify": [["verify", url], ["verify", url, evil], ["verify", url, "--repair"]],
        "table aggregate": [
            ["table", "aggregate", "notes", *on, "--group-by", "id", *more] for more in ([], ["--tasks", "1"])
        ],
        "table export": [["table", "export", "notes", *on, "--format", form] for form in ("csv", "ndjson", "json")]
        + [["table", "export", "notes", *on, "--to", str(place / "out")]],
        "table files": [["table", "files", "notes", *on]],
        "history": [["history", "Customer", "other", *on], ["history", "Customer", "other", *on, "--json"]],
        "diff": [["diff", "Customer", "other", "1", "1", *on]],
        "snapshot take": [["snapshot", "take", "Customer", "other", *on]],
        "snapshot list": [["snapshot", "list", "Customer", "other", *on], ["snapshot", "list", "Customer", evil, *on]],
        "snapshot restore": [["snapshot", "restore", "other", evil, *on]],
        "trash list": [["trash", "list", "Customer", *on], ["trash", "list", "Customer", *on, "--json"]],
        "trash restore": [["trash", "restore", "Customer", "gone", *on], ["trash", "restore", "Customer", evil, *on]],
        "trash purge": [["trash", "purge", "Customer", evil, "--yes", *on]],
        "trash purge-expired": [["trash", "purge-expired", "Customer", "--yes", *on]],
        "rollback": [["rollback", "Customer", "other", "--to", "1", "--yes", *on]],
        "index list": [["index", "list", "notes", *on]],
        "index tasks": [["index", "tasks", "notes", *on]],
        "index describe": [["index", "describe", "notes", "odd", *on], ["index", "describe", "notes", evil, *on]],
        "index create": [["index", "create", "notes", evil, *on], ["index", "create", "notes", f"x{evil}", *on]],
        "index analyze": [["index", "analyze", "notes", "odd", *on]],
        "index drop": [["index", "drop", "notes", evil, *on]],
        "function register": [["function", "register", "notes", "f", "--filter", json.dumps({"x": EVIL}), *on]],
        "function list": [["function", "list", "notes", *on]],
        "function drop": [["function", "drop", "notes", name, *on] for name in (evil, "f")],
        "blob list": [["blob", "list", "notes", *on]],
        "blob put": [["blob", "put", "notes", str(place / "evil.csv"), *on]],
        "blob get": [["blob", "get", "notes", name, *on] for name in (evil, blob_name())],
        "import": [["import", str(place / name), "--model", "notes", *on] for name in ("evil.ndjson", "evil.csv")],
        "insert": [["insert", "notes", json.dumps({"id": f"{evil}3", "x": EVIL}), *on]],
        "put": [["put", "notes", json.dumps({"id": f"{evil}4", "x": EVIL}), *on]],
        "update": [["update", "notes", f"{evil}3", json.dumps({"$set": {"y": evil}}), *on]],
        "get": [["get", "notes", f"{evil}{more}", *on] for more in ("3", "none")],
        "watch": [["watch", "notes", "--no-follow", *on]],
        "erase": [["erase", "notes", f"{evil}{more}", "--yes", *on] for more in ("4", "none")],
        "delete": [["delete", "notes", f"{evil}{more}", *on] for more in ("3", "none")],
        "shell": [["shell", str(place / evil)]],
        "serve": [["serve", str(place / evil), "--resp", evil], ["serve", url, "--users", str(place / evil)]],
        "drop": [["drop", evil, "--yes", *on], ["drop", "notes", "--dry-run", *on]],
    }


def working_lines(place: Path) -> dict[str, list[list[str]]]:
    """The same for verbs that look after a database."""
    url, evil = str(place / "db"), f"{EVIL}id"
    on = ["--url", url]
    return {
        "files status": [["files", "status", *on]],
        "index build": [["index", "build", "notes", "odd", *on], ["index", "build", "notes", evil, *on]],
        "retain": [["retain", "notes", "--keep", evil, *on], ["retain", "notes", *on], ["retain", evil, *on]],
        "rename": [["rename", evil, "other", *on], ["rename", "other", evil, *on]],
        "layout migrate": [["layout", "migrate", *on, "--to", "inline"]],
        "files sync": [["files", "sync", *on]],
        "files on": [["files", "on", "Customer", *on], ["files", "on", evil, *on]],
        "files off": [["files", "off", "Customer", "--yes", *on]],
        "forward": [["forward", url], ["forward", url, evil]],
        "gc": [["gc", url], ["gc", url, evil]],
        "schema show": [["schema", "show", url]],
        "schema diff": [["schema", "diff", url, "--schema", str(place / "evil.json")]],
        "schema apply": [["schema", "apply", url, "--schema", str(place / "evil.json"), "--yes"]],
        "schema infer": [["schema", "infer", str(place / "evil.ndjson"), "--model", "X"]],
        "lint": [["lint", str(place / "evil.json")], ["lint", evil]],
        "table embed": [["table", "embed", "notes", f"{evil}:f", "--from", "x", "--to", evil, *on]],
        "table rebuild": [["table", "rebuild", "notes", *on]],
        "table analyze": [["table", "analyze", "notes", *on]],
        "table compact": [["table", "compact", "notes", *on, "--yes"]],
        "table history": [["table", "history", "notes", *on, "--to", str(place / "past")]],
        "node list": [["node", "list", *on]],
        "node remove": [["node", "remove", evil, *on]],
        "node run": [["node", "run", "--once", *on], ["node", "run", "--once", "--id", evil, *on]],
        "cost": [["cost", url, "--used"]],
        "doctor": [["doctor", url], ["doctor", f"s3://{evil}"]],
        "adopt": [["adopt", evil, *on]],
        "init": [["init", str(place / "new")]],
        "completion": [["completion", "bash"]],
        "version": [["version"]],
    }


def folder_lines(place: Path) -> dict[str, list[list[str]]]:
    """The same for verbs about a folder of files."""
    folder = ["--folder", str(place / "files")]
    on = [*folder, "--url", str(place / "bucket")]
    return {
        "push": [["push", *on], ["push", EVIL, *folder], ["push", f"model:{EVIL}", *folder]],
        "pull": [["pull", *folder], ["pull", *folder, "--json"]],
        "sync run": [["sync", *folder], ["sync", f"{EVIL}/..", *folder]],
        "sync status": [["sync", "status", *folder]],
        "sync diff": [["sync", "diff", *folder], ["sync", "diff", EVIL, *folder]],
        "sync compact": [["sync", "compact", *folder]],
        "sync doctor": [["sync", "doctor", *folder]],
        "sync migrate": [["sync", "migrate", *folder], ["sync", "migrate", "--folder", EVIL]],
    }


def leaves(command: click.Command, path: str = "") -> list[str]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = []
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        found += leaves(inner, f"{path} {name}".strip())
    return found


def test_every_verb_is_tried(place: Path) -> None:
    assert sorted(leaves(root)) == sorted(lines(place))


def test_no_control_character_comes_out(place: Path) -> None:
    seen = 0
    for verb, several in lines(place).items():
        for arguments in several:
            _, text = at_terminal(*arguments)
            rest = OWN.sub("", text).replace("\n", "").replace("\t", "")
            found = BAD.search(rest)
            assert found is None, (verb, arguments, rest[max(0, found.start() - 60) : found.start() + 60])
            seen += "\\u202e" in text or "·" in text
    assert seen > 40, "hostile names are shown, not left out"


def test_a_pipe_gets_what_is_stored(place: Path) -> None:
    raw = io.BytesIO()
    pipe = io.TextIOWrapper(raw, encoding="utf-8", newline="", write_through=True)
    with redirect_stdout(pipe):
        assert run(["table", "export", "notes", "--format", "csv", "--url", str(place / "db")]) == 0
    assert EVIL.encode() in raw.getvalue()


@given(st.text())
def test_text_is_harmless_and_json_means_the_same(text: str) -> None:
    shown = harmless(text)
    assert BAD.search(shown.replace("\n", "").replace("\t", "")) is None
    assert harmless(shown) == shown
    value = text.replace("\r\n", "\n")
    written = json.dumps({"x": value}, ensure_ascii=False)
    assert json.loads(harmless(written)) == {"x": value}
    assert one_line(text).isprintable()


def test_bytes_that_are_cut_anywhere_are_cleaned() -> None:
    raw = io.BytesIO()
    body = ("a" + EVIL + "é€").encode()
    terminal = FakeTerminal(raw, encoding="utf-8", write_through=True)
    with redirect_stdout(terminal), guarded_terminals():
        stream = sys.stdout.buffer
        for place in range(len(body)):
            stream.write(body[place : place + 1])
        write_own("\x1b[1mown\x1b[0m")
    text = raw.getvalue().decode()
    assert BAD.search(text.removesuffix("\x1b[1mown\x1b[0m")) is None
    assert text.endswith("é€\x1b[1mown\x1b[0m")
