"""worm adopt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.cli.printed import worm
from tests.files.adopt.bucket import LAYOUTS, Bucket, sample, schema
from tests.files.adopt.rig import check, fill
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = LAYOUTS["root"]


@pytest.fixture
def url() -> Iterator[str]:
    """Of a bucket in memory."""
    yield "memory://adopt-command"
    drop_memory("adopt-command")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The schema."""
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(schema(ROOT)))
    return path


def test_adopt(url: str, file: Path) -> None:
    bucket = sample(ROOT)
    fill(url, bucket)
    place = ("Customer", "--url", url, "--schema", str(file))
    dry = worm("adopt", *place, "--dry-run")
    assert dry.code == 0
    amount = "2 documents, 1 in the trash, 1 deleted, 10 versions, 2 snapshots, of 16 files"
    assert dry.text.splitlines() == [f"org/customers/: would adopt {amount}"]
    done = worm("adopt", *place, "--job", "first", "--actor", "ada")
    assert done.code == 0
    first, second, third = done.text.splitlines()
    assert first == f"org/customers/: adopted in entry 1: {amount}"
    assert second.endswith(", compared with every file")
    assert third == f'  its mode is now readwrite: write "mode": "readwrite" in {file} too'
    with wormdb.connect(url) as database:
        check(database.model("Customer"), bucket)
        assert {change.actor for change in database.model("Customer").watch(after=0)} == {"ada"}
    again = worm("adopt", *place, "--job", "first")
    assert (again.code, "adopted already" in again.text) == (0, True)
    shown = json.loads(worm("adopt", *place, "--job", "first", "--json").text)
    assert (shown["already"], shown["number"], shown["counts"]["documents"]) == (True, 1, 0)
    live = worm("adopt", *place)
    assert (live.code, "managed already" in live.errors) == (1, True)


def test_problems_are_listed(url: str, file: Path) -> None:
    bucket = sample(ROOT)
    bucket.files[bucket.entity("a")] = "?"
    bucket.edit(bucket.entity("d"), name="by hand")
    fill(url, bucket)
    place = ("Customer", "--url", url, "--schema", str(file))
    for dry in ((), ("--dry-run",)):
        refused = worm("adopt", *place, *dry)
        assert refused.code == 1
        assert f"error: {bucket.entity('a')}: " in refused.errors
        assert f"error: {bucket.entity('d')}: it is not as its oplog ends: name" in refused.errors
    shown = json.loads(worm("adopt", *place, "--json").text)
    assert [problem["path"] for problem in shown["problems"]] == [bucket.entity("a"), bucket.entity("d")]
    choices = ("--on-broken", "skip", "--on-mismatch", "entity", "--no-verify", "--mode", "append")
    done = worm("adopt", *place, *choices)
    assert done.code == 0
    assert "1 skipped, 1 taken as their own file has them" in done.text
    assert "not compared" in done.text
    with wormdb.connect(url) as database:
        assert database.model("Customer").mode == "append"


def test_mistakes(url: str, file: Path) -> None:
    assert worm("adopt", "Customer", "--url", url).code == 1
    fill(url, Bucket(ROOT))
    empty = worm("adopt", "Customer", "--url", url, "--schema", str(file))
    assert (empty.code, "nothing to adopt" in empty.errors) == (1, True)
    outer = worm("adopt", "Customer", "--url", url, "--schema", str(file), "--outer", "x")
    assert (outer.code, "NAME=VALUE" in outer.errors) == (2, True)
