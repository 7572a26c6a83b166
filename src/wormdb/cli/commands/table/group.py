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
    "analyze": "Show what the values of each field are: kinds, ends, different and frequent ones.",
    "embed": "Give documents the vectors that a function of yours makes of a field.",
    "export": "Write documents to standard output, or to files in a folder or a bucket.",
    "history": "Write every change of every document to files, for audits.",
    "rebuild": "Make blocks, columns and indexes again, up to date with the log.",
    "compact": "Write many small blocks, and blocks that hide each other, again as few large ones.",
    "files": "List the Parquet files of a collection, or a view of them in SQL.",
}


@click.command("table", cls=Verbs, modules="wormdb.cli.commands.table.", verbs=VERBS)
def command() -> None:
    """Show, query, sum up, export and rebuild collections.

    A collection is named by its model, or by its folder. The database is named by --url or WORM_URL. Commands with
    --engine read one state in parts, in this process or on Spark, with the same results; writers go on meanwhile. A
    part that fails is named, with the object and the reason, and the command can be run again.
    """
