"""Planning and execution of queries over a source: the engine, or anything else that has documents.

Other packages import these modules only; `tests/test_tidy.py` holds it. Those of PUBLIC_TO are parts of plans, for
packages that plan or scan by themselves.
"""

PUBLIC = {
    "request": "what is asked: a filter, an order, a part of the rows",
    "change": "what an update does to documents",
    "execute.answer": "rows, numbers, aggregations, tables, and how they would be found",
    "execute.explain": "a plan for people and programs",
    "execute.search": "text searches over documents",
    "execute.populate": "documents that others refer to, put in their places",
    "planner.cache": "plans that are kept, by the shape of requests",
    "sources.source": "what a source must give, and what a planner knows of it",
    "sources.ahead": "what a ranking needs first, read beside something else",
    "sources.engine": "a view of a collection as a source",
    "sources.past": "a moment of history as a source",
}
PUBLIC_TO = {
    "files": ("execute.executor", "execute.measure", "logical.rules", "physical.question", "physical.scans", "plan"),
    "server": ("sources.vectors",),
    "jobs": ("columns.match", "columns.tally", "execute.rows", "physical.terms"),
}
