"""A program that closes its database prints nothing on standard error, whatever is under way and however it ends."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WORK = """
import sys
import wormdb

def work(db, name="notes"):
    notes = db[name]
    notes.create_index("n")
    for number in range(24):
        notes.insert({"n": number, "text": "x" * 1000})
    notes.insert_many([{"n": number} for number in range(500)])
    rows = iter(notes.find({"n": {"$gte": 0}}))
    next(rows)
    cursor = notes.cursor(batch_size=10)
    cursor.next_batch()
    feed = notes.watch()
    next(feed)
    return rows, cursor, feed

settings = wormdb.Settings(forward=sys.argv[2], forward_entries=8)
"""
ENDS = {
    "with": "with wormdb.connect(sys.argv[1], settings=settings) as db:\n    work(db)\n",
    "with rows that are not read": "with wormdb.connect(sys.argv[1], settings=settings) as db:\n    kept = work(db)\n",
    "close": "db = wormdb.connect(sys.argv[1], settings=settings)\nwork(db)\ndb.close()\n",
    "no close at all": "db = wormdb.connect(sys.argv[1], settings=settings)\nkept = work(db)\n",
    "exit inside": "with wormdb.connect(sys.argv[1], settings=settings) as db:\n    work(db)\n    sys.exit(0)\n",
    "a thread that goes on": (
        "import threading\n"
        "with wormdb.connect(sys.argv[1], settings=settings) as db:\n"
        "    threads = [threading.Thread(target=work, args=(db, f'notes{n}')) for n in range(2)]\n"
        "    [thread.start() for thread in threads]\n"
        "    [thread.join() for thread in threads]\n"
    ),
}


def ended(url: str, forward: str, end: str) -> tuple[int, str]:
    done = subprocess.run(
        [
            sys.executable,
            "-X",
            "dev",
            "-W",
            "error",
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            WORK + ENDS[end],
            url,
            forward,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("forward", "end"),
    [
        *(("inline", end) for end in ENDS),
        ("background", "no close at all"),
        # On S3 all of them forward in the background.
        *(pytest.param("background", end, marks=pytest.mark.long) for end in ENDS if end != "no close at all"),
    ],
)
def test_on_a_folder(tmp_path: Path, forward: str, end: str) -> None:
    assert ended(str(tmp_path), forward, end) == (0, "")


@pytest.mark.s3
@pytest.mark.parametrize("end", ENDS)
def test_on_s3(s3_url: str, end: str) -> None:
    assert ended(s3_url, "background", end) == (0, "")
