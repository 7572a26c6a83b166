"""worm sync diff: the files and collections that are not equal."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from wormdb.cli.input.folder import BUCKET, FOLDER, SCOPES, open_folder, scope_of
from wormdb.cli.input.place import AS_JSON
from wormdb.cli.show.text import camel, print_json, size_text
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb.sync import FileDifference

__all__ = ["command"]


@click.command("diff", cls=Verb, examples=("worm sync diff", "worm sync diff data/aws-ec2 --json"))
@SCOPES
@FOLDER
@BUCKET
@AS_JSON
@click.pass_context
def command(
    context: click.Context, /, scopes: tuple[str, ...], folder: Path, url: str | None, *, as_json: bool
) -> None:
    """Show each file that is not the same on both sides. Writes nothing; exits with 1 if there is one.

    Contents are compared by their digests, so that files that changed alike on both sides are equal.
    """
    with open_folder(folder, url) as sync:
        found = sync.differences(scope_of(scopes))
    if as_json:
        print_json([camel(asdict(each)) for each in found])
    else:
        for each in found:
            click.echo(_line(each))
        if not found:
            click.echo("both sides are equal")
    context.exit(1 if found else 0)


def _line(each: FileDifference) -> str:
    if each.size_there is None:
        return f"only here     {each.path} ({_size(each.size_here)})"
    if each.size_here is None:
        return f"only there    {each.path} ({_size(each.size_there)})"
    return f"not the same  {each.path} ({_size(each.size_here)} here, {_size(each.size_there)} there)"


def _size(size: int | None) -> str:
    return size_text(size or 0)
