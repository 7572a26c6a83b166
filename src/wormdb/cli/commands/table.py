"""worm table: collections as tables."""

from __future__ import annotations

import click

from wormdb.cli.verbs import Verbs

__all__ = ["command"]

VERBS = {
    "list": "List all models and collections, and how far their columns and indexes are.",
    "inspect": "Show the size of a collection, its columns and its indexes.",
    "query": "Find documents, and show them.",
    "aggregate": "Count, add up and average documents, in groups or of all together.",
    "rebuild": "Make columns and indexes again, up to date with the log.",
    "export": "Write documents to standard output, however many there are.",
    "files": "List the Parquet files of a collection, or a view of them in SQL.",
}


@click.command("table", cls=Verbs, modules="wormdb.cli.commands.table_", verbs=VERBS)
def command() -> None:
    """Show, query, sum up and export collections.

    A collection is named by its model, or by its folder. The database is named by --url or WORM_URL.
    """
