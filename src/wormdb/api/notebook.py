"""Calls of a notebook: what a collection or a database is like at a glance, and tables in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from wormdb.api.calls import reads, works
from wormdb.api.familiar import FamiliarMethods
from wormdb.api.glance import CollectionPicture, html_error, html_pictures, known_picture
from wormdb.errors import InvalidRequestError, WormError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.api.imports.records import ConflictRule, ImportResult
    from wormdb.api.results import Results

__all__ = ["NotebookMethods", "UncountedError"]

T = TypeVar("T")

HEAD_ROWS: Final = 5
LENGTH_MS: Final = 1_000
"""`len` is of a state that was read within this time. `list` asks for it as a hint right after the state was read."""


class UncountedError(InvalidRequestError, TypeError):
    """Only a listing would tell how many there are. `list` takes a TypeError of its hint as no hint."""


class NotebookMethods(FamiliarMethods[T]):
    """Queries, names of pymongo, and what notebooks ask of an object."""

    def __repr__(self) -> str:
        """What this process knows of it: documents, fields, indexes and size. No requests."""
        name = repr(self._access.writer.origin)
        known = known_picture(self._access.ledger, self._access.writer.model)
        return f"Collection({name})" if known is None or not known.number else f"Collection({name}: {known.to_text()})"

    def _repr_html_(self) -> str:
        """The same for a notebook, of the state now: 1 GET in a warm process. What goes wrong is told instead.

        Of files of another program their manifest is read, or they are listed.
        """
        try:
            return html_pictures([self._picture()])
        except WormError as error:
            return html_error(error)

    @reads
    def _picture(self) -> CollectionPicture:
        access = self._access
        if access.files is not None:
            return CollectionPicture.of_files(access.files)
        return CollectionPicture.of(access.ledger, access.view(), access.writer.model)

    def __bool__(self) -> bool:
        """Always true, as that of any handle: whether there are documents is `len(…) > 0`. No requests."""
        return True

    def __len__(self) -> int:
        """How many documents there are, as `count` of a state that is at most one second old: 1 GET, or none.

        `list(collection)` asks for this too, and right after it read the state: that costs no request. Of files of
        another program it raises InvalidRequestError: `count` lists them.
        """
        if self._access.files is not None:
            raise UncountedError(
                f"len of {self._access.name}", reason="it lists files of another program", fix="use count()"
            )
        return self.count(stale_ms=max(LENGTH_MS, self._access.freshness.stale_ms))

    def head(self, count: int = HEAD_ROWS) -> Results[T]:
        """The first documents in order of id, which show themselves as a table. Nothing is asked before they are.

        Costs as `find` with a limit. Raises InvalidRequestError for a number below 1.
        """
        given: object = count
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise InvalidRequestError(f"head({count!r:.40})", reason="it must be a whole number above 0")
        return self.find(limit=count)

    @property
    def columns(self) -> list[str]:
        """The columns of a table of it, as `to_arrow` has them. No requests with a model, else 1 GET in a warm process.

        Without a model those that a sample of the documents has, at most 256 of them; `to_arrow` looks at all.
        """
        return self._columns()

    @reads
    def _columns(self) -> list[str]:
        from wormdb.api.arrow import default_columns, sampled_columns
        from wormdb.query.sources.engine import EngineSource

        access = self._access
        model = access.writer.model
        if model is not None:
            return list(default_columns(model))
        view = access.view()
        if view.definition.model is not None:
            return list(default_columns(view.definition.model))
        return sampled_columns(EngineSource(view, access.ledger).facts.sample)

    @reads
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """What `to_arrow` gives, for whatever takes Arrow streams: DuckDB, Polars, pyarrow. Costs as `to_arrow`."""
        from wormdb.api.arrow import TableReader

        return TableReader(self._access).arrow(None, None, None, None).__arrow_c_stream__(requested_schema)

    @works
    def insert_frame(
        self,
        frame: Any,
        *,
        on_conflict: ConflictRule = "error",
        id_field: str | None = None,
        actor: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> ImportResult:
        """Insert the rows of a data frame of pandas or Polars, or of a table of Arrow, all by one entry or none.

        What has a stream of Arrow is one too, such as a relation of DuckDB or what another `find` finds. Columns are
        fields, those with dots fields of objects; null is a field that is not there, and so is NaN of pandas. The
        column `id` or `id_field` is the id, and a named index of pandas a column; without an id one is made. Values
        are of the types that `to_arrow` shows, and text of a declared object is its JSON. `on_conflict` says what
        becomes of a row whose id exists: `error`, `replace` or `ignore`. Costs as `import_records`. Raises
        InvalidRequestError for rows that do not fit, naming the first: nothing was written then.
        """
        from wormdb.api.imports.frames import import_frame

        return import_frame(self._access, self._access.by(actor, metadata), frame, on_conflict, id_field)
