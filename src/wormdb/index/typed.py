"""Indexes that take values of one type only: a check on what is written, which changes no key."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from wormdb.bql.checks import check_type
from wormdb.bql.operands import OperandError, read_types
from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["check_row", "is_row_of", "read_bson_types"]

_WIDER: Final = {
    "long": ("int", "long"),
    "double": ("int", "double"),
    "decimal": ("int", "long", "double", "decimal"),
}
"""Numbers that a type takes besides its own, because nothing of them is lost."""


def read_bson_types(written: object, fields: Sequence[str], *, name: str) -> tuple[str, ...]:
    """The types that were written for the fields of index `name`: one alias of BSON's, or one a field; none for None.

    Raises InvalidRequestError. No requests.
    """
    if written is None:
        return ()
    types = [written] if isinstance(written, str) else written
    what = f"index {name}: bson_type={written!r:.80}"
    if not isinstance(types, list | tuple) or len(types) != len(fields):
        raise InvalidRequestError(
            what,
            reason=f"it has {len(fields)} fields",
            fix=f"give one type for each, such as {['string'] * len(fields)}",
        )
    for each in types:
        try:
            known = isinstance(each, str) and read_types(each)
        except OperandError as error:
            raise InvalidRequestError(what, reason=error.reason, fix=error.fix) from None
        if not known:
            raise InvalidRequestError(
                what, reason=f"{each!r:.40} names no type", fix='write such as "string" or "number"'
            )
    return tuple(types)


def is_row_of(row: Iterable[Any], types: Sequence[str]) -> bool:
    """Whether values have the types of their fields; None stands for nothing there. No requests."""
    return all(value is None or _test(alias)(value) for value, alias in zip(row, types, strict=True))


def check_row(row: Sequence[Any], fields: Sequence[str], types: Sequence[str], *, name: str) -> None:
    """Raise InvalidRequestError naming the index and the value if `is_row_of` does not hold. No requests."""
    for value, field, alias in zip(row, fields, types, strict=True):
        if not is_row_of((value,), (alias,)):
            raise InvalidRequestError(
                f"index {name}: {field}={value!r:.80} is no {alias}",
                reason="the index takes this type only",
                fix="write a value of that type, or make the index without bson_type",
            )


@cache
def _test(alias: str) -> Callable[[Any], bool]:
    return check_type(_WIDER.get(alias) or read_types(alias))
