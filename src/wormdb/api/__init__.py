"""The database as applications hold it: `connect`, databases, collections, documents, results.

Other packages import these modules only; `tests/test_tidy.py` holds it. Applications import `wormdb` itself.
"""

PUBLIC = {
    "arrow": "columns of many documents as one table",
    "blobs": "large bodies beside documents",
    "bulk_write": "several writes as pymongo describes them",
    "collection": "one collection, with all its calls",
    "columns": "one column, and the Arrow type of its values",
    "cursor": "rows of one state in batches",
    "database": "one bucket or folder: `connect`",
    "document": "documents, and instances of classes",
    "erase": "a document that leaves nothing",
    "familiar": "names of pymongo, and the results of inserts",
    "feed": "changes of documents, in the order of the log",
    "files": "readable files: status, on, off, sync, migrate",
    "functions": "named filters",
    "history": "versions, snapshots and moments of the past",
    "imports.records": "records of a caller's program into a collection, by one entry",
    "imports.intake": "records that become documents, and those that are rejected",
    "imports.rows": "records on their way, some at a time, and again",
    "indexes": "indexes as users make, see and drop them",
    "names": "typos in questions about a declared model",
    "notebook": "collections as notebooks and tables see them",
    "options": "filters and options of a query, checked",
    "pymongo_names": "names and arguments of pymongo that are not here, and what to write instead",
    "query": "queries that are built step by step",
    "records": "records of NDJSON, JSON and CSV",
    "results": "the rows of a query",
    "schema": "plans and changes of a schema, and the published one",
    "snapshot": "one moment over several collections, for reading",
    "status": "how far collections, indexes and manifests are",
    "texts": "files of text as other programs write them: encodings, separators, or no text at all",
    "transaction": "several collections, read and changed at one moment",
    "trash": "deleted documents that can be restored",
    "update": "results of updates and deletes",
}
PUBLIC_TO = {
    "aio": ("adopt",),
    "cli": ("adopt",),
    "jobs": ("access", "imports.conflicts", "imports.load", "imports.run", "imports.stream"),
    "server": ("create",),
    "spark": ("access", "imports.conflicts", "imports.load", "imports.run", "write"),
    "sync": ("connection",),
}
