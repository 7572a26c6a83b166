"""The query language: filters, sorts, projections and updates as values, pure and without I/O.

Other packages import these modules only; `tests/test_tidy.py` holds it.
"""

PUBLIC = {
    "accumulators": "what each aggregation function remembers",
    "aggregation": "functions over documents, in groups",
    "functions": "named filters, expanded",
    "match": "whether a document matches: what every plan must agree with",
    "nearest": "the documents whose vectors are nearest to one",
    "numbers": "exact sums, and the arithmetic of updates",
    "parse": "filters as mappings, read into trees",
    "places": "fields that are put into documents",
    "positions": "the element of an array that a filter matched",
    "projection": "the parts of a document that are shown",
    "regex": "regular expressions in linear time",
    "row_stages": "stages that make other rows of rows",
    "search.expression": "what is searched for in texts",
    "search.fields": "fields that are searched, with weights and a language",
    "search.fusion": "two rankings as one",
    "search.highlight": "where the words of a search are",
    "search.rank": "which documents a search finds, and their scores",
    "search.search": "what a caller searches for",
    "search.words": "the words of a text as they are compared",
    "stages": "aggregations as stages, in MongoDB's words",
    "sorting": "the order of results",
    "text": "filters and sorts as text of a command line",
    "tree": "filters as trees, and their shapes",
    "update.tree": "paths of an update, with an operator at the end of each",
    "update.update": "updates, read and applied",
    "update.upsert": "replacements, and documents that an upsert inserts",
}
