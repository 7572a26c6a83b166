"""What commands about one collection share: which database, which collection, and JSON or not."""

from __future__ import annotations

import sys
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.errors import InvalidRequestError, NotFoundError
from wormdb.schema.problems import did_you_mean
from wormdb.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from click.shell_completion import CompletionItem

    from wormdb.api.collection import Collection
    from wormdb.api.database import Database
    from wormdb.api.document import Document
    from wormdb.api.status import CollectionStatus, ParquetFiles
    from wormdb.schema.model import Model

__all__ = [
    "AS_JSON",
    "MODEL",
    "NAMES",
    "NEW_URL",
    "ON_BROKEN",
    "PLACE",
    "SCHEMA",
    "URL",
    "YES",
    "blocks_of",
    "complete_files",
    "complete_folders",
    "complete_models",
    "existing_place",
    "existing_status",
    "find_collection",
    "find_model",
    "is_confirmed",
    "missing_collection",
    "model_of",
    "only_place",
    "open_database",
    "place_of",
    "shared_database",
]


def complete_models(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001 - click's signature
    """Names of models that begin with what was typed: of the local schema, or else of the database. 1 GET at most.

    Of a database without a schema those of its collections, which are listed.
    """
    try:
        return sorted(name for name in _known_models(context.params.get("url")) if name.startswith(incomplete))
    except Exception:  # noqa: BLE001 - a completion shows names or nothing
        return []


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Whatever files the shell finds. No requests."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def complete_folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG001 - click's signature
    """Whatever folders the shell finds. No requests."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="dir")]


def _known_models(url: str | None) -> Iterable[str]:
    import os

    from wormdb.api.database import connect
    from wormdb.cli.input.schema import DEFAULTS

    url = url or os.environ.get("WORM_URL")
    file = None if url else next((path for path in DEFAULTS if path.is_file()), None)
    if not url and file is None:
        return ()
    with connect(url or "memory://", schema=file) as database:
        if database.schema is not None:
            return tuple(database.schema.models)
        return tuple(prefix.rstrip("/") for prefix in database.collections())


def _check_there(context: click.Context, parameter: click.Parameter, url: str) -> str:  # noqa: ARG001 - click's signature
    return existing_place(url)


def existing_place(url: str) -> str:
    """The URL; raises NotFoundError if its folder does not exist: it would be read as an empty database."""
    from wormdb.storage.url import parse_url

    parsed = parse_url(url)
    if parsed.scheme == "file" and not Path(parsed.path).is_dir():
        raise NotFoundError(
            f"folder {url!r:.200}",
            reason="it does not exist",
            fix="check the path; worm init, worm insert and worm import make a new database",
        )
    return url


_URL_OPTIONS: Final[dict[str, Any]] = {
    "envvar": "WORM_URL",
    "show_envvar": True,
    "required": True,
    "shell_complete": complete_folders,
    "help": "The database: a folder, or s3://bucket/prefix, gs://, az://.",
}
URL = click.option("--url", callback=_check_there, **_URL_OPTIONS)
NEW_URL = click.option("--url", **_URL_OPTIONS)
"""For verbs that make the database if it is not there."""
PLACE = click.option(
    "--url",
    envvar="WORM_URL",
    show_envvar=True,
    shell_complete=complete_folders,
    help="The database, if URL is not the first argument.",
)
NAMES = click.argument("names", nargs=-1, metavar="[URL] [COLLECTION]...", shell_complete=complete_folders)
MODEL = click.argument("model", shell_complete=complete_models)
SCHEMA = click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A schema for files that another program keeps; without it the one that the bucket has.",
)
ON_BROKEN = click.option(
    "--on-broken",
    type=click.Choice(["raise", "skip"]),
    default="raise",
    show_default=True,
    help="Fail at a broken file of another program, or skip it and name it.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def place_of(url: str | None, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Which database is meant, and which collections of it; for commands with PLACE and NAMES.

    The database is --url; or the first name, if there is no --url, or if it is from the environment and the name can be
    no collection's. Raises click.UsageError if there is none, or if two are named, NotFoundError for a missing folder.
    """
    if names and (url is None or _is_place(names[0])):
        return existing_place(only_place(names[0], url)), names[1:]
    return existing_place(only_place(None, url)), names


def only_place(place: str | None, url: str | None) -> str:
    """Which database is meant, by the first argument or by --url. Raises click.UsageError if by none or by both.

    A URL from the environment holds only if none is named.
    """
    if place is None:
        if url is None:
            raise click.UsageError("Missing argument 'URL': name a folder or a bucket, or set WORM_URL.")
        return url
    if click.get_current_context().get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("The database is named twice, by the first argument and by --url: leave out one.")
    return place


def _is_place(name: str) -> bool:
    return "://" in name or name.startswith((".", "/", "~"))


_SHARED: ContextVar[tuple[str, Database] | None] = ContextVar("shared", default=None)
"""The database that commands of one process share, and its URL."""


@contextmanager
def shared_database(url: str) -> Iterator[Database]:
    """A database that every command of the block uses which names its URL: it stays warm from one to the next."""
    from wormdb.api.database import connect

    with connect(url) as database:
        token = _SHARED.set((url, database))
        try:
            yield database
        finally:
            _SHARED.reset(token)


def open_database(
    url: str, options: Mapping[str, Any], settings: Settings | None = None
) -> AbstractContextManager[Database]:
    """The database, as --schema and --on-broken say. No requests; raises SchemaError with every mistake."""
    from wormdb.api.database import connect

    shared = _SHARED.get()
    if shared is not None and shared[0] == url and settings is None and not options.get("schema"):
        return nullcontext(shared[1])
    chosen = replace(settings or Settings(), on_broken=options.get("on_broken") or "raise")
    return connect(url, schema=options.get("schema"), settings=chosen)


def find_collection(database: Database, name: str, *, may_be_new: bool = False) -> Collection[Document]:
    """The collection of a model, or at a folder. 1 GET for the schema, for a folder 2 more unless it `may_be_new`.

    Raises InvalidRequestError if there is neither, with the name that may have been meant.
    """
    model = find_model(database, name)
    if model is not None:
        if model.path.outer:
            parts = ", ".join(part.name for part in model.path.outer)
            raise InvalidRequestError(
                f"{name} has many collections",
                reason=f"its path {model.path} has the outer parts {parts}",
                fix="name the folder of one: worm table list shows them",
            )
        return database.model(model.name)
    collection = database[name.rstrip("/")]
    if not may_be_new and not collection.parquet_files().is_known:
        raise _unknown(database, name)
    return collection


def find_model(database: Database, name: str) -> Model | None:
    """The model of that name, or the one whose only collection is at that folder."""
    models = {} if database.schema is None else database.schema.models
    folder = name.rstrip("/") + "/"
    fixed = (model for model in models.values() if not model.path.outer)
    return models.get(name) or next((model for model in fixed if model.path.collection_prefix({}) == folder), None)


def blocks_of(collection: Collection[Document]) -> ParquetFiles | None:
    """The blocks of a collection; None if it has no log, because another program keeps its files. 1 GET."""
    try:
        return collection.parquet_files()
    except InvalidRequestError:
        return None


def model_of(database: Database, collection: Collection[Document]) -> Model | None:
    """The published model of a collection that was found; None if it is known by its folder alone."""
    return None if database.schema is None else database.schema.models.get(collection.name)


def _unknown(database: Database, name: str) -> InvalidRequestError:
    models = () if database.schema is None else tuple(database.schema.models)
    known = [*models, *(prefix.rstrip("/") for prefix in database.collections())]
    return InvalidRequestError(
        f"Unknown model: {name}",
        reason=f"{database.url} has no model and no folder of that name",
        fix=did_you_mean(name, known) if known else "it is empty: check the URL",
    )


# --- Which collections a command is about.


def existing_status(database: Database, names: Sequence[str]) -> list[CollectionStatus]:
    """How far the named collections are, or all there are; raises NotFoundError for one without a log."""
    found = database.status(names or database.collections())
    for status in found:
        if names and status.number == 0:
            raise missing_collection(database, status.prefix)
    return found


def missing_collection(database: Database, prefix: str) -> NotFoundError:
    """The error for a collection that is not there, with the name that may have been meant. Lists the bucket."""
    known = [found.rstrip("/") for found in database.collections()]
    name = prefix.rstrip("/")
    fix = did_you_mean(name, known) if known else "it is empty: check the URL"
    return NotFoundError(f"collection {name}", reason=f"there is none in {database.url}", fix=fix)


# --- Questions before something is changed that people may want to keep.

YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def is_confirmed(question: str, *, yes: bool) -> bool:
    """Ask on a terminal, and say that nothing was changed if the answer is no.

    Raises InvalidRequestError where no person can answer: input from a pipe is not an answer.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidRequestError(
            question.rstrip("?"), reason="there is no terminal to ask for confirmation", fix="add --yes"
        )
    if click.confirm(question, err=True):
        return True
    click.echo("nothing was changed", err=True)
    return False
