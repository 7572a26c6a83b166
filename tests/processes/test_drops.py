"""Real processes write to a collection that another one drops again and again: no acknowledged write is lost."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import wormdb
from wormdb.engine.log.paths import EnginePaths
from wormdb.format import json
from wormdb.format.entry import decode_entry

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.api.database import Database

PATHS = EnginePaths.of_collection("things/")
WRITERS = ("ada", "bob")
DROPS = 5
BETWEEN = 10
"""Writes of each process that are acknowledged between two drops."""


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "bucket") if request.param == "folder" else str(request.getfixturevalue("s3_url"))


def read_until(process: subprocess.Popen[str], closed: list[int]) -> list[str]:
    """The lines of a writer until some writes were acknowledged after the last removal."""
    assert process.stdout is not None
    lines: list[str] = []
    count = 0
    while count < BETWEEN:
        line = process.stdout.readline().strip()
        assert line, "the writer ended"
        lines.append(line)
        rev = line.partition(" ")[0]
        count += rev.isdigit() and int(rev) > max(closed, default=0)
    return lines


def logged(database: Database) -> dict[int, set[str]]:
    """The ids that each entry of the log inserts."""
    found = {}
    for page in database.store.list(PATHS.entries):
        for info in page.objects:
            number = int(info.key.rpartition("/")[2])
            body = database.store.get(info.key).body
            entry = decode_entry(body, name=info.key, number=number, collection="things/")
            found[number] = {json.decode(change.id, name="id") for batch in entry.batches for change in batch.changes}
    return found


@pytest.mark.timeout(300)
def test_every_acknowledged_write_is_before_a_removal_or_in_the_collection(place: str) -> None:
    command = [sys.executable, "-m", "tests.processes.dropped_writer", place]
    writers = [
        subprocess.Popen([*command, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for name in WRITERS
    ]
    lines: list[str] = []
    closed: list[int] = []
    try:
        with wormdb.connect(place) as database:
            for _ in range(DROPS):
                for writer in writers:
                    lines += read_until(writer, closed)
                dropped = database.drop("things")
                assert dropped is not None
                closed.append(dropped.number)
            for writer in writers:
                lines += read_until(writer, closed)
        for writer in writers:
            assert writer.stdin is not None
            assert writer.stdout is not None
            writer.stdin.close()  # the sign to end
            # Not by communicate(), which passes over what readline() has read ahead.
            lines += [line.strip() for line in writer.stdout]
            assert writer.wait(60) == 0
    finally:
        for writer in writers:
            writer.kill()
            with writer:  # closes its pipes
                pass
    with wormdb.connect(place) as database:
        there = {document.id: document.rev for document in database["things"].find({})}
        entries = logged(database)
        assert [found.findings for found in database.verify(["things"])] == [()]
    told = [line.split(" ") for line in lines]
    acknowledged = {identity: int(rev) for rev, identity in told if rev.isdigit()}
    unknown = {identity for rev, identity in told if rev == "unknown"}
    assert len(acknowledged) >= (DROPS + 1) * BETWEEN * len(WRITERS)
    assert closed == sorted(set(closed))
    for identity, rev in acknowledged.items():
        assert identity in entries[rev], "each entry is where it was acknowledged to be"
        assert (identity in there) == (rev > closed[-1])
    assert set(there) - set(acknowledged) <= unknown
    assert all(there[identity] == rev for identity, rev in acknowledged.items() if identity in there)
    refused = {identity for rev, identity in told if rev == "refused"}
    assert not refused & set().union(*entries.values())
