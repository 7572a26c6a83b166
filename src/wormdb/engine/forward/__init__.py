"""From the log into projections: documents, indexes, history; compaction and rewriting."""
