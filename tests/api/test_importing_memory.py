"""Memory of an import does not grow with the file: the peak of a process that imports three times as many lines."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

CHILD = """
import resource, sys
import wormdb
schema = {"schemaVersion": "1.0", "models": {"C": {"path": "@c/(id:string)", "fields": {"name": {"type": "string"}},
    "indexes": {"byName": {"field": "name", "unique": True}}, "files": False}}}
with wormdb.connect(sys.argv[1], schema=schema, apply=True) as db:
    records = ({"id": f"c{n:08}", "name": f"name number {n}", "age": n % 90} for n in range(int(sys.argv[2])))
    assert db.model("C").import_records(records).inserted == int(sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak(folder: Path, lines: int) -> int:
    command = [sys.executable, "-c", CHILD, str(folder / str(lines)), str(lines)]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


@pytest.mark.long
def test_the_peak_does_not_grow_with_the_file(tmp_path: Path) -> None:
    assert peak(tmp_path, 300_000) <= 1.3 * peak(tmp_path, 100_000)
