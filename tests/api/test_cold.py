"""What a new process imports: each call waits for what it uses, and for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pytest

import wormdb

if TYPE_CHECKING:
    from pathlib import Path

APART = (
    *("wormdb.maintenance", "wormdb.files", "wormdb.jobs", "wormdb.engine.bulk", "wormdb.engine.load"),
    *("wormdb.engine.migrate", "wormdb.engine.commit.blobs", "wormdb.engine.forward.forward", "wormdb.engine.feed"),
    *("wormdb.api.files", "wormdb.api.blobs", "wormdb.api.imports", "wormdb.api.adopt", "wormdb.api.status"),
    *("wormdb.api.trash", "pandas", "asyncio"),
)
"""What no query and no plain change of documents needs, with all that is below it."""
CALLS = {
    "connect": "db = wormdb.connect(sys.argv[1]); things = db['things']",
    "find_by_id": "assert things.find_by_id('3')['n'] == 3",
    "count": "assert things.count() == 20",
    "insert": "things.insert({'id': 'new', 'n': 3})",
    "save": "saved = things.find_by_id('4'); saved['text'] = 'other'; things.save(saved)",
    "find by index": "assert len(list(things.find({'n': 3}))) == 2",
    "find with filter and sort": "assert [row['n'] for row in things.find({'n': {'$gt': 17}}, sort='-n')] == [19, 18]",
    "count of some": "assert things.count({'text': 'other'}) == 1",
    "update": "assert things.update_one({'n': 5}, {'$set': {'text': 'more'}}).modified == 1",
    "close": "db.close()",
}
"""One after the other in one process, so that what one imports is missing from none after it."""
MODEL = {"path": "@things/(id:string)", "fields": {"n": {"type": "integer"}, "text": {"type": "string"}}}
PROGRAM = """
import json, sys, wormdb
apart = tuple(json.loads(sys.argv[2]))
found = {{}}
def look(call):
    found[call] = sorted(name for name in sys.modules for one in apart if name == one or name.startswith(one + '.'))
{calls}
print(json.dumps(found))
"""


def imported(place: str, calls: dict[str, str], apart: tuple[str, ...]) -> dict[str, list[str]]:
    """What of `apart` is there after each call, in a new process."""
    lines = "\n".join(f"{line}\nlook({name!r})" for name, line in calls.items())
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(calls=lines), place, json.dumps(apart)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def fill(place: str) -> None:
    with wormdb.connect(place) as db:
        things = db["things"]
        things.create_index("n")
        things.insert_many([{"id": str(number), "n": number, "text": f"text {number:02}"} for number in range(20)])
        db.forward()


def test_queries_and_plain_changes_import_nothing_else_in_a_folder(tmp_path: Path) -> None:
    place = str(tmp_path / "bucket")
    fill(place)
    apart = (*APART, "tempfile", "urllib.request")
    assert imported(place, CALLS, apart) == {name: [] for name in CALLS}


@pytest.mark.s3
def test_queries_and_plain_changes_import_nothing_else_on_s3(s3_url: str) -> None:
    fill(s3_url)
    assert imported(s3_url, CALLS, APART) == {name: [] for name in CALLS}


def test_a_model_of_the_published_schema_imports_nothing_else(tmp_path: Path) -> None:
    place = str(tmp_path / "bucket")
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": MODEL}}
    with wormdb.connect(place, schema=schema, apply=True) as db:
        db.model("Thing").insert_many([{"id": str(number), "n": number, "text": "a"} for number in range(20)])
        db.forward()
    calls = CALLS | {"connect": "db = wormdb.connect(sys.argv[1]); things = db.model('Thing')"}
    assert imported(place, calls, APART) == {name: [] for name in calls}


def test_connecting_imports_no_engine_and_no_library(tmp_path: Path) -> None:
    apart = (
        *("wormdb.engine.ledger", "wormdb.engine.state", "wormdb.format", "wormdb.schema", "wormdb.bql"),
        *("wormdb.storage.cloud", "msgspec", "bson", "zstandard", "pyarrow", "obstore", "numpy", "configparser"),
        *("concurrent.futures", "logging", "secrets", "random", "hashlib", "difflib"),
    )
    calls = {"import": "pass", "connect": "wormdb.connect(sys.argv[1])"}
    assert imported(str(tmp_path), calls, apart) == {name: [] for name in calls}


def test_getting_and_saving_imports_no_arrow(tmp_path: Path) -> None:
    place = str(tmp_path / "bucket")
    fill(place)
    calls = {name: CALLS[name] for name in ("connect", "find_by_id", "count", "insert", "save")}
    apart = ("pyarrow", "numpy", "wormdb.query.execute", "wormdb.bql.parse", "wormdb.api.query", "wormdb.api.history")
    assert imported(place, calls, apart) == {name: [] for name in calls}


def test_threads_that_open_collections_at_once_share_one_runtime(tmp_path: Path) -> None:
    with wormdb.connect(str(tmp_path / "bucket")) as db, ThreadPoolExecutor(16) as threads:
        start = Barrier(16)

        def opened(_: int) -> tuple[int, int, int]:
            start.wait()
            ledger = db["things"]._ledger
            return id(ledger), id(db._ledgers.runtime), id(db._ledgers.files)

        assert len(set(threads.map(opened, range(16)))) == 1
