"""Looking after what is stored: verify, repair, garbage collection, removal.

Other packages import these modules only; `tests/test_tidy.py` holds it. Those of PUBLIC_TO are parts of a check, for
jobs that check a collection in pieces.
"""

PUBLIC = {
    "collection": "one collection as the store has it, past every cache",
    "audit.report": "what verify and repair find and do",
    "audit.verify": "everything of a collection checked",
    "audit.repair": "what is damaged made again",
    "audit.traces": "what is left of an erased document",
    "gc.collect": "what is not needed any more removed",
    "gc.report": "what garbage collection removed",
    "gc.transactions": "records of transactions removed",
    "removal": "a collection removed, and what is left of it",
    "renaming": "another name for a collection",
}
PUBLIC_TO = {
    "jobs": ("audit.chain", "audit.lists", "audit.parts", "gc.jobs"),
}
