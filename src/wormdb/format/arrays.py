"""Arrow arrays and scalars of Python values, without a wait for pandas.

`pa.array` and `pa.scalar` ask whether their argument is a pandas object, and the first such question imports pandas
wherever it is installed: longer than a whole first query takes. So columns that queries meet are made of buffers here,
until pandas is loaded anyway, or so many values were made that its import would have paid. Arrow's own functions take
the values that have no plain buffer, and say what is wrong with a value.
"""

from __future__ import annotations

import sys
from array import array
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from wormdb.format.wrappers import milliseconds
from wormdb.system.forks import lock_against_forks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    _Maker = Callable[[Sequence[Any], type, pa.DataType], tuple[Any, ...]]

__all__ = ["array_of", "scalar_of", "settle_arrow"]

VALUES_MAX: Final = 1_000_000
"""Values of a process that are made here: about as many as take the time of the import."""
_made = 0
_is_asked = False
_first_question = lock_against_forks()
"""Held while Arrow is asked for the first time.

Arrow imports pandas then, behind a guard of its own. A child that is forked meanwhile has the guard, and not the thread
that would open it: it would wait for ever.
"""


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """What `pa.array(values, kind)` gives, and raises. No requests."""
    import pyarrow as pa

    global _made  # noqa: PLW0603 - a count of the process, which may be a little wrong
    if _made > VALUES_MAX or not _would_import():
        return _ask_arrow(values, kind)
    _made += len(values)
    types = set(map(type, values))
    is_whole = type(None) not in types
    types.discard(type(None))
    if not types:
        return pa.nulls(len(values), kind)
    make = _lists if pa.types.is_list(kind) else _MAKERS.get(str(kind))
    if make is None or len(types) > 1:
        return _ask_arrow(values, kind)
    try:
        buffers, *children = make(values, types.pop(), kind)
    except (OverflowError, ValueError):
        return _ask_arrow(values, kind)
    valid = None if is_whole else _bits([value is not None for value in values])
    shown = [None if part is None else pa.py_buffer(part) for part in (valid, *buffers)]
    return pa.Array.from_buffers(kind, len(values), shown, children=children or None)


def scalar_of(value: Any, kind: pa.DataType | None = None) -> pa.Scalar:
    """What `pa.scalar(value, kind)` gives, and raises; the type of a bool or an int need not be said. No requests."""
    import pyarrow as pa

    return array_of((value,), kind or (pa.bool_() if type(value) is bool else pa.int64()))[0]


def settle_arrow() -> None:
    """Let Arrow look for pandas now, if it never did. For code that asks Arrow itself, which a fork must not meet."""
    if not _is_asked:
        import pyarrow as pa

        _ask_arrow([0], pa.int64())


def _ask_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    global _is_asked  # noqa: PLW0603 - whether the process ever asked
    if _is_asked:
        return pa.array(values, kind)
    with _first_question:
        made = pa.array(values, kind)
    _is_asked = True
    return made


def _would_import() -> bool:
    """Whether Arrow would look for pandas now."""
    return "pandas" not in sys.modules


# --- Makers of the buffers behind the one of nulls, and of the array below. ValueError: Arrow is to look at the values.


def _check(found: type, wanted: type) -> None:
    if found is not wanted:
        raise ValueError(found)


def _numbers(wanted: type, code: str) -> _Maker:
    def make(values: Sequence[Any], found: type, _: pa.DataType) -> tuple[Any, ...]:
        _check(found, wanted)
        return ((array(code, [0 if value is None else value for value in values]),),)

    return make


def _texts(wanted: type, code: str) -> _Maker:
    def make(values: Sequence[Any], found: type, _: pa.DataType) -> tuple[Any, ...]:
        _check(found, wanted)
        parts = [b"" if value is None else value.encode() if found is str else value for value in values]
        return ((_offsets(code, parts), b"".join(parts)),)

    return make


def _flags(values: Sequence[Any], found: type, _: pa.DataType) -> tuple[Any, ...]:
    _check(found, bool)
    return ((_bits(values),),)


def _moments(values: Sequence[Any], found: type, _: pa.DataType) -> tuple[Any, ...]:
    _check(found, datetime)
    if any(value is not None and (value.tzinfo is not UTC or value.microsecond % 1000) for value in values):
        raise ValueError("not whole milliseconds of UTC")
    return ((array("q", [0 if value is None else milliseconds(value) for value in values]),),)


def _twelve_bytes(values: Sequence[Any], found: type, _: pa.DataType) -> tuple[Any, ...]:
    _check(found, bytes)
    if any(value is not None and len(value) != 12 for value in values):
        raise ValueError("of another length")
    return ((b"".join(bytes(12) if value is None else value for value in values),),)


def _lists(values: Sequence[Any], found: type, kind: pa.DataType) -> tuple[Any, ...]:
    _check(found, list)
    parts = [() if value is None else value for value in values]
    return (_offsets("i", parts),), array_of([each for part in parts for each in part], kind.value_type)


def _offsets(code: str, parts: Sequence[Any]) -> array[int]:
    return array(code, accumulate(map(len, parts), initial=0))


def _bits(flags: Sequence[Any]) -> bytes:
    """A bitmap, the first flag lowest."""
    digits = "".join(["1" if flag else "0" for flag in reversed(flags)])
    return int(digits, 2).to_bytes((len(flags) + 7) // 8, "little")


_MAKERS: Final[dict[str, _Maker]] = {
    "bool": _flags,
    "int32": _numbers(int, "i"),
    "int64": _numbers(int, "q"),
    "uint8": _numbers(int, "B"),
    "uint64": _numbers(int, "Q"),
    "double": _numbers(float, "d"),
    "string": _texts(str, "i"),
    "large_string": _texts(str, "q"),
    "binary": _texts(bytes, "i"),
    "large_binary": _texts(bytes, "q"),
    "fixed_size_binary[12]": _twelve_bytes,
    "timestamp[ms, tz=UTC]": _moments,
}
"""By the name of an Arrow type."""
