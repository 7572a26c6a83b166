"""worm init and worm schema infer: from nothing, or from data, to a database that is filled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from wormdb.cli.input.schema import folder_of, model_name, path_to

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_steps_that_init_prints_work(here: Path) -> None:
    printed = worm("init")
    assert printed.lines[:2] == ["made .worm/schema.json and .worm/data/", "next:"]
    (here / "customers.csv").write_text("name,email,since\nAda,ada@x.org,2026-01-01\n")
    for line in printed.lines[2:]:
        words = line.partition("#")[0].replace("FILE", "customers.csv").split()
        assert words[0] == "worm"
        done = worm(*words[1:], *(["--yes"] if "apply" in words else []))
        assert done.code == 0, done
        if "lint" in words:
            assert done.text == ".worm/schema.json: 0 errors, 0 warnings, 1 model\n"
    (row,) = json.loads(worm("table", "query", "Customer", "--url", ".worm/data", "--json").text)["rows"]
    assert (row["status"], row["tags"]) == ("active", [])


def test_a_model_of_ones_own_in_another_folder(here: Path) -> None:
    printed = worm("init", "shop floor", "--model", "OrderItem")
    assert printed.code == 0
    assert printed.lines[2].split("#")[0].strip() == "cd 'shop floor'; worm lint"
    schema = json.loads((here / "shop floor/.worm/schema.json").read_text())
    assert schema["models"]["OrderItem"]["path"] == "@order-items/(id:ulid)/[data].json"
    assert (here / "shop floor/.worm/data").is_dir()


@pytest.mark.parametrize("existing", [".worm/schema.json", "schema.json"])
def test_what_is_there_is_kept(here: Path, existing: str) -> None:
    (here / ".worm").mkdir()
    (here / existing).write_text("mine")
    refused = worm("init")
    assert refused.code == 1
    assert f"{existing}: there is a schema already" in refused.errors
    assert (here / existing).read_text() == "mine"
    assert not (here / ".worm/data").exists()
    forced = worm("init", "--force", "--json")
    assert json.loads(forced.text) == {"schema": ".worm/schema.json", "data": ".worm/data"}


def test_init_refuses_what_is_no_name_or_no_folder(here: Path) -> None:
    assert "models" in worm("init", "--model", "a/b").errors
    assert not (here / ".worm").exists()
    (here / "file").write_text("")
    assert worm("init", "file").code == 2
    (here / ".worm").write_text("in the way")
    assert "cannot be written" in worm("init").errors


def test_a_schema_from_files_takes_the_files(here: Path, memory: str) -> None:
    lines = ('{"id": "a", "n": 1, "at": "2026-01-01"}', '{"id": "b", "x": [1.5]}', "broken")
    (here / "order-items.ndjson").write_text("\n".join(lines))
    (here / "more.csv").write_text("id,n,at\nc,5,\n")
    inferred = worm("schema", "infer", "order-items.ndjson", "more.csv")
    assert (inferred.code, inferred.errors) == (0, "1 record could not be read\n")
    model = json.loads(inferred.text)["models"]["OrderItem"]
    assert model["path"] == "@order-items/(id:string)/[data].json"
    assert model["fields"]["n"] == {"type": "integer"}
    (here / "schema.json").write_bytes(inferred.data)
    assert worm("lint").text == "schema.json: 0 errors, 0 warnings, 1 model\n"
    assert worm("schema", "apply", memory, "--yes").code == 0
    loaded = worm("import", "order-items.ndjson", "more.csv", "--model", "OrderItem", "--url", memory, "--json")
    assert [json.loads(loaded.text)[name] for name in ("inserted", "rejected")] == [3, 1]


def test_a_schema_from_a_collection_is_accepted_by_it(here: Path, memory: str) -> None:
    with wormdb.connect(memory) as database:
        database["org/people"].insert_many([{"id": 1, "name": "Ada"}, {"id": "x", "name": "Bob", "age": 5}])
    inferred = worm("schema", "infer", "--collection", "org/people", "--url", memory)
    model = json.loads(inferred.text)["models"]["People"]
    assert model["path"] == "#org/@people/(id:any)/[data].json"
    (here / "schema.json").write_bytes(inferred.data)
    assert worm("schema", "apply", memory, "--yes").code == 0
    with wormdb.connect(memory) as database:
        assert database.model("People").count() == 2


def test_options_of_infer(here: Path) -> None:
    (here / "t.tsv").write_text("key\ts\nk1\topen\nk2\topen\nk3\tpaid\n")
    printed = worm("schema", "infer", "t.tsv", "--model", "Task", "--id-field", "key", "--enums", "--path", "#a/@b")
    model = json.loads(printed.text)["models"]["Task"]
    assert model["path"] == "#a/@b/(id:string)/[data].json"
    assert model["fields"] == {"s": {"type": "string", "required": True}}
    limited = worm("schema", "infer", "t.tsv", "--id-field", "key", "--enums", "--limit", "2")
    assert json.loads(limited.text)["models"]["T"]["fields"]["s"]["enum"] == ["open"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "it needs data"),
        (["x.csv", "--collection", "y"], "it needs data"),
        (["--collection", "y"], "no database is named"),
        (["nix.csv"], "nix.csv cannot be read"),
        (["x.csv", "--path", "nonsense"], "no sign"),
        (["x.csv", "--model", "a b"], "a b"),
    ],
)
def test_what_infer_refuses(here: Path, arguments: list[str], text: str) -> None:
    (here / "x.csv").write_text("a\n1\n")
    printed = worm("schema", "infer", *arguments)
    assert (printed.code, printed.text) == (2, "")
    assert text in printed.errors


def test_names() -> None:
    assert [model_name(text) for text in ("customers", "order-items", "cities", "address", "x", "--", "é")] == [
        "Customer",
        "OrderItem",
        "City",
        "Address",
        "X",
        "Record",
        "Record",
    ]
    assert [folder_of(name) for name in ("Customer", "OrderItem", "City", "Address", "Day")] == [
        "customers",
        "order-items",
        "cities",
        "address",
        "days",
    ]
    assert (path_to("org/people/"), path_to("a b")) == ("#org/@people", None)
