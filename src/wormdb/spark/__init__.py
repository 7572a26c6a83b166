"""wormdb on Apache Spark: `format("worm")` for reading and writing, and a session with the settings that matter.

Needs the extra `wormdb[spark]` and Java 17; importing this package without pyspark raises MissingExtraError.
Other packages of wormdb import the modules of PUBLIC only; `tests/test_tidy.py` holds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.spark.needs import check_pyspark

check_pyspark()

from wormdb.spark.register import register  # noqa: E402 - what is missing must be said before it is imported
from wormdb.spark.session import session  # noqa: E402 - see above
from wormdb.spark.write import WriteResult, write  # noqa: E402 - see above

__all__ = ["WriteResult", "register", "session", "write"]

PUBLIC = {
    "jobs": "jobs over whole collections, done by Spark",
    "needs": "what Spark needs on this machine",
}


if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for one of ours

    def __getattr__(name: str) -> Any:
        if name != "Written":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        import warnings

        warnings.warn(
            "wormdb.spark.Written is called wormdb.spark.WriteResult now; the old name goes with the next release",
            DeprecationWarning,
            stacklevel=2,
        )
        return WriteResult
