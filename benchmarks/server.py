"""The server: one-row equality by an index, every answer fresh, through 64 connections, beside one in process.

The server is a process of its own. What a request costs is the processor time of that process (user and system, from
/proc) by the number of requests; PING through the same connections in the same run tells what the shell costs. Rates
need quiet cores: clients, and SeaweedFS where it is the store, run on the same ones.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import wormdb
from benchmarks.documents import make_documents
from benchmarks.measure import Count, still
from benchmarks.server_inserts import measure_inserts
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.measure import Row
    from wormdb import Collection, Document

__all__ = ["TITLE", "run"]

DOCUMENTS = 10_000
KEPT = 500
"""Documents that are asked for again and again."""
CONNECTIONS = 64
SECONDS = 3.0
ROUNDS = 3
SHELL_MICROS = 20
TITLE = f"server: equality by an index, one row of {DOCUMENTS:,} documents of 1 KB, {CONNECTIONS} connections"


@dataclass(frozen=True)
class Load:
    """What a load through sockets took."""

    requests: int
    seconds: float
    micros: float
    """Of the server's processor, for each request."""

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def run() -> list[Row | Count]:
    """Serve a folder and SeaweedFS, and ask."""
    rows: list[Row | Count] = []
    documents = make_documents(DOCUMENTS)
    emails = [one["email"] for one in documents[:KEPT]]
    with tempfile.TemporaryDirectory() as folder:
        rows += _measure("folder", folder, documents, emails, rate_bar=5_000)
    with tempfile.TemporaryDirectory() as folder:
        rows += _measure_shapes(folder)
    with S3Server() as server:
        os.environ.update(server.environment)
        rows += _measure("SeaweedFS", server.url("bench-server"), documents, emails, rate_bar=None)
        rows += measure_inserts(server)
    return rows


def _measure(
    name: str, url: str, documents: list[dict[str, object]], emails: list[str], *, rate_bar: int | None
) -> list[Row | Count]:
    with wormdb.connect(url) as database:
        things = database["things"]
        things.insert_many(documents)
        things.create_index("email")
        things.build_indexes()  # a distant store has it later otherwise, and a scan of columns would be measured
        things.forward()
    with wormdb.connect(url) as database:  # as cold as the server is: what was kept decides about plans
        inside = _in_process(database["things"], emails)
    with _served(url) as (port, pid), ExitStack() as stack:
        wires = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)]
        for wire in wires:
            wire.sendall(_packed("SESSION.ATTRIBUTE", "SET", "reply_type", "json"))
            assert wire.recv(100) == b"+OK\r\n"
        queries = [_packed("BUCKET.QUERY", "things", f'{{"email":"{email}"}}') for email in emails]
        _load(wires, queries, pid, 1.0)  # everything is read once
        pings, asked = [], []
        for _ in range(ROUNDS):
            pings.append(_load(wires, [_packed("PING")], pid, SECONDS / 3))
            asked.append(_load(wires, queries, pid, SECONDS))
    ping = min(pings, key=lambda each: each.micros)
    query = min(asked, key=lambda each: each.micros)
    best, shell = max(each.rate for each in asked), max(each.rate for each in pings)
    bar = 1.5 * inside + SHELL_MICROS
    load = os.getloadavg()[0]
    return [
        Count(
            f"{name}: µs of the server's processor for a query",
            f"in process {inside:.0f} µs, PING {ping.micros:.1f} µs; load {load:.1f}",
            query.micros,
            f"≤ {bar:.0f} (1.5x + {SHELL_MICROS})",
            query.micros <= bar,
        ),
        Count(
            f"{name}: queries a second",
            f"PING {shell:,.0f} a second; load {load:.1f}",
            best,
            "none" if rate_bar is None else f"≥ {rate_bar:,} on two quiet cores",
            rate_bar is None or best >= rate_bar,
        ),
    ]


SHAPES: tuple[tuple[str, dict[str, object], str | None, int], ...] = (
    ("equality, LIMIT 100", {"category": 7}, None, 100),
    ("range, LIMIT 100", {"age": {"$gte": 20, "$lt": 40}}, None, 100),
    ("equality, SORTBY score, LIMIT 10", {"category": 7}, "score", 10),
)
"""The queries of Kronotop's benchmark: what they ask for, the order, and how many documents a reply has."""


