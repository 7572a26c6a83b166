"""Connections that say nothing: thousands of them cost memory alone, and little of it."""

from __future__ import annotations

import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.server.several import ServedProcess
from tests.server.wire import Wire

BYTES_EACH = 8 * 1024
"""What a connection may cost a server, beside what the kernel has for it; 2.6 KB were measured, with ten thousand."""
SPARE_FILES = 500


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_a_server_raises_its_limit_of_open_files(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (700, hard))
    try:
        server = ServedProcess(str(tmp_path), "--routing", "off", "--connections", "300")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    server.kill()
    assert next(line.split()[3] for line in limits.splitlines() if line.startswith("Max open files")) == "800"


def measured(place: str, count: int) -> float:
    """The bytes that each of some idle connections costs a server of its own process, which serves on meanwhile."""
    with ExitStack() as stack:
        server = ServedProcess(place, "--routing", "off", "--connections", str(count + 10))
        stack.callback(server.kill)
        with Wire(server.port) as wire:
            assert wire.ask("BUCKET.CREATE", "b") == "+OK"
            assert wire.ask("BUCKET.QUERY", "b", "{}") == "[:1, []]"
        before = resident(server.process.pid)
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(count)]
        with Wire(server.port) as wire:
            assert f"connected_clients:{count + 1}" in wire.ask("INFO", "clients")
            assert wire.ask("BUCKET.QUERY", "b", "{}") == "[:1, []]"
            after = resident(server.process.pid)
        for each in (idle[0], idle[-1]):
            each.sendall(b"PING\r\n")
            assert each.recv(100) == b"+PONG\r\n"
    return (after - before) / count


@pytest.mark.timeout(120)
def test_idle_connections_cost_little_memory(tmp_path: Path) -> None:
    assert measured(str(tmp_path), 500) < BYTES_EACH


@pytest.mark.long
@pytest.mark.timeout(600)
def test_ten_thousand_idle_connections_cost_little_memory(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_000 + SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may have {hard:,} files here, and {wanted:,} are needed: raise `ulimit -n`")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    try:
        each = measured(str(tmp_path), 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    print(f"{each:,.0f} bytes a connection")  # noqa: T201 - shown by pytest -s
    assert each < BYTES_EACH
