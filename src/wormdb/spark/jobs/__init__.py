"""Jobs over whole collections on Spark: the same pieces of work as in one process, done by its workers."""

from __future__ import annotations

from wormdb.spark.jobs.import_frame import import_frame, import_table, infer_table
from wormdb.spark.jobs.runner import SparkRunner, history, pipeline, spark_at

__all__ = ["SparkRunner", "history", "import_frame", "import_table", "infer_table", "pipeline", "spark_at"]