def _measure_shapes(url: str) -> list[Row | Count]:
    """Kronotop's shapes on a folder: what a reply of many documents costs, beside the same rows in process."""
    with wormdb.connect(url) as database:
        things = database["things"]
        things.insert_many(
            {"_id": f"{n:06}", "category": n % 50, "age": n % 80, "score": n * 7919 % 10_007, "text": "x" * 200}
            for n in range(DOCUMENTS)
        )
        for field in ("category", "age"):
            things.create_index(field)
        things.forward()
    rows: list[Row | Count] = []
    with (
        wormdb.connect(url) as database,
        _served(url) as (port, pid),
        socket.create_connection(("127.0.0.1", port)) as wire,
    ):
        wire.sendall(_packed("SESSION.ATTRIBUTE", "SET", "reply_type", "json"))
        assert wire.recv(100) == b"+OK\r\n"
        for name, asked, order, limit in SHAPES:
            words = ["BUCKET.QUERY", "things", json.dumps(asked), "LIMIT", str(limit)]
            query = [_packed(*words, *(() if order is None else ("SORTBY", order, "ASC")))]
            _load([wire], query, pid, 0.5)
            through = min(_load([wire], query, pid, 1.0).micros for _ in range(ROUNDS))
            inside = _shape_in_process(database["things"], asked, order, limit)
            rows.append(
                Count(
                    f"folder, {name}: µs of the server's processor for a query",
                    f"in process {inside:.0f} µs, {through / inside:.2f}x; {through / limit:.1f} µs a document",
                    through,
                    "none",
                    passed=True,
                )
            )
    return rows


def _shape_in_process(things: Collection[Document], asked: dict[str, object], order: str | None, limit: int) -> float:
    def ask(times: int) -> None:
        for _ in range(times):
            cursor = things.cursor(asked, sort=order, batch_size=limit, raw=True)
            assert len(cursor.next_batch()) == limit
            cursor.close()

    ask(20)
    return _best(ask, 100) * 1e6


def _in_process(things: Collection[Document], emails: list[str]) -> float:
    """Microseconds of the processor for the same query without a server, its probe included, at best."""

    def ask(times: int) -> None:
        for number in range(times):
            assert len(things.cursor({"email": emails[number % KEPT]}, raw=True).next_batch()) == 1

    ask(KEPT)
    return _best(ask, KEPT) * 1e6


def _best(ask: Callable[[int], None], times: int) -> float:
    best = float("inf")
    with still():
        for _ in range(2 * ROUNDS):
            begin = time.process_time()
            ask(times)
            best = min(best, (time.process_time() - begin) / times)
    return best


@contextmanager
def _served(url: str) -> Iterator[tuple[int, int]]:
    """A server of its own process: its port and its id."""
    command = [sys.executable, "-m", "wormdb.cli", "serve", url, "--resp", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":([0-9]+)$", process.stdout.readline().strip())
            assert found is not None
            yield int(found[1]), process.pid
        finally:
            process.terminate()
            process.wait()


def _packed(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(wires: list[socket.socket], requests: list[bytes], pid: int, seconds: float) -> Load:
    """Keep one request of each connection on its way for some seconds."""
    turn, done = 0, 0
    buffers = {wire: bytearray() for wire in wires}
    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire, selectors.EVENT_READ)
        before, begin = _processor_seconds(pid), time.perf_counter()
        for wire in wires:
            wire.sendall(requests[turn % len(requests)])
            turn += 1
        waiting = len(wires)
        while waiting:
            is_over = time.perf_counter() - begin > seconds
            for key, _ in selector.select():
                wire = cast("socket.socket", key.fileobj)
                buffer = buffers[wire]
                buffer += wire.recv(65_536)
                if not _is_whole(buffer):
                    continue
                buffer.clear()
                done += 1
                if is_over:
                    waiting -= 1
                else:
                    wire.sendall(requests[turn % len(requests)])
                    turn += 1
        taken = time.perf_counter() - begin
        spent = _processor_seconds(pid) - before
    return Load(done, taken, spent / done * 1e6)


def _is_whole(buffer: bytearray) -> bool:
    """Whether a reply has arrived: PONG, or a cursor with its rows."""
    if not buffer.endswith(b"\r\n"):
        return False
    if buffer.startswith(b"+"):
        return True
    assert buffer.startswith(b"*2\r\n:"), bytes(buffer[:80])
    place = buffer.find(b"*", 4)
    end = buffer.find(b"\r\n", place)
    if place < 0 or end < 0:
        return False
    place, rows = end + 2, int(buffer[place + 1 : end])
    for _ in range(rows):
        end = buffer.find(b"\r\n", place)
        if end < 0:
            return False
        place = end + 4 + int(buffer[place + 1 : end])
    return len(buffer) == place
