"""Jobs over whole collections, planned as pieces of work that run in this process or on Spark with the same results.

Other packages import these modules only; `tests/test_tidy.py` holds it.
"""

PUBLIC = {
    "import_": "records of files into a collection",
    "infer": "the model that records of files suggest",
    "node": "processes that look after a database",
    "pipeline": "all jobs of one collection, with a runner",
    "place": "where a collection is, as a value that can be sent",
    "work": "pieces of work, and what runs them",
}
PUBLIC_TO = {
    "cli": (
        *(
            "aggregate",
            "analyze",
            "compact",
            "costs",
            "embed",
            "export",
            "parts",
            "plain_text",
            "rebuild",
            "records",
            "sources",
        ),
        *("node.claim", "node.endpoint", "node.node", "node.overview", "node.pace", "node.rounds"),
    ),
    "server": ("node.claim", "node.endpoint", "node.node", "node.pace", "node.shards"),
    "spark": ("history", "row_filter", "scan", "shares", "state"),
}
