"""Node processes that are started, killed, stopped and continued, each by its own id."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.processes.fleet import REPOSITORY, WAIT_SECONDS_MAX, Ended
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["NodeFleet"]


class NodeFleet(Ended):
    """Several nodes of one database."""

    def __init__(self, url: str, folder: Path, ids: list[int], interval_ms: int) -> None:
        self._url = url
        self._folder = folder
        self.ids = ids
        self._interval_ms = interval_ms
        self._clock = SystemClock()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self.pauses = 0

    @property
    def interval(self) -> float:
        return self._interval_ms / 1000

    def _start_all(self) -> None:
        for node in self.ids:
            self.processes[node] = self.start(node)

    def start(self, node: int) -> subprocess.Popen[bytes]:
        """A process that wants to be a node; who calls this ends it."""
        command = [sys.executable, "-m", "wormdb.cli", "node", "run", "--id", str(node)]
        with (self._folder / f"node{node}.err").open("ab") as errors:
            return subprocess.Popen(
                [*command, "--interval", str(self._interval_ms), "--url", self._url],
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def kill_and_restart(self, node: int) -> None:
        process = self.processes[node]
        process.kill()
        assert process.wait() == -signal.SIGKILL, self.errors()
        self.kills += 1
        self.processes[node] = self.start(node)

    def pause(self, node: int, seconds: float) -> None:
        process = self.processes[node]
        process.send_signal(signal.SIGSTOP)
        self._clock.sleep(seconds)
        process.send_signal(signal.SIGCONT)
        self.pauses += 1

    def stop(self) -> None:
        """End all by SIGTERM; raises AssertionError if one does not end well."""
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        codes = [process.wait(WAIT_SECONDS_MAX) for process in self.processes.values()]
        assert codes == [0] * len(codes), self.errors()

    def errors(self) -> str:
        return "\n".join(path.read_text()[-3000:] for path in sorted(self._folder.glob("node*.err")))

    def _end_all(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
