"""Fields that are put into documents at dotted paths, by MongoDB's rules: scores, and what expressions give.

A path goes through documents, and into each document of an array; what else is on the way gives way. Two fields of
which one is the other, or lies within it, are a mistake.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from wormdb.bql.projection import Branch, Projection
from wormdb.format.kinds import MISSING
from wormdb.settings import DOCUMENT_DEPTH_MAX

if TYPE_CHECKING:
    from wormdb.bql.mistakes import Mistakes
    from wormdb.format.path import Path

__all__ = ["check_overlaps", "fields_of", "is_meta", "placed", "with_ways"]


def is_meta(part: object) -> bool:
    """Whether a field is a score: {"$meta": …}. No requests."""
    return isinstance(part, Mapping) and len(part) == 1 and "$meta" in part


def fields_of(written: Mapping[Any, Any], mistakes: Mistakes, at: str) -> dict[Any, Any]:
    """The fields of a $project or an $addFields by their dotted paths: documents within stand for such. No requests."""
    found: dict[Any, Any] = {}
    waiting = [(name, part, 1) for name, part in reversed([*written.items()])]
    while waiting:
        name, part, depth = waiting.pop()
        is_nested = isinstance(part, Mapping) and part and not any(str(own).startswith("$") for own in part)
        if not is_nested or not isinstance(name, str):
            if name in found:
                mistakes.add(f"{at}.{name}", f"it overlaps with {name}", "name each field once")
            found[name] = part
        elif depth > DOCUMENT_DEPTH_MAX:
            mistakes.add(f"{at}.{name}"[:80], f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels", "flatten it")
        else:
            waiting += [(f"{name}.{own}", inner, depth + 1) for own, inner in reversed([*part.items()])]
    return found


def check_overlaps(names: Iterable[Any], paths: Iterable[Path], mistakes: Mistakes, at: str) -> None:
    """Note paths that are also among `names`, or lead to one of them, or are within one; and among themselves."""
    split = [tuple(name.split(".")) for name in names if isinstance(name, str)]
    ends = {("_id", *path[1:]) if path[0] == "id" else path for path in split}
    taken: dict[Path, Path] = {}  # each path and what leads to it, with the first such path
    for path in ends:
        taken |= {path[:size]: path for size in range(1, len(path) + 1)}
    for path in paths:
        ways = [path[:size] for size in range(1, len(path) + 1)]
        other = taken.get(path) or next((way for way in ways if way in ends), None)
        if other is not None:
            mistakes.add(f"{at}.{'.'.join(path)}", f"it overlaps with {'.'.join(other)}", "name each field once")
        ends.add(path)
        taken |= {way: path for way in ways if way not in taken}


def with_ways(shown: Projection, paths: Iterable[Path]) -> Projection:
    """The same, that shows what leads to some fields: so they are in each document of an array. No requests."""
    parts = shown.parts
    for path in paths:
        parts = _with_way(parts, path[:-1])
    return shown if parts is shown.parts else Projection(shown.mode, parts, shown.arrays)


def _with_way(branch: Branch, path: Path) -> Branch:
    inner = branch.parts.get(path[0], Branch({})) if path else None
    return Branch({**branch.parts, path[0]: _with_way(inner, path[1:])}) if isinstance(inner, Branch) else branch


def placed(value: Any, path: Path, item: Any) -> Any:
    """A copy of `value` with `item` at `path`, in each document of an array on the way. No requests."""
    if not path:
        return item
    if type(value) is list:
        return [placed(element, path, item) for element in value]
    made = dict(value) if type(value) is dict else {}
    inner = placed(made.get(path[0], MISSING), path[1:], item)
    if inner is MISSING:
        made.pop(path[0], None)
    else:
        made[path[0]] = inner
    return made
