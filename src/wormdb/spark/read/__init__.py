"""`spark.read.format("worm")`: columns, types, filters and ranges of a collection."""
