"""Memory of an import does not grow with the file: the peak of `worm import` with three times as many lines."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

import wormdb

if TYPE_CHECKING:
    from collections.abc import Callable
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


def peak(folder: Path, ids: str, lines: int) -> int:
    """Kilobytes that the command has at most, with a unique index, forwarding included."""
    source, url = folder / f"{lines}.ndjson", str(folder / str(lines))
    with source.open("w") as file:
        for number in range(lines):
            record = {**IDS[ids](number), "name": f"name number {number}", "age": number % 90}
            file.write(json.dumps(record) + "\n")
    model = {
        "path": f"@c/(id:{'ulid' if ids == 'made' else 'string'})",
        "fields": {"name": {"type": "string"}},
        "indexes": {"byName": {"field": "name", "unique": True}},
        "files": False,
    }
    with wormdb.connect(url, schema={"schemaVersion": "1.0", "models": {"C": model}}, apply=True):
        pass
    command = [sys.executable, "-c", CHILD, str(source), "--model", "C", "--url", url]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.long
@pytest.mark.parametrize("ids", sorted(IDS))
def test_the_peak_does_not_grow_with_the_file(tmp_path: Path, ids: str) -> None:
    assert peak(tmp_path, ids, 300_000) <= 1.3 * peak(tmp_path, ids, 100_000)
