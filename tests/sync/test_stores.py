"""Push and pull on real stores: a folder and an S3 server, and several processes at once."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from wormdb.api.database import connect
from wormdb.storage.open import open_store
from wormdb.sync import Sync
from wormdb.sync.index import decode_listing, decode_manifest, decode_part
from wormdb.sync.paths import MANIFEST

if TYPE_CHECKING:
    from pathlib import Path

WRITERS = 16
FILES = 4
KILLS = 4
SCRIPT = """
import sys
from pathlib import Path
from wormdb.sync import Sync
folder, url, name = sys.argv[1:]
for number in range({files}):
    for path in (f"data/own/{{name}}/{{number}}", f"data/shared/one/{{name}}-{{number}}"):
        file = Path(folder, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{{name}} {{number}}")
    with Sync(folder, url) as sync:
        report = sync.push_changed()
        assert not report.failed and not report.conflicts, report
"""


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty bucket, or a folder that stands for one."""
    if request.param == "folder":
        return str(tmp_path / "bucket")
    return str(request.getfixturevalue("s3_url"))


def test_round_trip(url: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    large = tmp_path / "a" / "data" / "t" / "1" / "large"
    large.parent.mkdir(parents=True)
    large.write_bytes(bytes(range(256)) * 40_000)  # fetched in pieces
    (tmp_path / "a" / "ümlaut und Raum").write_text("text")
    with Sync(tmp_path / "a", url) as a, Sync(tmp_path / "b", url) as b:
        assert len(a.push_changed().pushed) == 2
        assert a.push_changed().requests == 0
        assert len(b.pull_changed().pulled) == 2
        assert b.pull_changed().requests == 1
        assert (tmp_path / "b" / "data/t/1/large").read_bytes() == large.read_bytes()
        (tmp_path / "b" / "ümlaut und Raum").unlink()
        assert b.push_changed().deleted_there == ["ümlaut und Raum"]
        assert a.pull_changed().deleted_here == ["ümlaut und Raum"]
        large.write_bytes(b"small now")
        assert a.push_changed().requests == 3
        (tmp_path / "b" / "data/t/1/large").write_bytes(b"another")
        assert [each.path for each in b.push_changed().conflicts] == ["data/t/1/large"]


def test_processes_that_push_at_once_lose_nothing(url: str, tmp_path: Path) -> None:
    names = [f"w{number}" for number in range(WRITERS)]
    processes = []
    for name in names:
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", SCRIPT.format(files=FILES), str(tmp_path / name), url, name]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    with open_store(url) as store:
        found = decode_manifest(
            store.get(MANIFEST).body, MANIFEST, lambda key: decode_listing(store.get(key).body, key)
        )
        listed = {
            path
            for note in found.partitions.values()
            for path in decode_part(store.get(note.key).body, note.key).entries
        }
    expected = {f"data/own/{name}/{number}" for name in names for number in range(FILES)}
    assert listed == expected | {f"data/shared/one/{name}-{number}" for name in names for number in range(FILES)}
    (tmp_path / "reader").mkdir()
    with Sync(tmp_path / "reader", url) as reader:
        assert len(reader.pull_changed().pulled) == len(listed), json.dumps(sorted(listed))


VICTIM = """
import sys
from pathlib import Path
from wormdb.sync import Sync
folder, url = sys.argv[1:]
for number in range(len(list(Path(folder).rglob("*.txt"))), 10_000):
    file = Path(folder, f"data/own/{number % 3}/{number}.txt")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{number}")
    with Sync(folder, url) as sync:
        report = sync.push_changed()
    assert not report.failed and not report.conflicts, report
    print(number, flush=True)
"""


def killed(folder: Path, url: str, acknowledged: int) -> list[int]:
    """A process that pushes one file after the other, killed after some of them were acknowledged: which."""
    with subprocess.Popen(
        [sys.executable, "-c", VICTIM, str(folder), url], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = [int(process.stdout.readline()) for _ in range(acknowledged)]
        process.kill()
        said += [int(line) for line in process.stdout if line.endswith("\n")]
    return said


@pytest.mark.parametrize("rounds", [KILLS, pytest.param(25, marks=pytest.mark.long)])
def test_what_a_killed_process_had_acknowledged_is_there_and_what_it_had_not_is_pushed(
    url: str, rounds: int, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    acknowledged: set[int] = set()
    for number in range(rounds):
        acknowledged |= {*killed(tmp_path / "a", url, 1 + number % 3)}
        with Sync(tmp_path / "b", url) as reader:
            reader.pull_changed()
        assert acknowledged <= {int(file.stem) for file in (tmp_path / "b").rglob("*.txt")}
    deleted = max(acknowledged)
    (tmp_path / "a" / f"data/own/{deleted % 3}/{deleted}.txt").unlink()
    with Sync(tmp_path / "a", url) as writer:
        writer.sync()
    with Sync(tmp_path / "b", url) as reader:
        reader.pull_changed()
    files = [{file.name: file.read_text() for file in (tmp_path / name).rglob("*.txt")} for name in "ab"]
    assert files[0] == files[1]
    assert f"{deleted}.txt" not in files[1]


WRITER = """
import sys
import wormdb
from wormdb.sync import Sync
folder, url, name = sys.argv[1:]
for number in range(3):
    with wormdb.connect(folder) as database:
        database["notes"].insert({"id": f"{name}-{number}"})
    while True:
        with Sync(folder, url) as sync:
            report = sync.sync(rebase=True)
        verbs = {each.verb for each in report.collections}
        if not verbs - {"pulled", "pushed", "rebased"}:
            break
"""


def test_processes_that_work_offline_and_push_one_collection_lose_no_document(url: str, tmp_path: Path) -> None:
    processes = []
    for number in range(4):
        (tmp_path / f"w{number}").mkdir()
        command = [sys.executable, "-c", WRITER, str(tmp_path / f"w{number}"), url, f"w{number}"]
        processes.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
    with connect(url) as database:
        found = {each["id"] for each in database["notes"].find()}
        assert [each.findings for each in database.verify()] == [()]
    assert found == {f"w{writer}-{number}" for writer in range(4) for number in range(3)}
