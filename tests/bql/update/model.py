"""Updates as MongoDB's documentation tells them, one step after the other on a copy: slow and plain.

Positional segments are first turned into real positions, then each path is changed by itself, in the order of names.
"""

from __future__ import annotations

import copy
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from wormdb.bql.match import compile_filter
from wormdb.bql.parse import parse_filter
from wormdb.format.order import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

INT_LIMIT = 2**63
GONE: Any = object()


class RefusedError(Exception):
    """The update does not fit the document."""


def updated(
    document: dict[str, Any],
    update: dict[str, Any],
    *,
    filters: list[dict[str, Any]],
    matched: dict[str, int],
    now: datetime,
    is_insert: bool,
) -> dict[str, Any]:
    """The document after the update; RefusedError."""
    tests = {next(iter(item)).split(".")[0]: compile_filter(parse_filter(item, embedded=True)) for item in filters}
    result = copy.deepcopy(document)
    jobs = [
        (path, name, operand)
        for name, fields in update.items()
        for text, operand in fields.items()
        for path in real_paths(document, text.split("."), [], matched, tests)
    ]
    check_conflicts([path for path, _, _ in jobs])
    # What is renamed comes where its new name stands.
    for path, name, operand in sorted(
        jobs, key=lambda job: [order(part) for part in (job[2].split(".") if job[1] == "$rename" else job[0])]
    ):
        if name == "$rename":
            rename(document, result, path, operand.split("."))
        elif name != "$setOnInsert" or is_insert:
            change(result, path, name, operand, now)
    for path, name, _ in jobs:
        if name == "$rename":
            remove(result, path)
    return result


def order(part: str) -> tuple[bool, int, str]:
    return (False, int(part), "") if part.isdigit() else (True, 0, part)


def check_conflicts(paths: list[list[str]]) -> None:
    for place, path in enumerate(paths):
        for other in paths[place + 1 :]:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise RefusedError


def real_paths(
    value: Any, rest: list[str], done: list[str], matched: dict[str, int], tests: dict[str, Any]
) -> Iterator[list[str]]:
    if not any(part.startswith("$") for part in rest):
        yield done + rest
        return
    part, *rest = rest
    if part.startswith("$"):
        if not isinstance(value, list):
            raise RefusedError
        if part == "$":
            if ".".join(done) not in matched:
                raise RefusedError
            positions = [matched[".".join(done)]]
        else:
            test = tests.get(part[2:-1])
            positions = [at for at, item in enumerate(value) if test is None or test({part[2:-1]: item})]
        for at in positions:
            yield from real_paths(value[at] if at < len(value) else GONE, rest, [*done, str(at)], matched, tests)
        return
    if isinstance(value, dict):
        inner = value.get(part, GONE)
    elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
        inner = value[int(part)]
    else:
        inner = GONE
    yield from real_paths(inner, rest, [*done, part], matched, tests)


def read(value: Any, path: list[str]) -> Any:
    for part in path:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return GONE
    return value


def is_blocked(value: Any, path: list[str]) -> bool:
    """Whether a value that is no document, or an array without such a position, stands in the way."""
    for part in path:
        if isinstance(value, dict):
            if part not in value:
                return False
            value = value[part]
        elif isinstance(value, list) and part.isdigit():
            if int(part) >= len(value):
                return False
            value = value[int(part)]
        else:
            return True
    return False


def write(document: Any, path: list[str], new: Any) -> None:
    if is_blocked(document, path):
        raise RefusedError
    value = document
    for part, following in zip(path, [*path[1:], None], strict=True):
        target = copy.deepcopy(new) if following is None else {}
        if isinstance(value, list):
            while len(value) <= int(part):
                value.append(GONE)
            for at, item in enumerate(value[:-1]):
                value[at] = None if item is GONE else item
            if following is None or value[int(part)] is GONE:
                value[int(part)] = target
            value = value[int(part)]
        else:
            if following is None or part not in value:
                value[part] = target
            value = value[part]


