"""Bytes by key: the store contract, the stores and their wrappers. Knows nothing of documents.

Other packages import these modules only; `tests/test_tidy.py` holds it. Those of PUBLIC_TO wrap a store when a database
is opened, or examine one for the command line.
"""

PUBLIC = {
    "store": "the contract: verbs, conditions, bounds, what they return and raise; stores around others",
    "open": "a store by its URL",
    "url": "the parts of a store's URL",
    "copy": "one object copied to another key or store",
    "pool": "requests side by side",
    "readback": "what became of a conditional write, also when its answer was lost",
    "retry": "requests again, within a budget",
    "conditions": "whether a store refuses what it must refuse",
    "meter": "requests, bytes and dollars, counted",
}
PUBLIC_TO = {
    "api": ("cache",),
    "cli": ("cloud.bucket", "examine", "roles"),
}
