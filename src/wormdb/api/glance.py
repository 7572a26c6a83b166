"""Databases and collections at a glance: as a line of text, or as a table for a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from wormdb.api.calls import works
from wormdb.errors import WormError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from wormdb.api.calls import CallKind
    from wormdb.api.connection import Ledgers
    from wormdb.engine.ledger import Ledger
    from wormdb.engine.state.view import View
    from wormdb.files.foreign.collection import ForeignCollection
    from wormdb.schema.model import Model
    from wormdb.system.deadline import within

__all__ = ["CollectionPicture", "DatabaseDisplay", "html_error", "html_pictures", "known_picture"]

_NAMES_SHOWN: Final = 8
_COLLECTIONS_SHOWN: Final = 50
_HEAD: Final = ("collection", "model", "documents", "fields", "indexes", "size")


@dataclass(frozen=True, slots=True)
class CollectionPicture:
    """What one state of a collection is like, for people. No requests: all of it comes with the state."""

    folder: str
    model: str
    documents: int
    fields: tuple[str, ...]
    """Each with its type, if one is declared."""
    indexes: tuple[str, ...]
    size: int
    """Stored bytes of the documents, about."""
    number: int
    """The log number of the state."""

    @classmethod
    def of(cls, ledger: Ledger, view: View, model: Model | None) -> CollectionPicture:
        """No requests. Raises CorruptionError for a damaged root."""
        from wormdb.api.status import indexes_of
        from wormdb.query.sources.engine import EngineSource

        if view.definition.expiries and view.now_ms is None:
            view = ledger.expiry.alive(view)
        model = model or view.definition.model
        facts = EngineSource(view, ledger).facts
        return cls(
            folder=ledger.collection.rstrip("/"),
            model="" if model is None else model.name,
            documents=view.count,
            fields=_fields(model, facts.sample),
            indexes=tuple(each.name for each in indexes_of(view.definition)),
            size=facts.document_bytes,
            number=view.number,
        )

    @classmethod
    def of_files(cls, files: ForeignCollection) -> CollectionPicture:
        """Of files that another program keeps: their manifest is read, or they are listed."""
        found, count = files.manifest()
        model, folder = files.folder.model, files.folder.collection
        names = tuple(model.indexes)
        return cls(folder.rstrip("/"), model.name, count, _fields(model, ()), names, found.size_bytes, 0)

    def to_text(self) -> str:
        """One line."""
        parts = [
            f"{self.documents:,} document{'s' * (self.documents != 1)}",
            *([f"fields {_few(self.fields)}"] if self.fields else []),
        ]
        return ", ".join([*parts, f"indexes {_few(self.indexes)}", _size_text(self.size)])

    def cells(self) -> list[str]:
        """A row of a table of collections."""
        named = [self.model, f"{self.documents:,}", _few(self.fields), _few(self.indexes), _size_text(self.size)]
        return [self.folder, *named]


def _fields(model: Model | None, sample: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    if model is not None:
        return tuple(f"{name}: {field.type}" for name, field in model.fields.items())
    return tuple(dict.fromkeys(name for document in sample for name in document if name != "_id"))


def _few(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_SHOWN
    return ", ".join([*names[:_NAMES_SHOWN], *([f"… {more} more"] if more > 0 else [])])


def _size_text(size: int) -> str:
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f} {unit}"
    return f"{size} bytes"


def html_pictures(pictures: Iterable[CollectionPicture]) -> str:
    """Collections as a table in HTML, one in a row; every text is escaped. No requests."""
    from html import escape

    names = "".join(f"<th>{name}</th>" for name in _HEAD)
    rows = [[f"<td>{escape(cell)}</td>" for cell in picture.cells()] for picture in pictures]
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def html_error(error: WormError) -> str:
    """What went wrong, as a paragraph. No requests."""
    from html import escape

    return f"<p>{escape(f'{type(error).__name__}: {error}')}</p>"


def known_picture(ledger: Ledger, model: Model | None) -> CollectionPicture | None:
    """The state that this process knows, if it is younger than a minute and likely to be the newest. No requests."""
    try:
        view = ledger.trusted()
        return None if view is None else CollectionPicture.of(ledger, view, model)
    except WormError:
        return None  # the database is closed, or damaged: printing a handle of it must not raise


class DatabaseDisplay:
    """What a database shows of itself."""

    _ledgers: Ledgers

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        raise NotImplementedError

    def _limited(self, kind: CallKind, timeout: float | None) -> within:
        raise NotImplementedError

    def _prefixes(self, names: Iterable[str] | None) -> list[str]:
        raise NotImplementedError

    def _ledger(self, prefix: str) -> Ledger:
        raise NotImplementedError

    def collections(self, *, with_removed: bool = False) -> list[str]:
        """The folder of every collection there is."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Where it is, and what this process knows of the collections that it opened, each in a line. No requests."""
        lines = [f"Database({self.url!r})"]
        for _, ledger in sorted(self._ledgers.opened().items())[:_COLLECTIONS_SHOWN]:
            known = known_picture(ledger, None)
            if known is not None and known.number:
                lines.append(f"  {known.folder}: {known.to_text()}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """A table for a notebook of the collections that were opened here or are in the schema, as they are now.

        1 GET for each in a warm process, of at most 50, and 1 GET if the published schema has to be read. If there are
        none, those that the bucket has, which is listed. What goes wrong is told instead.
        """
        try:
            return self._picture()
        except WormError as error:
            return html_error(error)

    @works
    def _picture(self) -> str:
        from html import escape

        known = self._prefixes(None) or self.collections()  # a new process knows none of a database without a schema
        ledgers = [self._ledger(prefix) for prefix in known[:_COLLECTIONS_SHOWN]]
        rows = [CollectionPicture.of(ledger, ledger.view(), None) for ledger in ledgers]
        more = len(known) - len(rows)
        note = f"<p>… {more} more</p>" if more else ""
        return f"<p><b>Database</b> {escape(self.url)}</p>{html_pictures(rows)}{note}"
