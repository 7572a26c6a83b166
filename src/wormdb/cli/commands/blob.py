"""worm blob: large bodies beside the documents of a collection."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import AS_JSON, MODEL, SCHEMA, URL, find_collection, open_database
from wormdb.cli.show.text import camel, counted, print_json, print_table
from wormdb.cli.verbs import Verb, VerbGroup
from wormdb.errors import AlreadyExistsError, InvalidRequestError
from wormdb.format import json
from wormdb.format.blob import BlobReference, reference_of

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["command"]

_COPY_BYTES = 1024 * 1024


@click.group("blob", cls=VerbGroup)
def command() -> None:
    """Write, read and list the blobs of a collection: files that its documents refer to.

    A document has a reference, {"_blob": "sha256:…", "size": …, "contentType": …}; the bytes are stored once.
    """


@command.command("put", cls=Verb, examples=("worm blob put Customer cat.png", "cat x | worm blob put Customer -"))
@MODEL
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@click.option("--type", "content_type", metavar="TYPE", help="What it is, such as image/png; else by the file's name.")
@click.option("--name", help="The name to keep in the reference; else the file's.")
@URL
@SCHEMA
def put(model: str, file: Path, url: str, *, content_type: str | None, name: str | None, schema: Path | None) -> None:
    """Store a file, - for standard input, and print the reference that goes into a document.

    Content that the collection has already is not sent again. A blob that no document refers to goes after a day.
    """
    is_file = str(file) != "-"
    with open_database(url, {"schema": schema}) as database, _opened(file if is_file else None) as source:
        collection = find_collection(database, model)
        known = name or (file.name if is_file else None)
        reference = collection.put_blob(source, content_type=content_type, name=known)
    print_json(reference.to_dict())


@command.command("get", cls=Verb, examples=("worm blob get Customer sha256:5f3c… -o cat.png",))
@MODEL
@click.argument("reference")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="The file to write; else standard output."
)
@click.option("--overwrite", is_flag=True, help="Replace the file if it is there.")
@URL
@SCHEMA
def get(model: str, reference: str, url: str, *, output: Path | None, overwrite: bool, schema: Path | None) -> None:
    """Read a blob, given its reference as JSON, or its key sha256:….

    The bytes are checked against the digest; a file is written under its name only when all of them are right.
    """
    if output is not None and output.exists() and not overwrite:
        raise AlreadyExistsError(f"file {output}", reason="it exists already", fix="add --overwrite, or name another")
    with open_database(url, {"schema": schema}) as database:
        collection = find_collection(database, model)
        with collection.open_blob(_read(reference)) as source, _written(output) as target:
            while some := source.read(_COPY_BYTES):
                target.write(some)


@command.command("list", cls=Verb, examples=("worm blob list Customer",))
@MODEL
@URL
@SCHEMA
@AS_JSON
def list_(model: str, url: str, *, schema: Path | None, as_json: bool) -> None:
    """Show the blobs of a collection, and how many documents refer to each."""
    with open_database(url, {"schema": schema}) as database:
        found = list(find_collection(database, model).list_blobs())
    if as_json:
        print_json([camel(each) for each in found])
        return
    rows = [
        (each.key, f"{each.size:,}", "removed soon" if each.is_condemned else counted(each.owners, "owner", "owners"))
        for each in found
    ]
    print_table(("blob", "bytes", "owners"), rows)


def _read(text: str) -> str | BlobReference:
    """A reference as it was typed."""
    if not text.lstrip().startswith("{"):
        return text
    found = reference_of(json.decode(text.encode(), name="reference"))
    if found is None:
        raise InvalidRequestError(
            "REFERENCE", reason="it must be a reference to a blob", fix='write {"_blob": "sha256:…"}'
        )
    return found


@contextmanager
def _opened(file: Path | None) -> Iterator[IO[bytes]]:
    if file is None:
        yield sys.stdin.buffer
        return
    with file.open("rb") as source:
        yield source


@contextmanager
def _written(file: Path | None) -> Iterator[Any]:
    """Standard output, or a file that is there only when the block came to its end."""
    if file is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    partial = file.with_name(f"{file.name}.part")
    try:
        with partial.open("wb") as target:
            yield target
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
