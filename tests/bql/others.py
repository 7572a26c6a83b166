"""mongomock and montydb, loaded once for all tests that ask them."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mongomock: Any = import_module("mongomock")
    mock_filtering: Any = import_module("mongomock.filtering")
    monty_queries: Any = import_module("montydb.engine.queries")
    # One for the process: it also sets which version of MongoDB is followed, which cannot be set twice.
    MONTY: Any = import_module("montydb").MontyClient(":memory:")
