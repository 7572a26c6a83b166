"""worm serve: a process that serves until it is told to stop, and loses nothing when it is killed."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.server.wire import Wire
from wormdb.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """A server, its port, and the address of its health."""
    command = [sys.executable, "-m", "wormdb.cli", "serve", *arguments, "--resp", "127.0.0.1:0", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            listening = re.search(r"on 127\.0\.0\.1:([0-9]+)$", process.stdout.readline().strip())
            health = re.search(r"(http://\S+)$", process.stdout.readline().strip())
            assert listening is not None
            assert health is not None
            yield process, int(listening[1]), health[1]
        finally:
            process.kill()
            process.wait()


def test_it_serves_tells_its_health_and_stops(tmp_path: Path) -> None:
    with serving(str(tmp_path)) as (process, port, health):
        with Wire(port) as wire:
            assert wire.ask("BUCKET.CREATE", "b") == "+OK"
        with urllib.request.urlopen(f"{health}/health") as answer:
            assert b'"status":"ok"' in answer.read()
        with urllib.request.urlopen(f"{health}/metrics") as answer:
            text = answer.read().decode()
        assert "worm_server_commands_total 1\n" in text
        assert 'worm_server_run_total{place="threads"} 1\n' in text
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert output == "the server has stopped\n"


def test_killed_at_any_moment_it_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    for round_ in range(3):
        with serving(str(tmp_path)) as (process, port, _), Wire(port) as wire:
            assert wire.ask("BUCKET.CREATE", "b", "IF-NOT-EXISTS") == "+OK"
            wire.ask("SESSION.ATTRIBUTE", "SET", "input_type", "json")
            for number in range(round_ * 100, round_ * 100 + 20 + round_):
                assert wire.ask("BUCKET.INSERT", "b", "DOCS", f'{{"n":{number}}}').startswith("[")
                acknowledged.append(number)
            process.kill()
    with wormdb.connect(tmp_path) as database:
        assert sorted(row["n"] for row in database["b"].find()) == acknowledged
        assert [each.findings for each in database.verify(["b"])] == [()]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--resp", "0.0.0.0:0"], "only for this machine"),
        (["--resp", "nonsense"], "host:port"),
        (["--cert", "CERT"], "it needs a certificate and its key"),
    ],
)
def test_what_is_not_safe_is_refused(
    tmp_path: Path, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    certificate = tmp_path / "cert.pem"
    certificate.write_text("")
    given = [str(certificate) if each == "CERT" else each for each in arguments]
    assert run(["serve", str(tmp_path / "db"), *given]) == 2
    assert reason in capsys.readouterr().err


def test_it_needs_a_place(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORM_URL", raising=False)
    assert run(["serve"]) == 2
    assert "URL" in capsys.readouterr().err
