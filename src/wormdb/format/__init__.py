"""Bytes from values and back, with no I/O: one persisted kind a module.

Other packages import these modules only; `tests/test_tidy.py` holds it. Those of PUBLIC_TO serve one package.
"""

PUBLIC = {
    "kinds": "the types of values, and which of them are equal",
    "values": "values of Python as normalized values",
    "json": "documents as extended JSON, and back",
    "wrappers": "the extended forms: one object with a key that starts with $",
    "bson_types": "names of BSON's types",
    "vector": "vectors of documents, as float32",
    "path": "dotted paths, and what they meet in a document",
    "key": "values as bytes that compare as MongoDB orders values",
    "segment": "ids as names in keys of objects",
    "frame": "the frame around stored bytes, with its checksum",
    "packed": "what is packed by gzip, unpacked within a bound",
    "entry": "one entry of the log",
    "change": "what a batch changes",
    "event": "events of an entry",
    "root": "the root of a collection",
    "block": "documents as Parquet: writing",
    "blockread": "documents as Parquet: reading",
    "blocklist": "pages that list blocks",
    "arrays": "Arrow arrays of values",
    "columns": "typed columns of blocks",
    "frequent": "which paths become columns without being declared",
    "sidecar": "the map of a block's pages, beside it",
    "membership": "filters that tell which keys are certainly absent",
    "sample": "documents that planning looks at",
    "field_statistics": "what an analysis found of fields",
    "node": "nodes of an index tree",
    "list_part": "lists of an index as bytes, of which parts can be read",
    "list_columns": "lists by places as bytes, column by column",
    "list_run": "what a root says of the lists of an index",
    "past": "versions of documents",
    "blob": "keys of blobs, and references to them",
    "heartbeat": "what a node says of itself",
    "transaction": "whether a transaction over several collections committed",
    "adopt_record": "how far an adoption is",
}
PUBLIC_TO = {
    "bql": ("order",),
    "engine": ("bulk", "project"),
    "files": ("files_record",),
    "maintenance": ("page",),
}
