"""Models, the path language and the layout: what a collection is and where it lies; no I/O.

Other packages import these modules only; `tests/test_tidy.py` holds it.
"""

PUBLIC = {
    "annotations": "fields from the annotations of a class",
    "cells": "values of text cells",
    "classes": "models from classes, and instances from documents",
    "difference": "what changed between two definitions of a model, and its version",
    "identity": "ids: allowed ones and new ones",
    "infer": "a model from documents",
    "layout": "where oplog, snapshots and trash lie",
    "load": "schema.json, read with all mistakes at once",
    "model": "the definitions of a schema, as values",
    "path": "the path language",
    "problems": "every mistake in one report, and the nearest known name",
    "proposal": "paths that fit files which others wrote",
    "rules": "what depends on several places of a schema",
    "sieve": "many documents that can be stored as they are",
    "validate": "documents against their model",
    "words": "languages and weighted fields of indexes of words",
}
