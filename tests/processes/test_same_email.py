"""Many threads and processes save the same e-mail at the same moment: one wins, and all others are told who."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.processes.same_email import SCHEMA, race
from wormdb.storage.memory import drop_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[2]
THREADS = 64
PROCESSES = 4
EMAILS = [f"hi{number}@acme.com" for number in range(4)]


def check(told: list[dict[str, Any]], email: str) -> str:
    """Exactly one of all winners, whose id everybody else was given; returns it."""
    assert len(told) == THREADS
    winners = [each["id"] for each in told if not each["message"]]
    assert len(winners) == 1, winners
    (winner,) = winners
    message = f"Unique constraint violation: email={email!r} already exists on entity {winner!r}"
    assert {each["message"] for each in told if each["id"] != winner} == {message}
    assert {each["owner"] for each in told} == {winner}
    return str(winner)


def check_stored(url: str, winners: dict[str, str]) -> None:
    with wormdb.connect(url, schema=SCHEMA) as db:
        stored = {customer["email"]: customer.id for customer in db.model("Customer")}
        assert stored == winners
        assert [change.id for change in db.model("Customer").watch()] == list(winners.values())


class Racer:
    """One process of the race, told by its input and telling by its output."""

    def __init__(self, url: str) -> None:
        command = [sys.executable, "-m", "tests.processes.same_email", url, str(THREADS // PROCESSES)]
        self._process = subprocess.Popen(
            command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def send(self, email: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(email + "\n")
        self._process.stdin.flush()

    def read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def race_processes(url: str, stack: ExitStack, emails: list[str] = EMAILS) -> None:
    racers = []
    for _ in range(PROCESSES):
        racer = Racer(url)
        stack.callback(racer.end)
        racers.append(racer)
    assert [racer.read() for racer in racers] == ["ready\n"] * PROCESSES
    winners = {}
    for email in emails:
        for racer in racers:
            racer.send(email)
        told = [each for racer in racers for each in json.loads(racer.read())]
        winners[email] = check(told, email)
    check_stored(url, winners)


def test_threads_on_memory() -> None:
    url = "memory://same-email"
    with wormdb.connect(url, schema=SCHEMA) as db:
        winners = {email: check(race(db.model("Customer"), email, THREADS), email) for email in EMAILS}
        check_stored(url, winners)
    drop_memory("same-email")


def test_processes_on_a_folder(tmp_path: Path, stack: ExitStack) -> None:
    race_processes(str(tmp_path), stack)


@pytest.mark.s3
def test_processes_on_s3(s3_url: str, stack: ExitStack) -> None:
    race_processes(s3_url, stack, EMAILS[:2])  # the server takes three seconds for each
