"""Where a job runs: in this process or on Spark, as options say."""

from __future__ import annotations

from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.place import blocks_of, find_collection, find_model, open_database
from wormdb.cli.steps import told_steps
from wormdb.errors import MissingExtraError
from wormdb.limits import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.collection import Collection
    from wormdb.document import Document
    from wormdb.jobs.pipeline import Pipeline

__all__ = ["ENGINE", "FILES", "MASTER", "TASKS", "opened_pipeline", "wants_spark"]

AUTO_BYTES: Final = 1024 * MIB
"""On one machine Spark is as fast as this process, after some ten seconds in which it starts: about what it takes to
read so many stored bytes."""
_LOCAL: Final = "local[*]"

ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="This process, or Spark; auto takes Spark for a --master, and above 1 GiB if it is installed.",
)
MASTER = click.option("--master", metavar="URL", help="A master of Spark, or sc://… of Spark Connect.  [local[*]]")
FILES = click.option("--files/--no-files", default=True, help="Mend readable files too, if they are kept.  [files]")
TASKS = click.option("--tasks", type=click.IntRange(min=1), metavar="N", help="Cut the work into N parts.")


@contextmanager
def opened_pipeline(
    name: str, url: str, options: Mapping[str, Any], *, size: int | None = None, creates: bool = False
) -> Iterator[Pipeline]:
    """The jobs of a collection that is named as in other commands. 1 GET for the schema, for a folder 2 more.

    `size` is what is read, if it is not the collection; with `creates` this need not be there yet.

    Raises InvalidRequestError for a collection that is not there, MissingExtraError if Spark is wanted and missing.
    """
    from wormdb.jobs.local import LocalRunner
    from wormdb.jobs.pipeline import Pipeline
    from wormdb.jobs.place import Where

    with open_database(url, options) as database:
        model = find_model(database, name)
        is_new = creates and model is None
        collection = database[name.rstrip("/")] if is_new else find_collection(database, name)
        blocks = blocks_of(collection) if size is None else None
    size = size or (0 if blocks is None else blocks.size_bytes)
    folder = None if model is not None else collection.prefix.rstrip("/")
    where = Where.named(url, None if model is None else model.name, folder)
    with told_steps() as told:
        if not _is_spark(options["engine"], options.get("master"), size):
            yield Pipeline(where, LocalRunner(), told)
            return
        from wormdb.spark.jobs import pipeline, spark_at

        with spark_at(options.get("master") or _LOCAL) as spark:
            yield pipeline(spark, url, where.model, collection=where.collection, told=told)


def wants_spark(collection: Collection[Document], options: Mapping[str, Any]) -> bool:
    """Whether --engine means Spark for a collection that was found. 1 GET for auto, if Spark is installed.

    Files of other programs are read in this process.
    """
    if options["engine"] != "auto" or find_spec("pyspark") is None:
        return _is_spark(options["engine"], None, 0)
    blocks = blocks_of(collection)
    return blocks is not None and _is_spark("auto", None, blocks.size_bytes)


def _is_spark(engine: str, master: str | None, size: int) -> bool:
    if engine != "auto":
        return engine == "spark"
    if master is not None:
        return True
    return size >= AUTO_BYTES and _has_spark()


def _has_spark() -> bool:
    if find_spec("pyspark") is None:
        return False
    try:
        from wormdb.spark.needs import check_java

        check_java()
    except MissingExtraError:
        return False
    return True