def remove(document: Any, path: list[str]) -> None:
    parent = read(document, path[:-1])
    if isinstance(parent, dict):
        parent.pop(path[-1], None)
    elif isinstance(parent, list) and path[-1].isdigit() and int(path[-1]) < len(parent):
        parent[int(path[-1])] = None


def rename(before: dict[str, Any], result: dict[str, Any], source: list[str], target: list[str]) -> None:
    for size in range(1, len(source)):
        way = read(before, source[:size])
        if way is GONE:
            return
        if not isinstance(way, dict):
            raise RefusedError
    value = read(before, source)
    if value is GONE:
        return
    if any(isinstance(read(before, target[:size]), list) for size in range(1, len(target))):
        raise RefusedError
    write(result, target, value)


def change(document: dict[str, Any], path: list[str], name: str, operand: Any, now: datetime) -> None:
    if name == "$unset":
        remove(document, path)
        return
    if is_blocked(document, path):
        raise RefusedError
    old = read(document, path)
    if name in {"$pull", "$pullAll", "$pop"} and old is GONE:
        return
    write(document, path, new_value(name, old, operand, now))


def new_value(name: str, old: Any, operand: Any, now: datetime) -> Any:
    if name in {"$set", "$setOnInsert"}:
        return operand
    if name == "$currentDate":
        return now
    if name in {"$min", "$max"}:
        if old is GONE:
            return operand
        side = compare(operand, old)
        return operand if (side < 0 if name == "$min" else side > 0) else old
    if name in {"$inc", "$mul"}:
        return number(name, old, operand)
    if name == "$bit":
        return bits(0 if old is GONE else old, operand)
    if old is not GONE and not isinstance(old, list):
        raise RefusedError
    return new_array(name, [] if old is GONE else list(old), operand)


def bits(old: Any, operand: dict[str, int]) -> int:
    if type(old) is not int:
        raise RefusedError
    for name, other in operand.items():
        old = old & other if name == "and" else old | other if name == "or" else old ^ other
    return int(old)


def number(name: str, old: Any, operand: Any) -> Any:
    if old is GONE:
        return operand if name == "$inc" else type(operand)(0)
    if type(old) not in {int, float}:
        raise RefusedError
    result = old + operand if name == "$inc" else old * operand
    if isinstance(result, int) and not -INT_LIMIT <= result < INT_LIMIT:
        raise RefusedError
    return result


def new_array(name: str, old: list[Any], operand: Any) -> list[Any]:
    if name == "$pop":
        return old[:-1] if operand == 1 else old[1:]
    if name in {"$pull", "$pullAll"}:
        return left(name, old, operand)
    has_each = isinstance(operand, dict) and "$each" in operand
    new = operand["$each"] if has_each else [operand]
    if name == "$addToSet":
        for item in new:
            if not any(compare(item, other) == 0 for other in old):
                old = [*old, item]
        return old
    if not has_each:
        return [*old, *new]
    at = operand.get("$position", len(old))
    at = min(at, len(old)) if at >= 0 else max(len(old) + at, 0)
    result = [*old[:at], *new, *old[at:]]
    if "$sort" in operand:
        result = sorted(result, key=cmp_to_key(compare))
        if operand["$sort"] == -1:
            result = result[::-1]
    keep = operand.get("$slice", len(result))
    if keep >= 0:
        return result[:keep]
    return result[max(len(result) + keep, 0) :]


def left(name: str, old: list[Any], operand: Any) -> list[Any]:
    if name == "$pullAll":
        return [item for item in old if all(compare(item, gone) != 0 for gone in operand)]
    return [item for item in old if not is_pulled(item, operand)]


def is_pulled(item: Any, operand: Any) -> bool:
    if not isinstance(operand, dict):
        return compare(item, operand) == 0
    if any(name.startswith("$") for name in operand):
        return compile_filter(parse_filter({"item": operand}))({"item": item})
    return isinstance(item, dict) and compile_filter(parse_filter(operand, embedded=True))(item)
