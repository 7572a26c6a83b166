"""The command `worm`: parse, call, and turn errors into one line and an exit code.

Exit codes: 0 done, 1 failed, 2 the command line or its input is wrong, 3 files changed on both sides, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from wormdb.cli.show.terminal import guard_terminals, guarded_terminals
from wormdb.cli.verbs import Verbs
from wormdb.errors import InvalidRequestError, MissingExtraError, WormError
from wormdb.system.installed import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

# Verb → one line of help. The module is imported only when its verb is used,
# so that `worm --help` does not pay for every library below.
VERBS = {
    "adopt": "Make a collection of files that others wrote a managed one.",
    "blob": "Write, read and list the blobs of a collection: files that its documents refer to.",
    "completion": "Print the script that completes worm's commands in a shell.",
    "cost": "Estimate the monthly bill of a workload, or show what a database uses.",
    "delete": "Delete documents by their ids, or all that --filter finds, in one batch.",
    "diff": "Show the fields in which two versions of a document differ.",
    "doctor": "Test whether a bucket or folder can hold a database.",
    "drop": "Remove a collection with all that it has: its name is free then.",
    "erase": "Leave nothing of documents: versions, snapshots, trash, blobs of their own and readable files.",
    "files": "Show, reconcile, switch on and switch off readable files.",
    "forward": "Bring the log into blocks, indexes and history.",
    "function": "Register, show and drop named filters of a collection.",
    "gc": "Remove what no process needs any more.",
    "get": "Print one document as JSON.",
    "history": "Show every change of a document: when, by whom, and which fields it changed.",
    "import": "Read files into a collection by one change: NDJSON, JSON, CSV or Parquet.",
    "index": "Make, show and drop the indexes of a collection.",
    "init": "Begin a project: write a schema with an example, and make the folder for data.",
    "insert": "Save new documents, all of them or none, and print their ids.",
    "layout": "Move oplog, snapshots and trash of readable files to other places.",
    "lint": "Show every mistake of a schema, with its place, the reason and the fix.",
    "node": "Run and show the services that look after a database.",
    "pull": "Bring what changed in a bucket of files to a folder.",
    "push": "Bring what changed in a folder of files to a bucket.",
    "put": "Save one document: it is new, or replaces the one that has its id.",
    "rename": "Give a collection without a model another name, with all that it has.",
    "rollback": "Bring a document back to what one of its changes left, also if it is deleted now.",
    "schema": "Show, compare and change the definitions of a database, or infer them from data.",
    "serve": "Serve a database to clients of Redis's protocol, by Kronotop's commands.",
    "shell": "Ask and change a database line by line, with history and completion.",
    "snapshot": "Take, list and restore snapshots of documents.",
    "status": "Show how far each collection is behind its log.",
    "sync": "Keep a folder of files and a bucket equal: pull, then push.",
    "table": "Show, query, sum up, export and rebuild collections.",
    "trash": "List, restore and purge deleted documents of models with softDelete.",
    "update": "Change one document by its id, or all that --filter finds, in one batch.",
    "verify": "Check everything that is stored, and repair what can be made again.",
    "version": "Show the version and which optional parts are installed.",
    "watch": "Print each change of a collection as one line of JSON.",
}


@click.command(
    cls=Verbs,
    modules="wormdb.cli.commands.",
    verbs=VERBS,
    hidden=["pipeline"],
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
)
@click.version_option(__version__, "-V", "--version", prog_name="worm")
def worm() -> None:
    """A document database whose only server is a bucket."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command line and exit the process with its code."""
    guard_terminals()
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; its exit code. Set WORM_DEBUG=1 to see the whole traceback."""
    with guarded_terminals():
        return _run(arguments)


def _run(arguments: Sequence[str]) -> int:
    try:
        code = worm.main(list(arguments), prog_name="worm", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help(), err=True)
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx is not None else "worm"
        return _complain(f"{error.format_message()} (see: {path} --help)", 2)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", 130)
    except WormError as error:
        if os.environ.get("WORM_DEBUG"):
            raise
        is_usage = isinstance(error, InvalidRequestError) and not isinstance(error, MissingExtraError)
        return _complain(str(error), 2 if is_usage else 1)
    except OSError as error:
        # Files and stores have errors of their own: this is the output, such as a full disk behind `> file`.
        return _complain(f"the output cannot be written: {error.strerror or error}", 1)
    return code if isinstance(code, int) else 0


def _complain(message: str, code: int) -> int:
    click.echo("worm: " + " ".join(message.split()), err=True)
    return code
