"""Work that nobody waits for."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from wormdb.engine.forward.keeper import Background
from wormdb.errors import UnavailableError


def test_the_same_work_never_waits_twice_and_close_drops_what_waits() -> None:
    background = Background()
    begun, free = threading.Event(), threading.Event()
    done: list[str] = []

    def slow() -> None:
        begun.set()
        assert free.wait(60)
        done.append("slow")

    background.submit("slow", slow)
    assert begun.wait(60)
    for name in ("a", "a", "b"):
        background.submit(name, lambda name=name: done.append(name))  # type: ignore[misc] # the name is bound now
    ended = threading.Event()
    background.submit("last", ended.set)
    free.set()
    assert ended.wait(60)
    background.close()
    assert done == ["slow", "a", "b"]
    background.submit("late", lambda: done.append("late"))
    assert done == ["slow", "a", "b"]


def test_what_fails_does_not_stop_what_comes_after(caplog: pytest.LogCaptureFixture) -> None:
    background = Background()
    ended = threading.Event()

    def fail() -> None:
        raise UnavailableError("the store", reason="it is away")

    background.submit("fails", fail)
    background.submit("works", ended.set)
    assert ended.wait(60)
    background.close()
    assert "it is away" in caplog.text


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_ends_its_thread_and_the_next_work_gets_another() -> None:
    background = Background()
    threads: list[threading.Thread] = []
    ended = threading.Event()

    def broken() -> None:
        threads.append(threading.current_thread())
        raise ZeroDivisionError

    background.submit("broken", broken)
    while not threads or threads[0].is_alive():
        threading.Event().wait(0.01)
    background.submit("works", ended.set)
    assert ended.wait(60)
    background.close()


def test_a_program_that_forgot_to_close_ends_after_the_step_that_runs() -> None:
    program = (
        "import threading, time; from wormdb.engine.forward.keeper import Background\n"
        "begun = threading.Event(); background = Background()\n"
        "def step():\n    begun.set(); time.sleep(0.3); print('whole')\n"
        "background.submit('step', step); begun.wait()\n"
        "background.submit('next', lambda: print('never'))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr
