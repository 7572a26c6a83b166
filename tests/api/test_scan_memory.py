"""Memory of a scan of whole documents: that of a row group, and the caches, however many documents there are."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20
RARE = 500
"""One document of this many has the field that is looked for: no block has a column of it."""
MANUAL = wormdb.Settings(forward="manual")

MEASURED = """
import json, sys, tracemalloc, wormdb
import pyarrow as pa
tracemalloc.start(1)
with wormdb.connect(sys.argv[1], settings=wormdb.Settings(cache_bytes=0)) as database:
    found = [row["rare"] for row in database["things"].find({"rare": {"$gt": 0}}, select=["rare"])]
print(json.dumps([found, pa.default_memory_pool().max_memory(), tracemalloc.get_traced_memory()[1]]))
"""
WHOLE = """
import json, resource, sys, wormdb
with wormdb.connect(sys.argv[1]) as database:
    found = [row["rare"] for row in database["things"].find({"rare": {"$gt": 0}}, select=["rare"])]
print(json.dumps([found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, sorted(sys.modules)]))
"""
IMPORTED = """
import importlib, resource, sys
for name in sys.stdin.read().split():
    try:
        importlib.import_module(name)
    except ImportError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def things(start: int, stop: int) -> Iterator[dict[str, Any]]:
    """Documents of about 1,000 bytes."""
    chance = SeededChance(start)
    text = chance.token(50_000).hex()
    for number in range(start, stop):
        begin = number * 7_919 % (len(text) - 950)
        rare = {} if number % RARE else {"rare": number + 1}
        yield {"id": f"{number:08}", "body": text[begin : begin + 950], **rare}


def fill(url: str, count: int, step: int) -> None:
    with wormdb.connect(url, settings=MANUAL) as database:
        for start in range(0, count, step):
            database["things"].insert_many(things(start, start + step))
        database["things"].forward()


def run(program: str, *arguments: str, given: str = "") -> Any:
    command = [sys.executable, "-c", program, *arguments]
    return json.loads(subprocess.run(command, input=given, capture_output=True, check=True, text=True).stdout)


def test_a_scan_holds_less_than_a_block(tmp_path: Path) -> None:
    count = 60_000
    fill(str(tmp_path), count, count)
    found, of_arrow, of_python = run(MEASURED, str(tmp_path))
    assert found == list(range(1, count, RARE))
    # One block of four row groups: two of them unpacked, and documents of a part of one as objects.
    assert of_arrow + of_python < 80 * MIB, "the whole block takes 120"


@pytest.mark.long
def test_a_million_documents_take_less_than_300_mb(tmp_path: Path) -> None:
    count = 1_000_000
    fill(str(tmp_path), count, 100_000)
    found, peak, modules = run(WHOLE, str(tmp_path))
    assert found == list(range(1, count, RARE))
    assert peak - run(IMPORTED, given="\n".join(modules)) < 300 * 1024
