"""How a query would be answered, in Kronotop's names of nodes, with the costs that the planner expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.server.bucket_commands import ask, check_filter
from wormdb.server.commands import Command
from wormdb.server.index_names import PRIMARY_INDEX, shown_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.query.execute.explain import Explanation, PlanStep
    from wormdb.server.session import ClientSession

__all__ = ["EXPLAIN_COMMANDS"]

_PLANNER_VERSION: Final = 1
_OPERATORS: Final = {
    "$eq": "EQ",
    "$ne": "NE",
    "$gt": "GT",
    "$gte": "GTE",
    "$lt": "LT",
    "$lte": "LTE",
    "$in": "IN",
    "$nin": "NIN",
    "$all": "ALL",
    "$size": "SIZE",
    "$exists": "EXISTS",
    "$regex": "REGEX",
}
_RANGES: Final = frozenset({"GT", "GTE", "LT", "LTE"})


def explain(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.EXPLAIN bucket filter …."""
    bucket, tree, options = ask(session, words)
    check_filter(tree)
    session.fresh_number(bucket)
    collection = bucket.collection
    # A query asks for a batch more than it shows at the most, so the plan is that of its limit.
    found: Explanation = collection.explain(tree, sort=options.sort, select=options.projection, limit=options.limit)
    indexes = {each.name: each.fields for each in collection.indexes()}
    plan = {"planner_version": _PLANNER_VERSION, **_chain(found.plan, tree, indexes)}
    cost = found.plan.cost
    return {
        "is_cached": found.cached,
        "plan": plan,
        "strategy": found.strategy,
        "reason": found.reason,
        "cost": {
            "requests": cost.requests,
            "bytes": cost.bytes,
            "rows": cost.rows,
            "round_trips": cost.rounds,
            "processor_ms": cost.processor_ms,
        },
    }


def _chain(root: PlanStep, tree: Mapping[str, Any], indexes: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """A plan as a pipeline: the leaf first, and what is done with its rows as `next`."""
    path: list[PlanStep] = [root]
    while path[-1].name in ("Fetch", "Residual", "Order", "Part") and path[-1].children:
        path.append(path[-1].children[0])
    leaf, *above = reversed(path)
    nodes = [_leaf(leaf, tree, indexes, is_filtered=any(step.name == "Residual" for step in above))]
    nodes += [_above(step, tree) for step in above if step.name not in ("Fetch", "Residual") or leaf.name != "Scan"]
    nodes = [node for node in nodes if node]
    for number, (node, following) in enumerate(zip(nodes, [*nodes[1:], None], strict=True), 1):
        node["id"] = number
        if following is not None:
            node["next"] = following
    return nodes[0] if nodes else {}


def _leaf(
    step: PlanStep, tree: Mapping[str, Any], indexes: Mapping[str, tuple[str, ...]], *, is_filtered: bool
) -> dict[str, Any]:
    match step.name:
        case "Scan":
            predicate = _predicate(tree) if is_filtered else {"type": "ALWAYS_TRUE"}
            return _node("FullScan", scanType="FULL_SCAN", index=PRIMARY_INDEX, predicate=predicate)
        case "IdLookup":
            return _scan(PRIMARY_INDEX, ("_id",), tree)
        case "IndexScan":
            name = step.detail.rpartition(",")[0].partition(",")[0] or step.detail
            return _scan(shown_name(name), indexes.get(name, ()), tree)
        case "Union" | "Intersection":
            children = [_leaf(child, tree, indexes, is_filtered=False) for child in step.children]
            return _node(step.name, operation=step.name.upper(), children=children)
        case _:
            return {}


def _scan(name: str, fields: tuple[str, ...], tree: Mapping[str, Any]) -> dict[str, Any]:
    found = [each for path in fields for each in _conditions(tree) if each["selector"] == path]
    if len(fields) > 1:
        filters = [dict(each) for each in found]
        return _node("CompoundIndexScan", scanType="COMPOUND_INDEX_SCAN", index=name, filters=filters)
    selector = fields[0] if fields else ""
    ranges = {each["operator"]: each["operand"] for each in found if each["operator"] in _RANGES}
    if len(ranges) > 1:
        return _node(
            "RangeScan",
            scanType="RANGE_SCAN",
            index=name,
            selector=selector,
            lowerBound=ranges.get("GTE", ranges.get("GT")),
            upperBound=ranges.get("LTE", ranges.get("LT")),
            includeLower="GTE" in ranges,
            includeUpper="LTE" in ranges,
        )
    about = found[0] if found else {"selector": selector, "operator": "EXISTS", "operand": "?"}
    return _node("IndexScan", scanType="INDEX_SCAN", index=name, **about)


def _above(step: PlanStep, tree: Mapping[str, Any]) -> dict[str, Any]:
    match step.name:
        case "Residual":
            return _node("TransformWithResidualPredicate", operation="FILTER", predicate=_predicate(tree))
        case "Order":
            return _node("Sort", operation="SORT", order=step.detail)
        case "Part":
            return _node("Limit", operation="LIMIT", part=step.detail)
        case _:
            return {}


def _node(kind: str, **fields: Any) -> dict[str, Any]:
    return {"nodeType": kind, "id": 0, **fields}


# --- predicates: values are not shown, because a plan is of a shape ---


def _conditions(tree: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name, value in tree.items():
        if name == "$and" and isinstance(value, list):
            found += [each for child in value if isinstance(child, dict) for each in _conditions(child)]
        elif not name.startswith("$"):
            found += _of_field(name, value)
    return found


def _of_field(name: str, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict) and value and all(key in _OPERATORS for key in value):
        return [{"selector": name, "operator": _OPERATORS[key], "operand": "?"} for key in value]
    return [{"selector": name, "operator": "EQ", "operand": "?"}]


def _predicate(tree: Mapping[str, Any]) -> dict[str, Any]:
    if not tree:
        return {"type": "ALWAYS_TRUE"}
    children = [_one(name, value) for name, value in tree.items()]
    return children[0] if len(children) == 1 else {"type": "AND", "children": children}


def _one(name: str, value: Any) -> dict[str, Any]:
    if name in ("$and", "$or") and isinstance(value, list):
        return {"type": name[1:].upper(), "children": [_predicate(each) for each in value if isinstance(each, dict)]}
    if name.startswith("$") or (isinstance(value, dict) and ("$not" in value or "$elemMatch" in value)):
        return {"type": "UNKNOWN"}
    found = [{"type": "PREDICATE", **each} for each in _of_field(name, value)]
    return found[0] if len(found) == 1 else {"type": "AND", "children": found}


EXPLAIN_COMMANDS: Final = (
    Command(
        "BUCKET.EXPLAIN",
        "bucket filter [SORTBY field ASC|DESC] [RESULTSORT field ASC|DESC] [PROJECTION spec] [LIMIT n]",
        "How a query would be answered, and what that would cost.",
        explain,
        least=2,
        place="thread",
        bucket_at=1,
        group="bucket",
    ),
)
