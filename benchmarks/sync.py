"""Push and pull beside rclone, with its best flags, on one S3 server: 10,000 files in 500 models.

Both sides are processes, as users start them. rclone compares by checksums and lists the bucket at once; it has no
memory of the last time, so that it lists for every question. It must be installed (Debian: `apt install rclone`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measure import Count, Row, compare, take
from wormdb.sync import Sync
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.sync import SyncReport

__all__ = ["TITLE", "run"]

MODELS: Final = 500
FILES: Final = 20
CHANGES: Final = 1_000
MANY_PARTS: Final = 5_000
MANY_FILES: Final = 250_000
TITLE: Final = f"sync: {MODELS * FILES:,} files in {MODELS} models on SeaweedFS, beside rclone --checksum --fast-list"


def run() -> list[Row | Count]:
    """Start a server, push, change, compare, stop it."""
    folder = Path(tempfile.mkdtemp(prefix="bench-sync-"))
    try:
        rows: list[Row | Count] = []
        if shutil.which("rclone") is None:
            print("rclone is not installed: nothing is compared with it", file=sys.stderr)
        else:
            with S3Server() as server:
                os.environ.update(server.environment)
                rows += [*_Beside(server, folder).rows(), *_parts(server, folder)]
        return [*rows, *_many(folder)]
    finally:
        shutil.rmtree(folder)


class _Beside:
    """The same files, once for each side."""

    def __init__(self, server: S3Server, folder: Path) -> None:
        self._server = server
        self._ours, self._theirs = folder / "ours", folder / "theirs"
        for side in (self._ours, self._theirs):
            _fill(side, MODELS, FILES)
        self._round = 0

    def rows(self) -> list[Row | Count]:
        """In the order of a day: everything, nothing, one file, many."""
        first = Row("first push", "rclone", 1, take(self._push), take(self._rclone), at_most=1.5)
        report = self._report("push")
        clone = self._ours.with_name("clone")
        clone.mkdir()
        with Sync(clone, self._url()) as sync:
            sync.pull_changed()
            quiet = sync.pull_changed()
        rows: list[Row | Count] = [
            first,
            Count("requests of a push, nothing changed", "exact", report.requests, "0", report.requests == 0),
            Count("requests of a pull, nothing changed", "exact", quiet.requests, "1", quiet.requests == 1),
            compare("push, nothing changed", self._push, "rclone", self._rclone, count=1, at_least=5, rounds=3),
        ]
        self._touch(self._ours, 1)
        report = self._report("push")
        rows.append(Count("requests of a push of 1 change", "exact", report.requests, "≤ 4", report.requests <= 4))
        return [*rows, self._beside(1, at_least=3), self._beside(CHANGES, at_least=1)]

    def _beside(self, changes: int, *, at_least: float) -> Row:
        return compare(
            f"push, {changes:,} changed",
            lambda: self._changed(self._ours, changes, self._push),
            "rclone",
            lambda: self._changed(self._theirs, changes, self._rclone),
            count=1,
            at_least=at_least,
            rounds=3,
        )

    def _url(self) -> str:
        return self._server.url("ours")

    def _changed(self, side: Path, count: int, work: Callable[[], object]) -> None:
        self._touch(side, count)
        work()

    def _touch(self, side: Path, count: int) -> None:
        self._round += 1
        for number in range(count):
            (side / f"data/t/m{number % MODELS}/f{number // MODELS}").write_text(f"changed {self._round} {number}")

    def _push(self) -> None:
        command = [sys.executable, "-m", "wormdb.cli", "push", "--folder", str(self._ours), "--url", self._url()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _report(self, verb: str) -> SyncReport:
        with Sync(self._ours, self._url()) as sync:
            return sync.push_changed() if verb == "push" else sync.pull_changed()

    def _rclone(self) -> None:
        server = self._server
        # rclone cannot take a bundle of certificates from there, and the server here needs none.
        environment = {name: value for name, value in os.environ.items() if name != "AWS_CA_BUNDLE"} | {
            "RCLONE_CONFIG_W_TYPE": "s3",
            "RCLONE_CONFIG_W_PROVIDER": "Other",
            "RCLONE_CONFIG_W_ENDPOINT": server.endpoint,
            "RCLONE_CONFIG_W_ACCESS_KEY_ID": server.access_key,
            "RCLONE_CONFIG_W_SECRET_ACCESS_KEY": server.secret_key,
        }
        flags = ["--checksum", "--fast-list", "--transfers", "32", "--checkers", "32", "--s3-no-check-bucket"]
        command = ["rclone", "sync", str(self._theirs), f"W:{server.bucket}/theirs", *flags]
        subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)


def _parts(server: S3Server, folder: Path) -> list[Row | Count]:
    """One scope among 500 parts and among 5,000: the same requests, about the same time."""
    sides: dict[int, Sync] = {}
    asked: dict[int, int] = {}
    for parts in (MODELS, MANY_PARTS):
        place = folder / f"parts{parts}"
        _fill(place, parts, 1)
        sides[parts] = Sync(place, server.url(f"parts{parts}"))
        sides[parts].push_changed()

    def push(parts: int) -> None:
        file = folder / f"parts{parts}" / "data/t/m7/f0"
        file.write_text(f"{file.read_text()}.")
        asked[parts] = sides[parts].push_changed("data/t/m7").requests

    row = compare(
        f"push of 1 scope of {MANY_PARTS:,} parts",
        lambda: push(MANY_PARTS),
        f"of {MODELS}",
        lambda: push(MODELS),
        count=1,
        at_most=1.2,
        rounds=9,
    )
    equal = asked[MANY_PARTS] == asked[MODELS]
    for side in sides.values():
        side.close()
    return [row, Count("its requests", f"of {MODELS} parts: {asked[MODELS]}", asked[MANY_PARTS], "equal", equal)]


def _many(folder: Path) -> list[Row | Count]:
    """250,000 files: the command that has nothing to do, and the memory of a push of all of them.

    The bucket is a folder, so that what lies in it is not memory of the process.
    """
    script = (
        "import resource, sys; from wormdb.sync import Sync\n"
        "sync = Sync(sys.argv[1], sys.argv[2]); sync.push_changed()\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    few, many = MODELS * FILES, MANY_FILES
    taken: dict[int, float] = {}
    peaks: dict[int, float] = {}
    for count in (few, many):
        side, bucket = folder / f"many{count}", folder / f"bucket{count}"
        _fill(side, MODELS, count // MODELS)
        command = [sys.executable, "-c", script, str(side), str(bucket)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        peaks[count] = int(done.stdout) / 1024
        _push_again(side)  # files are old enough to be known by their time then
        taken[count] = min(take(partial(_push_again, side)) for _ in range(3))
        shutil.rmtree(side)
        shutil.rmtree(bucket)
    peak = peaks[many]
    return [
        Row(f"worm push of {many:,} files, nothing changed", f"of {few:,}", 1, taken[many], taken[few], at_most=10),
        Count(
            f"MB of a process that pushed {many:,} files", f"of {few:,}: {peaks[few]:.0f}", peak, "≤ 400", peak <= 400
        ),
    ]


def _push_again(side: Path) -> None:
    command = [sys.executable, "-m", "wormdb.cli", "push", "--folder", str(side)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def _fill(folder: Path, models: int, files: int) -> None:
    for model in range(models):
        place = folder / f"data/t/m{model}"
        place.mkdir(parents=True)
        for number in range(files):
            (place / f"f{number}").write_text(f"file {number} of model {model}")
