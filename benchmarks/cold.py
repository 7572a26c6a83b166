"""The first calls of a new process: processor time of the whole process beside that of a bare import, and requests.

Every figure is the median of several processes that ran in turns. All keep their bytecode in a folder of this run that
a first round fills, as an installed package has it. pandas, which pyarrow looks for, is there in one half of them and
hidden in the other.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import wormdb
from benchmarks.measure import Count, Row

__all__ = ["TITLE", "run"]

TITLE = "cold: connect and the first calls of a new process, in processor time"
ROUNDS = 5
DOCUMENTS = 1_000

_HIDE = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hidden())
"""
_CONNECT = "import sys, wormdb; db = wormdb.connect(sys.argv[1])"
_PROGRAMS = {
    "import click": "import click",
    "import pyarrow": "import pyarrow",
    "connect": _CONNECT,
    "find_by_id": f"{_CONNECT}; assert db['things'].find_by_id('17')",
    "find": f"{_CONNECT}; assert len(list(db['things'].find({{'n': {{'$gt': 7}}}}, sort='text', limit=10))) == 10",
    "find by index": f"{_CONNECT}; assert len(list(db['things'].find({{'n': 7}}))) == 10",
}
_BARS = (
    ("import wormdb; connect", "connect", "import click", 1.5),
    ("connect, first find_by_id", "find_by_id", "import pyarrow", 2.5),
    ("connect, first find with filter and sort", "find", "import pyarrow", 4.0),
    ("connect, first find by an index", "find by index", "import pyarrow", 4.0),
)
_REQUESTS = """
import json, sys, wormdb
def requests(call):
    told = []
    things = wormdb.connect(sys.argv[1], hook=told.append)["things"]
    call(things)
    cold = len(told)
    call(things)
    return cold, len(told) - cold
print(json.dumps([
    requests(lambda things: list(things.find({"n": {"$gt": 7}}, sort="text", limit=10))),
    requests(lambda things: things.find_by_id("17")),
]))
"""


def run() -> list[Row | Count]:
    """All comparisons."""
    with tempfile.TemporaryDirectory() as folder:
        place, bytecode = str(Path(folder) / "bucket"), str(Path(folder) / "bytecode")
        _fill(place)
        rows: list[Row | Count] = []
        for prelude, said in (("", "pandas installed"), (_HIDE, "pandas hidden")):
            taken = _measure(prelude, place, bytecode)
            rows += [
                Row(f"{what} ({said})", f"python -c '{reference}'", 1, taken[ours], taken[reference], at_most=bar)
                for what, ours, reference, bar in _BARS
            ]
        done = subprocess.run([sys.executable, "-c", _REQUESTS, place], capture_output=True, text=True, check=True)
        (cold, warm), (cold_by_id, warm_by_id) = json.loads(done.stdout)
        return [
            *rows,
            Count("requests of the first find", "root, log, block", cold, "≤ 3", cold <= 3),
            Count("requests of the second find", "log", warm, "≤ 1", warm <= 1),
            Count("requests of the first find_by_id", "root, log, map, page", cold_by_id, "≤ 4", cold_by_id <= 4),
            Count("requests of the second find_by_id", "log", warm_by_id, "≤ 1", warm_by_id <= 1),
        ]


def _fill(place: str) -> None:
    with wormdb.connect(place) as db:
        things = db["things"]
        things.create_index("n")
        things.insert_many(
            [{"id": str(i), "n": i % 100, "text": f"text {i * 7919 % DOCUMENTS}"} for i in range(DOCUMENTS)]
        )
        db.forward()


def _measure(prelude: str, place: str, bytecode: str) -> dict[str, float]:
    """Seconds of the processor by program; the first round makes the bytecode, and does not count."""
    taken: dict[str, list[float]] = {name: [] for name in _PROGRAMS}
    for number in range(ROUNDS + 1):
        for name, program in _PROGRAMS.items():
            seconds = _processor_seconds(prelude + program, place, bytecode)
            if number:
                taken[name].append(seconds)
    return {name: median(each) for name, each in taken.items()}


def _processor_seconds(program: str, place: str, bytecode: str) -> float:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program, place], env=environment, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
