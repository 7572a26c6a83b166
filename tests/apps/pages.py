"""Applications of the pages, started as a reader would start them: the code is the page's own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tests.test_docs import ROOT, blocks
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

__all__ = ["Response", "ask", "environment", "free_port", "save_page", "served"]

READY_SECONDS_MAX = 60.0


def save_page(page: str, folder: Path) -> None:
    """Save what the page tells a reader to save."""
    for block in blocks(ROOT / "docs" / "how-to" / page):
        if block.title is not None:
            (folder / block.title).write_text(block.code)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(url: str, **more: str) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": url, "PYTHONWARNINGS": "ignore::DeprecationWarning", **more}


@dataclass(frozen=True)
class Response:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


def ask(base: str, method: str, path: str, body: Any = None, **headers: str) -> Response:
    """One request; an answer of any status is an answer."""
    data = None if body is None else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(base + path, data, {"Content-Type": "application/json", **named}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            text = answer.read()
            return Response(answer.status, dict(answer.headers), json.loads(text) if text else None)
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
            return Response(error.code, dict(error.headers), json.loads(text) if text else None)


@contextmanager
def served(command: list[str], folder: Path, variables: Mapping[str, str], ready: str) -> Iterator[str]:
    """A server of a page; ends with its children. Yields where it listens, when it answers `ready`."""
    port = free_port()
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", *(word.replace("PORT", str(port)) for word in command)],
            cwd=folder,
            env=dict(variables),
            stdout=output,
            stderr=output,
        )
        base = f"http://127.0.0.1:{port}"
        try:
            _wait(base + ready, process, log)
            yield base
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    clock = SystemClock()
    end = clock.monotonic() + READY_SECONDS_MAX
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            assert process.poll() is None, log.read_text()
            assert clock.monotonic() < end, log.read_text()
            clock.sleep(0.05)
