"""The functions of one collection: named filters that every process knows, as users register and drop them."""

# ruff: noqa: A002 - `filter` is the name that users know

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from wormdb.api.options import WrittenFilter, read_filter
from wormdb.engine.commit.define import drop_function, register_function
from wormdb.engine.state.definition import body_of, functions_of
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from wormdb.api.access import Access
    from wormdb.format.root import FunctionEntry

__all__ = ["FunctionDefinition", "FunctionRegistry"]


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """A name that stands for a filter."""

    name: str
    filter: dict[str, Any]
    """As it was registered, in one form for equal filters; it may name other functions."""
    hash: str
    """`sha256:` and the digest of the filter as JSON: another definition has another one."""
    number: int
    """The log number that brought it."""
    expanded: dict[str, Any]
    """The filter with what other functions stand for in the place of their names."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "name": self.name,
            "filter": self.filter,
            "hash": self.hash,
            "number": self.number,
            "expanded": self.expanded,
        }


@dataclass(frozen=True, slots=True)
class FunctionRegistry:
    """What `Collection.functions` gives: predicates that filters use as `{"$fn": name}`.

    A function is a filter, never code. It is an entry of the log, so every process knows it, and a new definition
    counts for every call that begins after it.
    """

    _access: Access[Any]

    def register(self, name: str, filter: WrittenFilter) -> FunctionDefinition:
        """Have a name stand for a filter, in place of what it may have stood for. 1 PUT; 1 GET in a warm process.

        The filter may use other functions. Raises InvalidRequestError with all mistakes of the filter, for a bad
        name, and for one that would use itself; NotFoundError for a function that is not registered;
        LimitExceededError over FUNCTIONS_MAX, FUNCTION_BYTES_MAX or the limits of filters. Nothing is written then.
        """
        access = self._access
        access.check_mode()
        given: Any = name
        if not isinstance(given, str) or filter is None:
            raise InvalidRequestError(
                f"function {name!r:.100}", reason="a name and a filter are needed", fix='give "isAdult", "age>=18"'
            )
        tree = read_filter(filter)
        pending = register_function(
            access.ledger.batch_id(), name, tree, collection=access.name, actor=access.author.actor
        )
        access.log.commit(pending, seconds=access.settings.commit_seconds)
        return self.get(name)

    def drop(self, name: str) -> None:
        """Forget a function. 1 PUT; 1 GET in a warm process.

        Raises NotFoundError, and InvalidRequestError if other functions use it.
        """
        access = self._access
        access.check_mode()
        pending = drop_function(access.ledger.batch_id(), name, collection=access.name, actor=access.author.actor)
        access.log.commit(pending, seconds=access.settings.commit_seconds)

    def get(self, name: str) -> FunctionDefinition:
        """One function. 1 GET in a warm process; raises NotFoundError."""
        found = next((each for each in self.list() if each.name == name), None)
        if found is None:
            raise functions_of(self._access.view().definition, self._access.name).unknown(name)
        return found

    def list(self) -> list[FunctionDefinition]:
        """All of them, in order of their names. 1 GET in a warm process."""
        definition = self._access.present().definition
        known = functions_of(definition, self._access.name)
        return [_shown(each, known.expanded(body_of(each)).to_filter()) for each in definition.functions]


def _shown(entry: FunctionEntry, expanded: dict[str, Any]) -> FunctionDefinition:
    return FunctionDefinition(
        name=entry.name,
        filter=body_of(entry).to_filter(),
        hash=f"sha256:{sha256(entry.filter).hexdigest()}",
        number=entry.number,
        expanded=expanded,
    )
