"""wormdb on Apache Spark: `format("worm")` for reading and writing, and a session with the settings that matter.

Needs the extra `wormdb[spark]` and Java 17; importing this package without pyspark raises MissingExtraError.
"""

from __future__ import annotations

from wormdb.spark.needs import check_pyspark

check_pyspark()

from wormdb.spark.register import register  # noqa: E402 - what is missing must be said before it is imported
from wormdb.spark.session import session  # noqa: E402 - see above
from wormdb.spark.write import Written, write  # noqa: E402 - see above

__all__ = ["Written", "register", "session", "write"]
