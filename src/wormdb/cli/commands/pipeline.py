"""worm pipeline: jobs over whole collections."""

from __future__ import annotations

import click

from wormdb.cli.verbs import Verbs

__all__ = ["command"]

VERBS = {
    "aggregate": "Count, add up and average documents, in groups or of all together.",
    "analyze": "Show what the values of each field are: kinds, ends, different and frequent ones.",
    "compact": "Write many small blocks, and blocks that hide each other, again as few large ones.",
    "export": "Write documents to files: Parquet, NDJSON or CSV, in a folder or a bucket.",
    "history": "Write every change of every document to files, for audits.",
    "import": "Read files into a collection by one change: NDJSON, JSON, CSV or Parquet; or a table of Spark.",
    "rebuild": "Make blocks, columns and indexes again from the documents.",
    "verify": "Check everything that is stored of a collection.",
}


@click.command("pipeline", cls=Verbs, modules="wormdb.cli.commands.pipeline_", verbs=VERBS)
def command() -> None:
    """Run jobs over whole collections, in this process or on Spark.

    A job reads one state, in parts that are done side by side, and writers go on meanwhile. The results are the same
    wherever it runs. A part that fails is named, with the object and the reason, and the job can be run again.
    Standard error shows how far it is: a bar on a terminal, lines of JSON in a pipe.
    """
