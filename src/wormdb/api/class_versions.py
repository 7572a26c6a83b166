"""A class that changed since the database took its definition: what that means, and how the database follows it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from wormdb.errors import (
    ConflictError,
    InvalidRequestError,
    PermissionDeniedError,
    Problem,
    SchemaMismatchError,
    WormError,
)
from wormdb.format import json
from wormdb.schema.difference import breaks, compare_models

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from wormdb.api.document import ClassCodec
    from wormdb.api.schema import Evolution, ModelPlan
    from wormdb.engine.ledger import CommitResult
    from wormdb.engine.migrate import Migrate
    from wormdb.engine.state.view import View

__all__ = ["CLASS_DOCUMENTS_MAX", "ClassChange"]

log = logging.getLogger(__name__)

CLASS_DOCUMENTS_MAX: Final = 10_000
"""Documents of a collection that are looked at because a class is opened; for more it is a step of its own."""
_MISFITS_SHOWN: Final = 100
_ATTEMPTS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class ClassChange:
    """One class as a model of its own, and what the database has for it."""

    cls: type[Any]
    codec: ClassCodec[Any]
    evolution: Evolution
    """Of the class's model, without a mapping."""
    url: str
    """Of the database, for messages."""

    def follow(self) -> None:
        """Make the class as it is now the database's definition, where every document fits it; nothing if it is.

        An older version of the class stays one. 1 GET in a warm process; if the class changed, a scan of the documents
        and 1 PUT. Raises SchemaMismatchError with the plan, before anything is written: for a change that documents
        may not fit, for one that this process may not make, and for more than CLASS_DOCUMENTS_MAX documents.
        """
        view = self.evolution.ledger.view()
        for _ in range(_ATTEMPTS_MAX):
            stored, body = view.definition.model, self.codec.model.canonical()
            if stored is None or view.definition.begun_at(body) is not None:
                return
            if view.count and (problems := breaks(stored, self.codec.model)):
                raise self._refused(view, problems)
            if view.count > CLASS_DOCUMENTS_MAX:
                raise self._postponed(view, f"its {view.count:,} documents have to be looked at")
            try:
                self.apply()
            except ConflictError:
                view = self.evolution.ledger.view()  # another process changed it meanwhile: perhaps in the same way
                continue
            except PermissionDeniedError as error:
                raise self._postponed(view, "this process may not change the definition") from error
            except InvalidRequestError as error:
                raise self._refused(view, error.problems or [Problem("", str(error))]) from error
            changed = "; ".join(map(str, compare_models(stored, self.codec.model)))
            log.info("%s: the class changed, and the database follows it: %s", self.url, changed)
            return
        raise self._postponed(view, "other processes change the definition")

    def plan(self, mapping: Mapping[str, Any] | None = None, migrate: Migrate | None = None) -> ModelPlan | None:
        """What `apply` with the same arguments would change; None if nothing, or if the class is an older version.

        Its warnings say why documents may not fit the class as they are. 1 GET, and 1 for each page of a long list of
        blocks. Raises InvalidRequestError for a mapping that cannot be used.
        """
        view = self.evolution.ledger.view()
        stored = view.definition.model
        is_brought = mapping is not None or migrate is not None
        if not is_brought and stored is not None and view.definition.begun_at(self.codec.model.canonical()) is not None:
            return None
        plan = self._evolution(mapping, migrate, view).plan()
        if plan is None or is_brought or stored is None or not view.count:
            return plan
        return replace(plan, mapping=None, warnings=tuple(map(str, breaks(stored, self.codec.model))))

    def apply(self, mapping: Mapping[str, Any] | None = None, migrate: Migrate | None = None) -> CommitResult:
        """Make the class the database's definition; documents are those of before, mapped, or made by a function.

        Every document is read first. Costs and raises as `Evolution.apply`, and InvalidRequestError listing the
        documents that the class cannot read: then nothing has changed. Programs with the class of before go on, unless
        a function made the documents.
        """
        view = self.evolution.ledger.view()
        evolution = self._evolution(mapping, migrate, view)
        if not evolution.mapping and migrate is None:
            misfits = list(islice(self._misfits(view), _MISFITS_SHOWN))
            if misfits:
                raise InvalidRequestError(
                    f"class {self.cls.__name__}",
                    problems=misfits,
                    fix="change the class, or bring the documents to it by a mapping or a function",
                )
        return evolution.apply()

    def _evolution(self, mapping: Mapping[str, Any] | None, migrate: Migrate | None, view: View) -> Evolution:
        # Without a mapping older programs would be refused: an empty one says that documents stay as they are.
        is_first = view.definition.model is None
        given = mapping if migrate is not None or is_first or mapping is not None else {}
        return replace(self.evolution, mapping=given, migrate=migrate)

    def _misfits(self, view: View) -> Iterator[Problem]:
        for _, held in view.scan():
            if held.document is None:
                continue
            try:
                self.codec.completed(json.decode_document(held.document, name=f"document {held.id.decode()}"))
            except WormError as error:
                yield Problem(f"document {held.id.decode()}", error.reason or str(error))

    def _refused(self, view: View, problems: tuple[Problem, ...] | list[Problem]) -> SchemaMismatchError:
        first = problems[0].fix or "change the class"
        ways = f"--mapping FILE, or --migrate {self.codec.model.name}=MODULE:FUNCTION"
        return SchemaMismatchError(
            f"class {self.cls.__name__} does not fit the {view.count:,} documents of {self.codec.model.name}",
            problems=problems,
            fix=f"nothing was written; {first}, or bring documents to it: {self._command} {ways}",
        )

    def _postponed(self, view: View, reason: str) -> SchemaMismatchError:
        stored = view.definition.model
        assert stored is not None
        problems = [
            Problem(change.path, str(change).removeprefix(f"{change.path}: "))
            for change in compare_models(stored, self.codec.model)
        ]
        return SchemaMismatchError(
            f"class {self.cls.__name__} changed since the database took its definition",
            reason=f"{reason}; {problems[0]}" if problems else reason,
            fix=f"nothing was written; run: {self._command}",
            problems=problems,
        )

    @property
    def _command(self) -> str:
        place = "MODULE" if self.cls.__module__ == "__main__" else self.cls.__module__
        return f"worm schema apply {place}:{self.cls.__qualname__} --url '{self.url}'"
