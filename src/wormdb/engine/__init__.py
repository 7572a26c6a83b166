"""What is true, and when: the log, commits, views, the root.

Other packages import these modules only; `tests/test_tidy.py` holds it. Those of PUBLIC_TO are about stored objects
themselves, for one package that makes, reads or checks them.
"""

PUBLIC = {
    "ledger": "one collection: views, commits, forwarding; and the runtime that opens it",
    "load": "bulk jobs: open, attach, abort",
    "blocks.portion": "documents as columns, some at a time",
    "blocks.runs": "runs of blocks, as a root lists them: the documents of a root, and of a job",
    "blocks.shelf": "blocks that are kept after they were read",
    "bulk.report": "what tasks of a bulk job are told and tell",
    "columns.fetch": "columns of one block",
    "columns.scan": "columns of a whole view",
    "columns.sources": "columns of rows that are no blocks",
    "commit.operations": "what a batch is made of, and its guard",
    "history.read": "versions of documents",
    "history.snapshots": "snapshots of documents",
    "history.tombstone": "what the trash says of a document",
    "index.read": "an index at the state of a view",
    "lists.definition": "indexes that are lists, and their kinds",
    "lists.vector_kind": "vectors as lists",
    "lists.text_kind": "words as lists",
    "log.entries": "entries by their numbers",
    "log.paths": "keys of objects",
    "log.root": "the root, and how it is swapped",
    "state.definition": "the model, functions and files in force",
    "state.indexes": "where each index is",
    "state.moments": "states of the past",
    "state.upgrade": "documents of older versions of a model",
    "state.view": "one state, as a value",
    "tree.definition": "what an index is, and the keys of a document in it",
    "tree.entries": "entries and ranges of an index",
    "tree.statistics": "what planning knows of an index",
}
PUBLIC_TO = {
    "aio": ("commit.resolve", "migrate"),
    "api": (
        *("blocks.memory", "bulk.attach", "bulk.columns", "bulk.rows", "bulk.task", "commit.blobs", "commit.define"),
        *("commit.draft", "commit.reads", "commit.resolve", "index.unique", "lists.probes", "migrate"),
        *("tree.extract", "state.expiry", "state.follower", "transact.coordinator"),
    ),
    "cli": ("log.peers",),
    "files": ("blocks.write", "history.changes", "log.objects"),
    "jobs": (
        *("bulk.rows", "commit.pinned", "forward.analysis", "log.clock", "log.peers"),
        *("forward.compact", "forward.rebuild", "forward.rebuild_lists", "forward.renew", "forward.rewrite"),
    ),
    "maintenance": (
        *("blocks.fetch", "blocks.write", "history.changes", "history.fold", "index.advance", "index.shelf"),
        *("lists.audit", "lists.draft", "lists.shelf"),
        *("log.objects", "log.peers", "state.erased", "state.jobs", "state.projection", "state.successor"),
        *("state.trim", "tree.extract", "tree.membership", "tree.nodes", "tree.tree"),
    ),
    "query": (
        *("forward.analysis", "index.shelf"),
        *("lists.centroids", "lists.nearest", "lists.postings", "lists.probes", "lists.read"),
    ),
    "server": ("log.peers",),
    "spark": ("blocks.memory", "bulk.columns", "bulk.rows", "bulk.task", "feed"),
    "sync": ("commit.define",),
}
