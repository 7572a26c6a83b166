"""Random schemas in the form of schema.json, valid by construction."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

NAMES = ["name", "email", "status", "tags", "amount", "when", "address", "größe", "a b"]
TYPES = [
    "string",
    "number",
    "integer",
    "boolean",
    "datetime",
    "array",
    "object",
    "any",
    "decimal",
    "binary",
    "objectid",
]
DISTANCES = ["cosine", "euclidean", "dot_product"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=5),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "boolean": st.booleans(),
    "datetime": st.integers(-(10**9), 10**9).map(
        lambda s: (datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=s)).isoformat()
    ),
    "array": st.lists(st.integers(0, 9) | st.none(), max_size=3),
    "object": st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=2),
    "any": st.none()
    | st.integers(0, 9)
    | st.just({"$date": "2020-01-01T00:00:00Z"})
    | st.just({"$numberDecimal": "1.50"}),
    "decimal": st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6).map(
        str
    ),
    "binary": st.just({"$binary": {"base64": "AQID", "subType": "00"}}),
    "objectid": st.just("65f0a1b2c3d4e5f60718293a"),
}


@st.composite
def fields(draw: st.DrawFn, depth: int = 2) -> dict[str, Any]:
    kind = draw(st.sampled_from(TYPES))
    made: dict[str, Any] = {"type": kind}
    if draw(st.booleans()):
        made["required"] = draw(st.booleans())
    if depth and kind == "array" and draw(st.booleans()):
        made["items"] = draw(fields(depth - 1))
    if depth and kind == "object" and draw(st.booleans()):
        made["properties"] = draw(st.dictionaries(st.sampled_from(NAMES), fields(depth - 1), max_size=2))
    if "items" not in made and "properties" not in made:
        choices = draw(st.none() | st.lists(VALUES[kind], min_size=1, max_size=3))
        if choices is not None:
            made["enum"] = choices
        if draw(st.booleans()):
            made["default"] = draw(st.sampled_from(choices) if choices else VALUES[kind])
    return made


def dotted(declared: dict[str, Any]) -> st.SearchStrategy[str]:
    return st.sampled_from([*declared, "createdAt"]) if declared else st.sampled_from(["x", "y.z", "a.0.b"])


@st.composite
def models(draw: st.DrawFn, number: int = 0) -> dict[str, Any]:
    declared = draw(st.dictionaries(st.sampled_from(NAMES), fields(), max_size=4))
    outer = draw(st.sampled_from(["", "#org/", "#org/(tenant:slug)/", "#a/#b/"]))
    kind = draw(st.sampled_from(["uuid", "ulid", "objectid", "seq", "slug", "string", "any", "evm", "code"]))
    file = draw(st.sampled_from(["", "/[profile].json", "/[a-b].tar.gz", ".json", ".worm.json"]))
    made: dict[str, Any] = {"path": f"{outer}@things{number}/({draw(st.sampled_from(['id', 'key']))}:{kind}){file}"}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "fields": st.just(declared),
        "description": st.text(max_size=5),
        "mode": st.sampled_from(["readonly", "readwrite", "append"]),
        "oplog": st.booleans(),
        "softDelete": st.booleans() | st.fixed_dictionaries({}, optional={"ttl": st.integers(0, 99)}),
        "files": st.booleans(),
        "snapshots": st.fixed_dictionaries(
            {"enabled": st.booleans()},
            optional={
                "every": st.integers(1, 99),
                "maxAge": st.sampled_from(["1s", "30d", "2w"]),
                "maxCount": st.just(5),
            },
        ),
        "manifest": st.fixed_dictionaries(
            {},
            optional={
                "enabled": st.booleans(),
                "autoUpdate": st.booleans(),
                "fields": st.lists(dotted(declared), unique=True, max_size=3),
                "partitionThreshold": st.sampled_from([1, 10_000]),
                "maxPartitions": st.sampled_from([2, 16]),
            },
        ),
    }
    for key, strategy in optional.items():
        if key == "fields" or draw(st.booleans()):
            made[key] = draw(strategy)
    names = draw(st.lists(dotted(declared), unique=True, max_size=3))
    made["indexes"] = {f"by{place}": draw(indexes(name, declared)) for place, name in enumerate(names)}
    return made


@st.composite
def indexes(draw: st.DrawFn, name: str, declared: dict[str, Any]) -> dict[str, Any]:
    kind = draw(st.sampled_from(["tree", "tree", "vector", "text"]))
    weight = draw(st.sampled_from(["", "^3", "^1", "^0.5"])) if kind == "text" else ""
    made: dict[str, Any] = {"field": name + weight} if draw(st.booleans()) else {"fields": [name + weight]}
    if kind == "vector":
        made |= {"type": kind, "dimensions": draw(st.integers(1, 4_096))}
        return made if draw(st.booleans()) else {**made, "distance": draw(st.sampled_from(DISTANCES))}
    if kind == "text":
        language = draw(st.sampled_from([None, "none", "english", "german"]))
        words = draw(st.sampled_from([None, False, ["the", "of"]] + [True] * (language in {"english", "german"})))
        given = {"type": kind, "language": language, "stopWords": words}
        return made | {key: value for key, value in given.items() if value is not None}
    for key in ("unique", "sparse"):
        if draw(st.booleans()):
            made[key] = draw(st.booleans())
    if declared.get(name, {"type": "string"})["type"] in {"array", "any"} and draw(st.booleans()):
        made["type"] = "multiValue"
    if draw(st.booleans()):
        made["bsonType"] = draw(st.sampled_from(["string", "INT32", ["double"], "binData", "number"]))
    return made


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    count = draw(st.integers(0, 3))
    layouts = st.sampled_from(["inline", "collection", "root"])
    made: dict[str, Any] = {
        "schemaVersion": draw(st.sampled_from(["1", "1.0", "1.7"])),
        "sourceOfTruth": draw(st.sampled_from(["local", "remote", "bidirectional"])),
        "dynamicTypes": {"code": "^[A-Z]{3}-[0-9]+$"},
        "storage": draw(
            st.fixed_dictionaries(
                {}, optional={"layout": layouts, "oplog": layouts, "snapshots": layouts, "trash": layouts}
            )
        ),
        "models": {f"Model{number}": draw(models(number)) for number in range(count)},
    }
    if draw(st.booleans()):
        made["operators"] = {"auto": "uuid", "count": "seq"}
        made["views"] = {"open": {"filter": {"status": {"$ne": "done"}}, "limit": 5}}
    return made
