"""Memory of an import does not grow with the file: the peak of `worm import`, and Arrow's with small portions."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import wormdb
from wormdb.api.imports import rows, run, stream
from wormdb.engine.bulk import merge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CHILD = """
import resource, subprocess, sys
subprocess.run([sys.executable, "-m", "wormdb.cli", "import", *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
IDS: dict[str, Callable[[int], dict[str, str]]] = {
    "ascending": lambda number: {"id": f"c{number:08}"},
    "random": lambda number: {"id": sha256(str(number).encode()).hexdigest()[:16]},
    "made": lambda _: {},
}


def records(ids: str, lines: int) -> Iterator[dict[str, Any]]:
    for number in range(lines):
        yield {**IDS[ids](number), "name": f"name number {number}", "age": number % 90}


def schema(ids: str) -> dict[str, Any]:
    model = {
        "path": f"@c/(id:{'ulid' if ids == 'made' else 'string'})",
        "fields": {"name": {"type": "string"}},
        "indexes": {"byName": {"field": "name", "unique": True}},
        "files": False,
    }
    return {"schemaVersion": "1.0", "models": {"C": model}}


def peak(folder: Path, ids: str, lines: int) -> int:
    """Kilobytes that the command has at most, with a unique index, forwarding included."""
    source, url = folder / f"{lines}.ndjson", str(folder / str(lines))
    with source.open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records(ids, lines))
    with wormdb.connect(url, schema=schema(ids), apply=True):
        pass
    command = [sys.executable, "-c", CHILD, str(source), "--model", "C", "--url", url]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.long
@pytest.mark.parametrize("ids", sorted(IDS))
def test_the_peak_does_not_grow_with_the_file(tmp_path: Path, ids: str) -> None:
    assert peak(tmp_path, ids, 300_000) <= 1.3 * peak(tmp_path, ids, 100_000)


# --- a hundredth of it, with portions, blocks and rounds that are a hundredth too ---


def arrow_peak(ids: str, lines: int, patch: pytest.MonkeyPatch) -> int:
    """Bytes that Arrow has at most during an import."""
    pool = pa.proxy_memory_pool(pa.system_memory_pool())
    with patch.context() as inner, wormdb.connect("memory://", schema=schema(ids), apply=True) as db:
        inner.setattr(pa, "system_memory_pool", lambda: pool)
        inner.setattr(stream, "IMPORT_RECORDS", 100)
        inner.setattr(run, "IMPORT_PORTION_BYTES", 50_000)
        inner.setattr(run, "IMPORT_BLOCK_BYTES", 100_000)
        inner.setattr(merge, "ROUND_ROWS", 512)
        inner.setattr(rows, "ROWS_AT_ONCE", 200)
        assert db.model("C").import_records(records(ids, lines), source=b"a").inserted == lines
    peak: int = pool.max_memory()
    return peak


def test_a_merge_holds_as_much_of_many_portions_as_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 portions overlap instead of 12: they are merged some at a time, and some rows at a time."""
    assert arrow_peak("random", 20_000, monkeypatch) <= 1.15 * arrow_peak("random", 6_000, monkeypatch)


def test_ids_that_are_made_take_no_more_than_ids_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert arrow_peak("made", 6_000, monkeypatch) <= 1.1 * arrow_peak("ascending", 6_000, monkeypatch)
