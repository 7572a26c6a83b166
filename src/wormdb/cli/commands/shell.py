"""worm shell: the verbs of worm, line by line, in one process that stays warm."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.input.lines import BREAKS, Completer, UnfinishedLineError, expanded, split_line
from wormdb.cli.input.place import PLACE, complete_folders, existing_place, only_place, shared_database
from wormdb.cli.main import VERBS, run, worm
from wormdb.cli.verbs import SHORT, Verb
from wormdb.schema.problems import find_nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from wormdb.api.database import Database

__all__ = ["command"]

_HISTORY_LINES: Final = 1_000
_DROP: Final = "\x03"
"""What stands for a line that was given up by an interrupt."""
_LEAVE: Final = frozenset({"exit", "quit", "\\q", ".exit", ".quit"})
_HELP: Final = """\
find COLLECTION [FILTER] [--sort F:desc] [--limit N]    documents as a table; FILTER: status=open,total>5 or JSON
count COLLECTION [FILTER]                               how many there are
explain COLLECTION [FILTER]                             how they would be found, and what it costs
get COLLECTION ID                                       one document as JSON
put | insert COLLECTION JSON                            save a document; several as a list
update COLLECTION [ID] UPDATE [--filter F]              {"$set": {...}} and other operators
delete COLLECTION ID... [--filter F]                    delete documents
collections                                             the collections and their sizes
help VERB                                               the options of a verb; every verb of worm works here
exit                                                    leave, as does Ctrl-D
JSON needs no quotes here. Tab completes verbs, collections, fields and operators."""


@click.command(
    "shell",
    cls=Verb,
    examples=("worm shell ./data", "worm shell s3://bucket/app", "echo 'count notes' | worm shell ./data"),
)
@click.argument("place", required=False, metavar="[URL]", shell_complete=complete_folders)
@PLACE
def command(place: str | None, url: str | None) -> int:
    """Ask and change a database line by line, with history and completion.

    Each line is a command of worm without `worm` and --url, or a short form: find, count, explain, collections; `help`
    shows them. Lines from a pipe are run until one fails; its exit code is the shell's.
    """
    chosen = existing_place(only_place(place, url))
    before = os.environ.get("WORM_URL")
    os.environ["WORM_URL"] = chosen  # every verb asks there
    try:
        with shared_database(chosen) as database:
            is_talk = sys.stdin.isatty()
            return _talk(database) if is_talk else _read_script(sys.stdin)
    finally:
        if before is None:
            os.environ.pop("WORM_URL")
        else:
            os.environ["WORM_URL"] = before


def _talk(database: Database) -> int:
    click.echo(f"{database.url}: help shows what can be asked, exit leaves")
    completer = Completer(database, _verbs_of, _options_of)
    with suppress(ImportError):  # Python may have been built without it
        _prepare_readline(completer)
    for words in _statements(_typed):
        if words[0] in _LEAVE:
            break
        run_line(words)
        completer.forget()
    return 0


def _read_script(lines: Any) -> int:
    source = iter(lines)
    for words in _statements(lambda _: next(source, None)):
        if words[0] in _LEAVE:
            return 0
        if code := run_line(words):
            return code
    return 0


def _typed(prompt: str) -> str | None:
    """The next line; None at the end. An interrupt drops what was typed."""
    try:
        return input(prompt)
    except EOFError:
        click.echo()
        return None
    except KeyboardInterrupt:
        click.echo()
        return _DROP


def _statements(read: Callable[[str], str | None]) -> Iterator[list[str]]:
    """The words of each statement, which goes on while a bracket or a quote is open."""
    text = ""
    while (line := read("... " if text else "worm> ")) is not None:
        if line == _DROP:
            text = ""
            continue
        text = f"{text}\n{line}" if text else line
        try:
            words = split_line(text)
        except UnfinishedLineError:
            continue
        text = ""
        if words:
            yield words
    if text.strip():
        click.echo(f"worm: a bracket or a quote is not closed: {text.strip()!r:.80}", err=True)


def run_line(words: Sequence[str]) -> int:
    """Run one statement; its exit code. Errors are one line, as on the command line."""
    if words[0] == "help" and len(words) == 1:
        click.echo(_HELP)
        return 0
    if words[0] in {"help", "?"}:
        return run([*expanded(words[1:2])[:2], *words[2:], "--help"])
    if words[0] == "shell":
        click.echo("worm: this is the shell", err=True)
        return 2
    if words[0] not in VERBS and (meant := find_nearest(words[0], [*SHORT, *VERBS])) in SHORT and words[0] != meant:
        click.echo(f"worm: No such command {words[0]!r:.60}. Did you mean {meant!r}? (see: help)", err=True)
        return 2
    return run(expanded(words))


def _verbs_of(words: Sequence[str]) -> list[str] | None:
    """The verbs that may follow words; None if they have one already."""
    found = _command_of(words)
    return found.list_commands(click.Context(worm)) if isinstance(found, click.Group) else None


def _command_of(words: Sequence[str]) -> click.Command | None:
    context = click.Context(worm)
    found: click.Command | None = worm
    for word in words:
        if not isinstance(found, click.Group):
            break
        found = found.get_command(context, word)
    return found


def _options_of(words: Sequence[str]) -> list[str]:
    """The options of the command that words begin."""
    found = _command_of(words)
    parameters = () if found is None else found.params
    return [name for each in parameters if isinstance(each, click.Option) for name in each.opts if name[:2] == "--"]


def _prepare_readline(completer: Completer) -> None:
    import atexit
    import readline

    file = _history_file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists():
            readline.read_history_file(file)
        readline.set_history_length(_HISTORY_LINES)
        atexit.register(_save_history, file)
    offers: list[str] = []

    def complete(word: str, state: int) -> str | None:
        nonlocal offers
        if state == 0:
            line = readline.get_line_buffer()[: readline.get_begidx()]
            offers = completer.offers(line, word)
            if len(offers) == 1 and len(line.split()) < 2:
                offers = [f"{offers[0]} "]  # a verb or a collection is a whole word; a field is not
        return offers[state] if state < len(offers) else None

    readline.set_completer(complete)
    readline.set_completer_delims(BREAKS)
    is_libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_libedit else "tab: complete")


def _save_history(file: Path) -> None:
    import readline

    with suppress(OSError):
        readline.write_history_file(file)
        file.chmod(0o600)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "worm" / "history"
