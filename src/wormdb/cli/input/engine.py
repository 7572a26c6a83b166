"""Where a job runs: in this process or on Spark, as options say."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click

from wormdb.cli.input.place import blocks_of, find_collection, find_model, open_database
from wormdb.cli.show.progress import bar_line, tell_line
from wormdb.cli.show.text import camel, size_text
from wormdb.errors import MissingExtraError
from wormdb.format import json
from wormdb.settings import MIB, SPARK_AUTO_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.jobs.pipeline import Pipeline
    from wormdb.jobs.place import Where
    from wormdb.jobs.work import JobProgress

__all__ = [
    "FILES",
    "LOCAL_MASTER",
    "RATES",
    "TASKS",
    "auto_bytes",
    "opened_pipeline",
    "pipeline_at",
    "told_steps",
    "wants_spark",
    "with_engine",
]


# --- How far a job is: a bar on a terminal, lines of JSON in a pipe.

_LINE_SECONDS: Final = 1.0
"""In a pipe there is a line for begin and end of each step, and between them one in this time."""


@contextmanager
def told_steps(progress: bool | None) -> Iterator[Callable[[JobProgress], None]]:
    """What to tell of each step, on standard error, as --progress says: without it only on a terminal."""
    if progress is False or not sys.stderr.isatty():
        yield _Lines() if progress else lambda _: None
        return
    try:
        yield lambda step: tell_line(bar_line(_part(step), _text(step)))
    finally:
        tell_line("")


def _part(step: JobProgress) -> float | None:
    if step.whole:
        return step.size / step.whole
    return step.done / step.items if step.items else None


def _text(step: JobProgress) -> str:
    left = "" if step.seconds_left is None else f", {step.seconds_left:,.0f} s left"
    return f"{step.job}: {step.done:,} of {step.items:,} parts, {size_text(step.size)}, {step.rows:,} rows{left}"


class _Lines:
    def __init__(self) -> None:
        self._last: tuple[str, float] = ("", 0.0)

    def __call__(self, step: JobProgress) -> None:
        job, seconds = self._last
        if job == step.job and 0 < step.done < step.items and step.seconds - seconds < _LINE_SECONDS:
            return
        self._last = (step.job, step.seconds)
        told = camel(step)
        for name in ("seconds", "secondsLeft"):
            told[name] = None if told[name] is None else round(told[name], 3)
        click.echo(json.encode(told).decode(), err=True)


RATES: Final = {
    "aggregate": 200,
    "analyze": 6,
    "compact": 17,
    "embed": 1,
    "export": 25,
    "history": 13,
    "import": 8,
    "rebuild": 7,
    "verify": 2,
}
"""MiB of stored blocks, or of files that are imported, that one core does in a second of each job: processor time, of
documents of 1 KB that are packed to half (`make bench ARGS=jobs`). Of embed: with a function that takes no time."""
LOCAL_MASTER: Final = "local[*]"
"""The master of Spark if none is named: all cores of this machine."""

_OPTIONS: Final = (
    click.option(
        "--engine",
        type=click.Choice(["auto", "local", "spark"]),
        default="auto",
        show_default=True,
        help="Where it runs. auto: Spark for large collections if installed, else this process.",
    ),
    click.option("--master", metavar="URL", help="A master of Spark, or sc://… of Spark Connect.  [local[*]]"),
    click.option(
        "--progress/--no-progress",
        default=None,
        help="Tell on standard error how far it is: a bar on a terminal, lines of JSON in a pipe.  [on a terminal]",
    ),
)
FILES = click.option("--files/--no-files", default=True, help="Mend readable files too, if they are kept.  [files]")
TASKS = click.option("--tasks", type=click.IntRange(min=1), metavar="N", help="Cut the work into N parts.")


def with_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with the options that say where it runs: --engine, --master, --progress."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@contextmanager
def opened_pipeline(name: str, url: str, options: Mapping[str, Any]) -> Iterator[Pipeline]:
    """The jobs of a collection that is named as in other commands. 1 GET for the schema, for a folder 2 more.

    Raises InvalidRequestError for a collection that is not there, MissingExtraError if Spark is wanted and missing.
    """
    from wormdb.jobs.place import Where

    with open_database(url, options) as database:
        model = find_model(database, name)
        collection = find_collection(database, name)
        blocks = blocks_of(collection)
    size = 0 if blocks is None else blocks.size_bytes
    folder = None if model is not None else collection.prefix.rstrip("/")
    with pipeline_at(Where.named(url, None if model is None else model.name, folder), options, size) as pipeline:
        yield pipeline


@contextmanager
def pipeline_at(where: Where, options: Mapping[str, Any], size: int) -> Iterator[Pipeline]:
    """The jobs of a collection, where options say and `size` bytes are sooner read. No requests.

    Raises MissingExtraError if Spark is wanted and missing.
    """
    from wormdb.jobs.pipeline import Pipeline
    from wormdb.jobs.work import LocalRunner

    with told_steps(options.get("progress")) as told:
        if not _is_spark(options["engine"], options.get("master"), size, _job()):
            yield Pipeline(where, LocalRunner(), told)
            return
        from wormdb.spark.jobs import pipeline, spark_at

        outer = dict(where.outer)
        with spark_at(options.get("master") or LOCAL_MASTER) as spark:
            yield pipeline(spark, where.url, where.model, collection=where.collection, outer=outer, told=told)


def wants_spark(collection: Collection[Document], options: Mapping[str, Any]) -> bool:
    """Whether --engine and --master mean Spark for a collection. 1 GET for auto, if Spark is installed.

    Files of other programs are read in this process.
    """
    engine, master = options["engine"], options["master"]
    if engine != "auto" or master is not None or find_spec("pyspark") is None:
        return _is_spark(engine, master, 0, _job())
    blocks = blocks_of(collection)
    return blocks is not None and _is_spark("auto", None, blocks.size_bytes, _job())


def _is_spark(engine: str, master: str | None, size: int, job: str) -> bool:
    if engine != "auto":
        return engine == "spark"
    if master is not None:
        return True
    return size >= auto_bytes(job) and _has_spark()


def auto_bytes(job: str) -> int:
    """From how many bytes on Spark does a job sooner, its start included; on two cores. No requests."""
    return SPARK_AUTO_SECONDS * RATES[job] * MIB


def _job() -> str:
    """Commands are called as their jobs."""
    name = click.get_current_context().info_name
    return name if name in RATES else "export"


def _has_spark() -> bool:
    if find_spec("pyspark") is None:
        return False
    try:
        from wormdb.spark.needs import check_java

        check_java()
    except MissingExtraError:
        return False
    return True
