"""Inserts of 64 connections into one bucket, by one server and by three, with routing and without.

On two cores three processes share what one would have, so what more machines would give does not show. What shows is
how often writers lose races: where the store is far away, servers that commit each for itself wait for each other.
"""

from __future__ import annotations

import asyncio
import os
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

import wormdb
from benchmarks.measure import Count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.testing.s3_server import S3Server

__all__ = ["measure_inserts"]

CONNECTIONS = 64
SECONDS = 5.0
GET_SECONDS, PUT_SECONDS = 0.025, 0.1
_REPLY_BYTES = len(b"*1\r\n$24\r\n") + 24 + 2
_BODY = '{"name":"%s","text":"%s"}'


def measure_inserts(store: S3Server) -> list[Count]:
    """The rows of a folder, of SeaweedFS, and of SeaweedFS far away."""
    rows: list[Count] = []
    with tempfile.TemporaryDirectory() as folder:
        rows += _rows("folder", [f"{folder}/{n}" for n in range(3)])
    rows += _rows("SeaweedFS", [store.url(f"inserts-{n}") for n in range(3)])
    with _far(store) as endpoint:
        urls = [store.url(f"far-{n}", endpoint=endpoint) for n in range(3)]
        rows += _rows("SeaweedFS, 25 ms a GET, 100 ms a PUT", urls)
    return rows


def _rows(name: str, urls: list[str]) -> list[Count]:
    alone, one = _rate(urls[0], 1, "prefer")
    routed, shared = _rate(urls[1], 3, "prefer")
    unrouted, apart = _rate(urls[2], 3, "off")
    load = f"load {os.getloadavg()[0]:.1f}"
    what = f"{name}: {CONNECTIONS} connections, 3 servers with routing"
    return [
        Count(
            f"{what}: inserts a second", f"1: {alone:,.0f}, 3 without: {unrouted:,.0f}; {load}", routed, "none", True
        ),
        Count(f"{what}: inserts an entry", f"1: {one:.1f}, 3 without: {apart:.1f}", shared, "none", True),
    ]


def _rate(url: str, servers: int, routing: str) -> tuple[float, float]:
    """Inserts a second, and for each entry of the log."""
    with ExitStack() as stack:
        ports = [stack.enter_context(_served(url, routing)) for _ in range(servers)]
        wires = [
            stack.enter_context(socket.create_connection(("127.0.0.1", ports[n % servers]))) for n in range(CONNECTIONS)
        ]
        _ask(wires[0], "BUCKET.CREATE", "things")
        for wire in wires:
            for name, value in (("input_type", "json"), ("object_id_format", "hex")):
                _ask(wire, "SESSION.ATTRIBUTE", "SET", name, value)
        if routing != "off":
            _await_all(wires[:servers], servers)
        _load(wires, 2.0)
        done, seconds = _load(wires, SECONDS)
    with wormdb.connect(url) as database:
        there = database["things"].count()
        assert there >= done, "what was acknowledged is there"
        return done / seconds, there / database["things"].refresh()


def _await_all(wires: list[socket.socket], servers: int) -> None:
    """Until all servers know of each other."""
    for wire in wires:
        while _ask(wire, "BUCKET.LOCATE", "things").count(b"127.0.0.1") < servers:
            time.sleep(0.1)


@contextmanager
def _served(url: str, routing: str) -> Iterator[int]:
    command = [sys.executable, "-m", "wormdb.cli", "serve", url, "--resp", "127.0.0.1:0", "--routing", routing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r":([0-9]+)$", process.stdout.readline().strip())
            assert found is not None
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()


def _packed(*words: str) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word.encode()) for word in words)


def _ask(wire: socket.socket, *words: str) -> bytes:
    wire.sendall(_packed(*words))
    reply = wire.recv(65_536)
    assert not reply.startswith(b"-"), reply
    return reply


def _load(wires: list[socket.socket], seconds: float) -> tuple[int, float]:
    """Keep one insert of each connection on its way for some seconds: how many were acknowledged, in which time."""
    done, made = 0, 0
    buffers = {wire: bytearray() for wire in wires}

    def send(wire: socket.socket) -> None:
        nonlocal made
        made += 1
        wire.sendall(_packed("BUCKET.INSERT", "things", "DOCS", _BODY % (made, "x" * 900)))

    with selectors.DefaultSelector() as selector:
        for wire in wires:
            selector.register(wire, selectors.EVENT_READ)
        begin = time.perf_counter()
        for wire in wires:
            send(wire)
        waiting = len(wires)
        while waiting:
            is_over = time.perf_counter() - begin > seconds
            for key, _ in selector.select():
                wire = cast("socket.socket", key.fileobj)
                buffers[wire] += wire.recv(65_536)
                assert not buffers[wire].startswith(b"-"), bytes(buffers[wire])
                if len(buffers[wire]) < _REPLY_BYTES:
                    continue
                buffers[wire].clear()
                done += 1
                if is_over:
                    waiting -= 1
                else:
                    send(wire)
    return done, time.perf_counter() - begin


@contextmanager
def _far(store: S3Server) -> Iterator[str]:
    """The endpoint of a proxy that hands on answers of the store after a while."""
    place = urlsplit(store.endpoint)
    loop = asyncio.new_event_loop()

    async def serve(near: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        back, far = await asyncio.open_connection(place.hostname, place.port)
        wait = [0.0]

        async def requests() -> None:
            while data := await near.read(65_536):
                if data[:4] in (b"GET ", b"HEAD", b"POST", b"DELE", b"PUT "):
                    wait[0] = PUT_SECONDS if data[:4] == b"PUT " else GET_SECONDS
                far.write(data)
            far.close()

        async def answers() -> None:
            while data := await back.read(65_536):
                pause, wait[0] = wait[0], 0.0
                await asyncio.sleep(pause)
                out.write(data)
            out.close()

        with suppress(asyncio.CancelledError):
            await asyncio.gather(requests(), answers(), return_exceptions=True)

    async def start() -> asyncio.Server:
        return await asyncio.start_server(serve, "127.0.0.1", 0)

    server = loop.run_until_complete(start())
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        asyncio.run_coroutine_threadsafe(_end_all(server), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end_all(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
