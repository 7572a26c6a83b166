"""`format("worm")`: what Spark asks of a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["WormSource"]


class WormSource(DataSource):
    """A collection as a table of Spark; `wormdb.spark.register` makes it known."""

    variables: ClassVar[Mapping[str, str]] = {}
    """What workers add to their environment before they open the store; set by `register`, never an option."""

    @classmethod
    def name(cls) -> str:
        """What `format(…)` takes."""
        return "worm"
