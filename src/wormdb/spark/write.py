"""Write a large frame: distributed by id first, so that the blocks of its tasks do not overlap."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from wormdb import errors
from wormdb.engine.load import abort, job_id
from wormdb.errors import OutcomeUnknownError, UnavailableError, WormError
from wormdb.jobs.place import Where
from wormdb.spark.register import store_variables
from wormdb.spark.sink import WRITE_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from wormdb.api.access import Access
    from wormdb.engine.bulk.report import ConflictRule

__all__ = ["WriteResult", "write"]

_ERROR: Final = re.compile(r"wormdb\.errors\.(\w+): (.+)")


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did: all of it is in the log by entry `number`."""

    job: str
    number: int


def write(  # noqa: PLR0913 - options of one call, each with a default
    df: DataFrame,
    url: str,
    model: str | None = None,
    *,
    collection: str | None = None,
    outer: Mapping[str, Any] | None = None,
    mode: Literal["append", "overwrite"] = "append",
    on_conflict: ConflictRule = "error",
    job: str | None = None,
    partitions: int | None = None,
) -> WriteResult:
    """Write a frame into a collection as one change: all of its rows, or none.

    Rows with ids are distributed by ranges of id first, into `partitions` tasks, or as many as Spark shuffles into;
    rows without get ids that begin with the time. With the same `job` again nothing is written twice. A shuffle, and
    then what `df.write.format("worm")` costs. Raises what that does, as errors of wormdb: InvalidRequestError naming
    the row, AlreadyExistsError also for values of unique indexes, ConflictError.
    """
    spark = df.sparkSession
    options = {"url": url, "on_conflict": on_conflict}
    options |= {name: value for name, value in (("model", model), ("collection", collection)) if value is not None}
    if outer is not None:
        options["outer"] = json.dumps(dict(outer))
    where = Where.of(options, store_variables(spark), WRITE_OPTIONS)
    access = where.access()
    options["job"] = job or access.ledger.batch_id()
    identity = next((name for name in ("id", "_id") if name in df.columns), None)
    ordered = df
    if identity is not None:
        by = f"`{identity}`"
        ordered = df.repartitionByRange(partitions, by) if partitions else df.repartitionByRange(by)
    elif partitions is not None:
        ordered = df.repartition(partitions)
    try:
        ordered.write.format("worm").mode(mode).options(**options).save()
    except Exception as error:
        if job is None:
            abort(access.ledger, options["job"], "the Spark job failed")
        found = error_in(str(error))
        if found is None:
            raise
        if not isinstance(found, OutcomeUnknownError):
            raise found from error
    # The log tells, also where the answer to the driver was lost.
    return _written(access, options["job"])


def _written(access: Access[Any], job: str) -> WriteResult:
    """What became of a job that was attached, or perhaps was. 1 GET; raises OutcomeUnknownError if that is not told."""
    fix = f"write the same frame with job={job!r}: nothing is written twice"
    try:
        known = access.present().jobs.known.get(job_id(job))
    except WormError as error:
        reason = f"what became of it cannot be told: {error}"
        raise OutcomeUnknownError(f"job {job}", reason=reason, fix=fix, key=error.key) from error
    if known is None or known.state == "open":
        raise OutcomeUnknownError(f"job {job}", reason="it may still be attached", fix=fix)
    if known.state != "attached":
        raise UnavailableError(f"job {job}", reason=f"it was {known.state}", fix="write the frame again")
    return WriteResult(job, known.number)


def error_in(text: str) -> WormError | None:
    """The error of wormdb that a failure of Spark tells of. No requests."""
    told = _ERROR.search(text)
    if told is None:
        return None
    kind = getattr(errors, told[1], WormError)
    if kind is errors.UniqueViolationError:
        kind = errors.AlreadyExistsError
    found: WormError = kind(told[2].strip())
    return found
