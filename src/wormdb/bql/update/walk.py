"""Apply the tree of an update to a value: through documents and arrays to the operators.

Nothing is changed in place. A container is copied only where something in it changes, so old and new share the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, assert_never

from wormdb.bql.update.tree import ConflictingPathsError, Elements, Fields, UpdateLeaf, UpdatePlace, leaves_of, merge
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, is_position
from wormdb.settings import ARRAY_PADDING_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.bql.update.tree import Occasion, UpdateNode

__all__ = ["walk"]

_IN_THE_WAY: Final = "make it a document first, or change the path"


def walk(node: UpdateNode, value: Any, path: Path, occasion: Occasion) -> Any:
    """The new value for `value`, which stands at `path`; MISSING for none, before and after.

    Raises InvalidRequestError or LimitExceededError, naming document and path. No requests.
    """
    match node:
        case UpdateLeaf():
            return node.operator.apply(value, UpdatePlace(node.name, path, occasion))
        case Elements():
            return _each(node, value, path, occasion)
        case Fields():
            return _in_fields(node, value, path, occasion)
        case _:
            assert_never(node)


def _in_fields(node: Fields, value: Any, path: Path, occasion: Occasion) -> Any:
    if type(value) is list:
        return _in_array(_with_match(node, path, occasion), value, path, occasion)
    if node.matched is not None:
        _refuse(node.matched, path, occasion, "`$` stands for an element, and there is no array", "query the array")
    if value is MISSING:
        return _in_document(node, {}, path, occasion) or MISSING  # nothing to put in: no document either
    if type(value) is dict:
        return _in_document(node, value, path, occasion)
    _check_way(node, value, path, occasion)
    return value


def _in_document(node: Fields, document: Document, path: Path, occasion: Occasion) -> Document:
    result = document
    for segment, child in node.children:
        before = result.get(segment, MISSING)
        after = walk(child, before, (*path, segment), occasion)
        if after is before:
            continue
        result = dict(result) if result is document else result
        if after is MISSING:
            del result[segment]
        else:
            result[segment] = after
    return result


def _with_match(node: Fields, path: Path, occasion: Occasion) -> Sequence[tuple[str, UpdateNode]]:
    """The children with the matched element among them: last, or together with the same position."""
    if node.matched is None:
        return node.children
    position = occasion.matched.get(node.array)
    if position is None:
        reason = "the query matched no element of this array, so `$` stands for none"
        _refuse(node.matched, path, occasion, reason, "put a condition on the array into the filter, or use `$[]`")
    segment = str(position)
    children = dict(node.children)
    if segment in children:
        children[segment] = _merged([children[segment], node.matched], path, occasion)
    else:
        children[segment] = node.matched
    return list(children.items())


def _merged(nodes: list[UpdateNode], path: Path, occasion: Occasion) -> UpdateNode:
    try:
        return merge(nodes)
    except ConflictingPathsError as conflict:
        first, second = conflict.first, conflict.second
        reason = f"{'.'.join(first.path)} and {'.'.join(second.path)} are the same element here"
        UpdatePlace(second.name, path, occasion).refuse(reason, "change each value once")


def _in_array(
    children: Sequence[tuple[str, UpdateNode]], array: list[Any], path: Path, occasion: Occasion
) -> list[Any]:
    result = array
    for segment, child in children:
        if not is_position(segment):
            _check_way(child, array, path, occasion)
            continue
        position = int(segment)
        before = result[position] if position < len(result) else MISSING
        after = walk(child, before, (*path, segment), occasion)
        if after is before:
            continue
        result = list(result) if result is array else result
        if position >= len(result):
            if position - len(result) > ARRAY_PADDING_MAX:
                reason = f"ARRAY_PADDING_MAX is {ARRAY_PADDING_MAX}, and the array has {len(result)} elements"
                place = UpdatePlace(next(leaves_of(child)).name, (*path, segment), occasion)
                place.refuse(reason, "use $push, or a document with names", limit=True)
            result.extend([None] * (position - len(result) + 1))
        result[position] = None if after is MISSING else after  # an element that is taken out leaves null
    return result


def _each(node: Elements, value: Any, path: Path, occasion: Occasion) -> list[Any]:
    if type(value) is not list:
        which = "there is no such field" if value is MISSING else "it holds no array"
        _refuse(node, path, occasion, f"{which}, and `$[]` goes through an array", "set the array first")
    result = []
    for position, element in enumerate(value):
        nodes = [child for name, child in node.children if not name or occasion.filters[name]({name: element})]
        if nodes:
            child = nodes[0] if len(nodes) == 1 else _merged(nodes, path, occasion)
            after = walk(child, element, (*path, str(position)), occasion)
            result.append(None if after is MISSING else after)
        else:
            result.append(element)
    return value if all(map(_is, value, result)) else result


def _is(a: object, b: object) -> bool:
    return a is b


def _check_way(node: UpdateNode, value: Any, path: Path, occasion: Occasion) -> None:
    """Raise if an operator below minds that `value` is not a document that it could go into.

    All mind that there is no array where they go through one.
    """
    kind = "an array, whose elements have positions" if type(value) is list else "not a document"
    for leaf in leaves_of(node):
        through_array = any(segment.startswith("$") for segment in leaf.path[len(path) :])
        if through_array or leaf.operator.insists(UpdatePlace(leaf.name, path, occasion)):
            _refuse(leaf, path, occasion, f"it is {kind}, so {'.'.join(leaf.path)} cannot go on there", _IN_THE_WAY)


def _refuse(node: UpdateNode, path: Path, occasion: Occasion, reason: str, fix: str) -> NoReturn:
    UpdatePlace(next(leaves_of(node)).name, path, occasion).refuse(reason, fix)
