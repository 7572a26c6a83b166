"""Readable files: a collection as plain JSON where S3WORM puts it, written from the log and never read back by it.

    contents     names and shapes of files, without I/O
    write        files brought to a state, and the record of how far they are
    compare      files held against the state
    foreign      files of another program, read as they are
    adopt        files of another program, made a managed collection

Other packages import these modules only; `tests/test_tidy.py` holds it.
"""

PUBLIC = {
    "keeper": "writes the files of collections after each root",
    "sync": "every file brought to the state, whatever became of it",
    "status": "how far the files are",
    "table_state": "manifests and index files as they are now",
    "migrate": "system folders moved to other places",
    "verify": "verify and repair, files included",
    "compare.check": "the files of one collection, to be examined",
    "compare.faults": "a file that is not as it should be",
    "contents.names": "keys of files, and what a key means",
    "write.record": "how far files are written, and which collection has a short name",
    "write.tables": "which manifests and indexes have files",
    "foreign.answer": "answers from files of another program",
    "foreign.collection": "one collection that another program may keep",
    "foreign.collections": "all of these in a database",
    "foreign.manifest": "a manifest that can be trusted, or why not",
    "adopt.adopt": "files of another program made a managed collection",
    "adopt.survey": "what an adoption reads before it writes, and its choices",
}
PUBLIC_TO = {"jobs": ("contents.document",)}
"""Modules that one package may import besides."""
