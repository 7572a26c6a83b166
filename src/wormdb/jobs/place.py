"""Where a job, or a source or sink of Spark, is: which collection of which database, and how a process opens it.

A `Where` is a value that can be sent to planning processes and workers. It holds no secrets that show: variables
for the store are left out of its text, and options that look like secrets are refused.
"""

from __future__ import annotations

import json
import os
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.database import Database, connect
from wormdb.api.schema import PublishedSchema
from wormdb.errors import InvalidRequestError
from wormdb.schema.problems import did_you_mean
from wormdb.settings import MIB, Settings

if TYPE_CHECKING:
    from collections.abc import Collection as Names
    from collections.abc import Mapping

    from wormdb.api.access import Access
    from wormdb.api.collection import Collection
    from wormdb.api.document import Document

__all__ = ["PLACE_OPTIONS", "WORKER_SETTINGS", "Where", "absolute"]

PLACE_OPTIONS: Final = frozenset({"url", "path", "model", "collection", "outer"})
"""The options that say where; `path` is what `load(…)` and `save(…)` are given, and means the same as `url`."""

WORKER_SETTINGS: Final = Settings(cache_bytes=16 * MIB, forward="manual")
"""Several workers share a machine, and none of them is asked the same thing twice in a row."""

_SECRET: Final = re.compile(r"secret|passw|token|credential|access.?key|account.?key|private.?key|signature|sas$")
_NO_URL: Final = 'option("url", "s3://bucket/prefix"), or a folder'

_open: dict[tuple[int, str, tuple[tuple[str, str], ...]], Database] = {}
_opening = threading.Lock()


@dataclass(frozen=True, slots=True)
class Where:
    """One collection of one database."""

    url: str
    model: str | None
    collection: str | None
    outer: tuple[tuple[str, Any], ...] = ()
    """The outer parts of the model's path."""
    variables: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """What a process adds to its environment before it opens the store."""

    @classmethod
    def of(cls, options: Mapping[str, str], variables: Mapping[str, str], known: Names[str]) -> Where:
        """What options say; `known` are those that are not about the place. No requests.

        Raises InvalidRequestError for a secret, an unknown option, and what is missing or too much.
        """
        _check_names(options, {*PLACE_OPTIONS, *known})
        urls = {options[name] for name in ("url", "path") if name in options}
        if len(urls) != 1:
            reason = "it is not said where the database is" if not urls else "url and path name two places"
            raise InvalidRequestError('format("worm")', reason=reason, fix=_NO_URL)
        model, collection = options.get("model"), options.get("collection")
        if (model is None) == (collection is None):
            raise InvalidRequestError(
                'format("worm")',
                reason="it needs either the option model or the option collection",
                fix='option("model", "Customer"), or option("collection", "logs") for one without a schema',
            )
        return cls(urls.pop(), model, collection, _outer(options.get("outer")), tuple(sorted(variables.items())))

    @classmethod
    def named(
        cls,
        url: str,
        model: str | None = None,
        collection: str | None = None,
        outer: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> Where:
        """The place that a caller names. No requests; raises InvalidRequestError unless one of both is given."""
        if (model is None) == (collection is None):
            raise InvalidRequestError(
                f"a job on {url}",
                reason="it needs either a model or a collection",
                fix='name the model, or collection="logs" for one without a schema',
            )
        parts = tuple((outer or {}).items())
        return cls(absolute(url), model, collection, parts, tuple(sorted((variables or {}).items())))

    @property
    def name(self) -> str:
        """The collection, for messages."""
        return self.model or self.collection or ""

    def open(self) -> Database:
        """The database, opened once in a process for each place. No requests."""
        key = (os.getpid(), self.url, self.variables)
        with _opening:
            if key not in _open:
                os.environ.update(self.variables)
                _open[key] = connect(self.url, settings=WORKER_SETTINGS)
            return _open[key]

    def handle(self, *, renews: bool = True) -> Collection[Document]:
        """The collection as users have it. 1 GET for the published schema, if it has a model.

        Without `renews` the schema is read only once in a process: for callers that ask often, and only for the log.
        """
        database = self.open()
        if self.model is not None:
            if renews:
                _renew_schema(database)
            return database.model(self.model, **dict(self.outer))
        assert self.collection is not None
        return database[self.collection]

    def access(self, *, renews: bool = True) -> Access[Document]:
        """The collection as the parts of the API have it. Costs as `handle`."""
        return self.handle(renews=renews)._access  # noqa: SLF001 - this package is a part of the database


def absolute(url: str) -> str:
    """A place under a name that means the same in every process of a machine: folders from the root. No requests."""
    return url if "://" in url else str(Path(url).expanduser().absolute())


def _renew_schema(database: Database) -> None:
    """Forget what was published when the database was opened: workers live on, and models change between jobs."""
    found = PublishedSchema(database.store).read()
    if found is not None:
        database._declared.schema = found  # noqa: SLF001 - this package is a part of the database


def _check_names(options: Mapping[str, str], known: Names[str]) -> None:
    for name in options:
        if _SECRET.search(name.lower()):
            raise InvalidRequestError(
                f"option {name}",
                reason="options show in plans and logs, and this one looks like a secret",
                fix="set it in the environment, or as the Spark setting spark.wormdb.env.NAME",
            )
        if name.lower() not in known:
            raise InvalidRequestError(
                f"option {name}", reason='format("worm") has no such option', fix=did_you_mean(name, sorted(known))
            )


def _outer(text: str | None) -> tuple[tuple[str, Any], ...]:
    if text is None:
        return ()
    try:
        parts = json.loads(text)
    except ValueError:
        parts = None
    if not isinstance(parts, dict):
        raise InvalidRequestError(
            f"option outer={text}", reason="it must be a JSON object", fix="""give it as '{"org": "acme"}'"""
        )
    return tuple(parts.items())
