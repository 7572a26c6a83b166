"""Writer processes that are started, killed, stopped and continued, each by its own id."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tests.processes.journal import Deed, read_deeds
from tests.processes.writer import THREADS
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

__all__ = ["Ended", "Fleet"]

REPOSITORY = Path(__file__).parents[2]
WAIT_SECONDS_MAX = 90.0
POLL_SECONDS = 0.03


class Ended:
    """Processes that a `with` statement starts, and that do not outlive it."""

    def __enter__(self) -> Self:
        try:
            self._start_all()
        except BaseException:
            self._end_all()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all()

    def _start_all(self) -> None:
        raise NotImplementedError

    def _end_all(self) -> None:
        raise NotImplementedError


class Fleet(Ended):
    """Several writers on one database."""

    def __init__(
        self,
        url: str,
        folder: Path,
        commit_seconds: list[float],
        *,
        program: str = "tests.processes.writer",
        threads: int = THREADS,
    ) -> None:
        """One process for each of `commit_seconds`; journals, one for each thread, and errors go to `folder`."""
        self._program = program
        self._threads = threads
        self._url = url
        self._folder = folder
        self._commit_seconds = commit_seconds
        self._clock = SystemClock()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self.kills = 0
        self.pauses = 0

    @property
    def size(self) -> int:
        return len(self._commit_seconds)

    def _start_all(self) -> None:
        for writer in range(self.size):
            self._start(writer)

    def progress(self, *writers: int) -> int:
        """Bytes in the journals of some writers: they grow with every step."""
        return sum(path.stat().st_size for writer in writers for path in self._journals(writer) if path.exists())

    def others(self, writer: int) -> list[int]:
        return [other for other in range(self.size) if other != writer]

    def wait_for_steps(self, writer: int, bytes_more: int) -> None:
        """Until a writer got on; raises AssertionError if it failed or hangs."""
        goal = self.progress(writer) + bytes_more
        self.wait_until(lambda: self.progress(writer) >= goal, f"writer {writer} makes no progress")

    def wait_until(self, is_so: Callable[[], bool], complaint: str, seconds: float = WAIT_SECONDS_MAX) -> None:
        deadline = self._clock.monotonic() + seconds
        while not is_so():
            self._check_alive()
            assert self._clock.monotonic() < deadline, complaint
            self._clock.sleep(POLL_SECONDS)

    def kill_and_restart(self, writer: int) -> None:
        process = self._processes[writer]
        process.kill()
        assert self._end(process) == -signal.SIGKILL, self.errors()
        self.kills += 1
        self._start(writer)

    def pause(self, writer: int, seconds_min: float, seconds_max: float) -> None:
        """Stop a writer until the others got on without it."""
        process = self._processes[writer]
        process.send_signal(signal.SIGSTOP)
        try:
            begin = self._clock.monotonic()
            goal = self.progress(*self.others(writer)) + 2000
            # A stopped process may hold a folder's lock, so the others may have to wait for it.
            while self._clock.monotonic() < begin + seconds_min or (
                self.progress(*self.others(writer)) < goal and self._clock.monotonic() < begin + seconds_max
            ):
                self._clock.sleep(POLL_SECONDS)
        finally:
            process.send_signal(signal.SIGCONT)
        self.pauses += 1

    def stop(self) -> None:
        """Let every writer finish its step and end; raises AssertionError if one does not end well."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        codes = [process.wait(WAIT_SECONDS_MAX) for process in self._processes.values()]
        assert codes == [0] * self.size, self.errors()

    def deeds(self) -> dict[str, Deed]:
        found: dict[str, Deed] = {}
        for writer in range(self.size):
            for path in self._journals(writer):
                found |= read_deeds(path)
        return found

    def errors(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self._folder.glob("*.err")))

    def _journals(self, writer: int) -> list[Path]:
        return [self._folder / f"w{writer}-{thread}.jsonl" for thread in range(self._threads)]

    def _start(self, writer: int) -> None:
        command = [sys.executable, "-m", self._program, self._url, f"w{writer}", str(self._folder)]
        with (self._folder / f"w{writer}.err").open("ab") as errors:
            self._processes[writer] = subprocess.Popen(
                [*command, str(self._commit_seconds[writer])],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def _check_alive(self) -> None:
        ended = {writer: process.poll() for writer, process in self._processes.items() if process.poll() is not None}
        assert ended == {}, f"writers ended by themselves, with codes {ended}:\n{self.errors()}"

    def _end_all(self) -> None:
        for process in self._processes.values():
            process.kill()
            self._end(process)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> int:
        code = process.wait()
        if process.stdin is not None:
            process.stdin.close()
        return code
