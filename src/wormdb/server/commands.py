"""What a command is: declared once, and from that come its dispatch, errors of counting, COMMAND DOCS and the docs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from wormdb.server.faults import wrong_count
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Handler = Callable[[Any, list[bytes]], Any]
    """Carries out a command of a session, given its words; an ErrorReply or a WormError is its reply."""

__all__ = ["Command", "Place", "find_command", "refuse_bare"]

Place = Literal["loop", "try", "read", "fresh", "thread", "handed"]
"""Where it runs: in the loop; in the loop if it need not wait; the same for a read of one bucket, which must be fresh;
such a read that always takes long, in a thread; always in a thread; in a thread that no command holds which waits for
another server."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command, or one of the subcommands of another."""

    name: str
    syntax: str
    """Its arguments, for people."""
    summary: str
    run: Handler
    least: int = 0
    """Arguments that it needs, behind its name."""
    most: int | None = None
    """Arguments that it takes; None for any number."""
    place: Place = "loop"
    is_write: bool = False
    is_open: bool = False
    """Whether it may be sent before a client has said who it is."""
    bucket_at: int | None = None
    """Which word names a bucket."""
    subcommands: tuple[Command, ...] = ()
    group: str = "connection"

    @property
    def arity(self) -> int:
        """As Redis tells it: the number of words, or minus the least number."""
        return self.least + 1 if self.most == self.least else -(self.least + 1)

    @property
    def flags(self) -> list[str]:
        """As Redis tells them."""
        if self.group == "connection":
            return ["fast", "loading", "stale", *(["noauth"] if self.is_open else [])]
        return ["write" if self.is_write else "readonly"]

    def check_count(self, words: list[bytes], before: int = 0) -> None:
        """An ErrorReply for too few or too many words; the first `before` of them belong to the command above."""
        count = len(words) - 1 - before
        if count < self.least or (self.most is not None and count > self.most):
            name = words[0].decode("utf-8", "replace").upper() if before else self.name
            raise ErrorReply("wrong number of parameters") if before and self.group == "index" else wrong_count(name)


def find_command(table: Mapping[bytes, Command], words: list[bytes]) -> Command:
    """The command, or subcommand, that words mean, with the right number of them; an ErrorReply if there is none."""
    command = table.get(words[0]) or table.get(words[0].upper())
    if command is None:
        name = words[0][:128].decode("utf-8", "replace")
        given = " ".join(f"'{word[:64].decode('utf-8', 'replace')}'" for word in words[1:4])
        raise ErrorReply(f"unknown command '{name}', with args beginning with: {given}")
    command.check_count(words)
    if not command.subcommands or (len(words) == 1 and not command.least):
        return command
    wanted = words[1].upper().decode("utf-8", "replace")
    for each in command.subcommands:
        if each.name == wanted:
            each.check_count(words, 1)
            return each
    raise ErrorReply(f"unknown subcommand: '{words[1][:128].decode('utf-8', 'replace')}'")


def refuse_bare(session: Any, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the session
    """For a command that only its subcommands carry out."""
    raise wrong_count(words[0].decode("utf-8", "replace"))
