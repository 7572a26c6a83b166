"""Records that are read one after the other in this process, as often as it takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any

from wormdb.api.imports.intake import Rejection
from wormdb.api.imports.load import ConflictFoundError, ImportLoader, LoadRules
from wormdb.api.imports.rows import Rows, RowSpool
from wormdb.api.imports.run import ImportResult, Loads, StoppedError
from wormdb.settings import IMPORT_BYTES, IMPORT_RECORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from wormdb.api.access import Access
    from wormdb.api.imports.conflicts import Losers, Suspect
    from wormdb.engine.bulk.report import BulkTarget

__all__ = ["Stream"]


@dataclass(slots=True)
class Stream:
    """One piece. Memory does not grow with it; rejected records beyond some are kept in a temporary file."""

    access: Access[Any]
    rows: Callable[[], Iterable[Rows]]
    """All records from the first on, each time it is called."""
    rejects_max: int | None = None
    """Reading stops when more records are rejected."""
    told: Callable[[ImportResult], None] | None = None
    """Told after some records how far it is."""
    _begun: Iterator[Rows] | None = None
    """All records, of which some were read already."""
    _numbered: tuple[BulkTarget, int] | None = None
    _rejected: RowSpool[Rejection] = field(default_factory=lambda: RowSpool(Rejection.pack, Rejection.unpack))

    def small(self) -> list[Rows] | None:
        """All records, if they are few enough for one commit."""
        found: list[Rows] = []
        rows = iter(self.rows())
        count = size = 0
        for some in rows:
            found.append(some)
            count, size = count + some.count, size + some.size
            if count > IMPORT_RECORDS or size > IMPORT_BYTES:
                self._begun = chain(found, rows)
                return None
        return found

    def load(self, rules: LoadRules, losers: Sequence[Losers]) -> Loads:
        """`Loader.load` of all records."""
        rows, self._begun = self._begun or iter(self.rows()), None
        self._rejected.clear()
        progress = ImportResult()
        is_stopped, report = False, b""
        try:
            report, _ = self._loader(rules).load(
                self._watched(rows, progress), losers[0] if losers else {}, self._reject
            )
        except ConflictFoundError as conflict:
            return Loads((), progress.read, (), str(conflict))
        except StoppedError:
            is_stopped = True
        return Loads([report], progress.read, self._rejected, line=progress.line, is_stopped=is_stopped)

    def keys(self, rules: LoadRules) -> list[bytes]:
        """`Loader.keys` of all records."""
        return [self._loader(rules).keys(self.rows())]

    def suspects(self, rules: LoadRules, hashes: frozenset[int]) -> list[list[Suspect]]:
        """`Loader.suspects` of all records."""
        return [self._loader(rules).suspects(self.rows(), hashes)]

    def close(self) -> None:
        """Remove what was kept in a temporary file."""
        self._rejected.clear()

    def _loader(self, rules: LoadRules) -> ImportLoader:
        """With one number for all passes over the records: ids that are numbered must be the same in each."""
        model, number = self.access.writer.model, None
        if model is not None and model.id == "seq":
            if self._numbered is None or self._numbered[0] is not rules.target:
                self._numbered = rules.target, self.access.ledger.settled()[1]
            number = self._numbered[1]
        return ImportLoader(self.access, rules, number=number)

    def _reject(self, rejected: Rejection) -> None:
        self._rejected.append(rejected)
        if self.rejects_max is not None and len(self._rejected) > self.rejects_max:
            raise StoppedError

    def _watched(self, rows: Iterable[Rows], progress: ImportResult) -> Iterator[Rows]:
        """The records, and after some of them how far it is."""
        said = 0
        for some in rows:
            yield some
            progress.read += some.count
            progress.line = some.records[-1].line if some.records else progress.line
            progress.rejected = len(self._rejected)
            if self.told is not None and progress.read - said >= IMPORT_RECORDS:
                said = progress.read
                self.told(progress)
