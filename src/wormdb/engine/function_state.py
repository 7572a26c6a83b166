"""The functions of a collection: names that stand for filters, as entries of the log change them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from wormdb.engine.state.operations import Pending
from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError
from wormdb.format import json
from wormdb.format.event import FunctionDropped, FunctionRegistered
from wormdb.format.root import FunctionEntry
from wormdb.settings import FUNCTION_BYTES_MAX, FUNCTIONS_MAX

if TYPE_CHECKING:
    from wormdb.bql.functions import Functions
    from wormdb.bql.tree import Filter
    from wormdb.engine.state.definition import Definition
    from wormdb.engine.state.view import View
    from wormdb.system.types import LogNumber

__all__ = ["after_function", "body_of", "drop_function", "functions_of", "register_function"]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}", re.ASCII)


def after_function(
    functions: tuple[FunctionEntry, ...], event: FunctionRegistered | FunctionDropped, number: LogNumber
) -> tuple[FunctionEntry, ...]:
    """What an event makes of them. Raises CorruptionError for one that cannot come now. No requests."""
    known = {each.name: each for each in functions}
    if isinstance(event, FunctionRegistered):
        known[event.name] = FunctionEntry(name=event.name, filter=event.filter, number=number)
    elif known.pop(event.name, None) is None:
        raise CorruptionError(f"log entry {number}", reason=f"it drops function {event.name}, which is not there")
    return tuple(known[name] for name in sorted(known))


def body_of(entry: FunctionEntry) -> Filter:
    """The filter that a function stands for. Raises CorruptionError. No requests."""
    try:
        return _parsed(entry.filter)
    except InvalidRequestError as error:
        raise CorruptionError(f"function {entry.name}", reason=str(error)) from error


def functions_of(definition: Definition, collection: str) -> Functions:
    """The functions of a definition, to be used in filters. Raises CorruptionError. No requests."""
    from wormdb.bql.functions import Functions  # who uses none does not load the query language

    return Functions({each.name: body_of(each) for each in definition.functions}, collection.rstrip("/"))


@lru_cache(maxsize=1_024)
def _parsed(body: bytes) -> Filter:
    from wormdb.bql.parse import parse_filter

    return parse_filter(json.parse(body.decode(), operators=True))


def register_function(batch_id: str, name: str, tree: Filter, *, collection: str, actor: str | None) -> Pending:
    """The batch that has a name stand for a filter, in place of what it may have stood for. No requests.

    Raises InvalidRequestError for what is no name, LimitExceededError for too long a filter. The commit raises
    NotFoundError for a function that the filter names and that is not there, InvalidRequestError if it would use
    itself, LimitExceededError for too many or too large ones. Nothing is written then.
    """
    if not _NAME.fullmatch(name):
        raise InvalidRequestError(
            f"function {name!r:.100}",
            reason="its name must begin with a letter, and have letters, digits, _ . - only, 100 at most",
            fix="choose another name",
        )
    body = tree.text.encode()
    if len(body) > FUNCTION_BYTES_MAX:
        raise LimitExceededError(
            f"function {name} of {len(body):,} bytes",
            reason=f"FUNCTION_BYTES_MAX is {FUNCTION_BYTES_MAX:,}",
            fix="split it into several that it names",
        )

    def guard(view: View) -> None:
        known = functions_of(view.definition, collection)
        if name not in known.bodies and len(known.bodies) >= FUNCTIONS_MAX:
            raise LimitExceededError(
                f"function {name}", reason=f"FUNCTIONS_MAX is {FUNCTIONS_MAX:,}", fix="drop some that are not used"
            )
        known.check(name, tree)

    return Pending(batch_id, events=(FunctionRegistered(name=name, filter=body),), actor=actor, guard=guard)


def drop_function(batch_id: str, name: str, *, collection: str, actor: str | None) -> Pending:
    """The batch that drops a function. No requests.

    The commit raises NotFoundError, and InvalidRequestError if other functions name it. Nothing is written then.
    """

    def guard(view: View) -> None:
        known = functions_of(view.definition, collection)
        if name not in known.bodies:
            raise known.unknown(name)
        users = known.users(name)
        if users:
            raise InvalidRequestError(
                f"function {name}", reason=f"{', '.join(users[:10])} use it", fix="change or drop these first"
            )

    return Pending(batch_id, events=(FunctionDropped(name=name),), actor=actor, guard=guard)
