"""Azurite, a server that speaks the protocol of Azure, for long tests; npm has its command `azurite-blob`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from email.utils import formatdate
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["azure_server"]

ACCOUNT = "wormdbtest"
CONTAINER = "bucket"
KEY = base64.b64encode(b"the key of an emulator on loopback").decode()
HOST = "127.0.0.1"
READY_SECONDS_MAX = 60.0


@contextmanager
def azure_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of an empty container, with the credentials in the environment. Skips the test without the command."""
    command = shutil.which("azurite-blob")
    if command is None:
        pytest.skip("azurite-blob is not installed (npm install --global azurite)")
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    options = ["--skipApiVersionCheck", "--loose", "--disableTelemetry", "--silent"]
    with tempfile.TemporaryDirectory(prefix="wormdb-az-") as folder:
        process = subprocess.Popen(
            [command, "--blobHost", HOST, "--blobPort", str(port), "--location", folder, *options],
            env=os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        try:
            _make_container(port)
            monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", ACCOUNT)
            monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
            yield f"az://{CONTAINER}/tests?account={ACCOUNT}&endpoint=http://{HOST}:{port}/{ACCOUNT}"
        finally:
            process.kill()
            process.wait()


def _make_container(port: int) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + READY_SECONDS_MAX
    while True:
        connection = HTTPConnection(HOST, port, timeout=10)
        try:
            headers = _signed(f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container")
            connection.request("PUT", f"/{ACCOUNT}/{CONTAINER}?restype=container", headers=headers)
            status = connection.getresponse().status
        except OSError:
            assert clock.monotonic() < deadline, "it did not start"
            clock.sleep(0.1)
        else:
            assert status == 201
            return
        finally:
            connection.close()


def _signed(resource: str) -> dict[str, str]:
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    lines = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    text = "PUT" + 12 * "\n" + lines + resource
    signature = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
    return headers | {
        "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}",
        "Content-Length": "0",
    }
