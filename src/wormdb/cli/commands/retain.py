"""worm retain: how much of the history of documents is kept."""

from __future__ import annotations

from typing import Any

import click

from wormdb.cli.input.place import AS_JSON, URL, complete_models, find_collection
from wormdb.cli.show.text import print_json
from wormdb.cli.verbs import Verb
from wormdb.settings import Settings

__all__ = ["command"]


@click.command(
    "retain",
    cls=Verb,
    examples=("worm retain notes --keep 30d --versions 50", "worm retain notes --forever", "worm retain notes"),
)
@click.argument("name", metavar="COLLECTION", shell_complete=complete_models)
@URL
@click.option("--keep", help="How long a version stays after another followed it: 30d, 12h; units s m h d w.")
@click.option("--versions", type=int, help="How many versions of a document stay at most, with the newest.")
@click.option("--forever", is_flag=True, help="Keep everything again; what is gone does not come back.")
@AS_JSON
def command(name: str, url: str, *, keep: str | None, versions: int | None, forever: bool, as_json: bool) -> None:
    """Say how much of the history of documents is kept, or show it.

    Readers are shown no more from that moment on; what is stored goes with later merges, once the log has forgotten it.
    A collection of a model whose schema has history is changed by worm schema apply.
    """
    from wormdb.api.database import connect

    if forever and (keep is not None or versions is not None):
        raise click.UsageError("--forever keeps everything: leave out --keep and --versions")
    with connect(url, settings=Settings(forward="manual")) as database:
        collection = find_collection(database, name)
        if forever or keep is not None or versions is not None:
            collection.retain(keep=keep, versions=versions)
        found = collection.get_retention()
    if as_json:
        print_json(found)
        return
    click.echo(f"{name}: {_told(found)}")


def _told(rule: dict[str, Any]) -> str:
    limits = [f"versions stay for {rule['keep']} after another followed"] if "keep" in rule else []
    limits += [f"at most {rule['versions']:,} of a document"] if "versions" in rule else []
    return ", ".join(limits) or "all versions are kept"
