"""Writing readable files: documents, tables, sentinels, the record of how far they are."""
