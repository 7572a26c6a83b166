"""A model that requires more than documents have is refused, wherever they lie, unless something brings it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.jobs.rig import empty_place
from wormdb.errors import InvalidRequestError, ValidationError
from wormdb.settings import Settings
from wormdb.storage.memory import drop_memory

MANUAL = Settings(forward="manual", forward_interval_ms=0, block_bytes=2_000)
LOOSE: dict[str, Any] = {
    "a": {"type": "string"},
    "n": {"type": "object", "properties": {"x": {"type": "integer"}}},
    "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
}


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    models = {"Thing": {"path": "#shop/@things/(id:string)", "fields": fields}}
    return {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": models}


def stricter(path: str, **more: Any) -> dict[str, Any]:
    """`LOOSE` with one field required."""
    inner = {"type": "integer", "required": True, **more}
    if path == "a":
        return {**LOOSE, "a": {"type": "string", "required": True, **more}}
    if path == "b":
        return {**LOOSE, "b": {"type": "string", "required": True, **more}}
    if path == "n.x":
        return {**LOOSE, "n": {"type": "object", "properties": {"x": inner}}}
    return {**LOOSE, "l": {"type": "array", "items": {"type": "object", "properties": {"x": inner}}}}


def lacks(document: dict[str, Any], path: str, *, has_default: bool) -> bool:
    """The same, said of one document in the simplest way."""
    name, _, below = path.partition(".")
    if name not in document:
        return not below and not has_default
    value = document[name]
    if not below:
        return value is None
    inside = value if isinstance(value, list) else [value]
    return any(isinstance(one, dict) and lacks(one, below, has_default=has_default) for one in inside)


inner = st.fixed_dictionaries({}, optional={"x": st.sampled_from([1, None])})
values = st.fixed_dictionaries(
    {},
    optional={
        "a": st.sampled_from(["x", None]),
        "b": st.sampled_from(["x", "y", None]),
        "n": inner | st.none(),
        "l": st.lists(inner, max_size=2),
    },
)
steps = st.lists(st.tuples(st.sampled_from("abcdef"), values | st.sampled_from(["delete", "forward"])), max_size=8)


@settings(max_examples=settings().max_examples // 2)
@given(steps=steps, path=st.sampled_from(["a", "b", "n.x", "l.x"]), has_default=st.booleans())
def test_what_documents_lack_is_refused(steps: list[tuple[str, Any]], path: str, has_default: bool) -> None:
    url, state = empty_place(), dict[str, dict[str, Any]]()
    with wormdb.connect(url, schema=schema_of(LOOSE), apply=True, settings=MANUAL) as database:
        things = database.model("Thing")
        for name, what in steps:
            if what == "forward":
                things.forward()
            elif what == "delete":
                things.delete_many({"id": name})
                state.pop(name, None)
            else:
                things.save({"id": name, **what})
                state[name] = what
    fill = {} if not has_default else {"default": "d" if path in "ab" else 0}
    wrong = sorted(name for name, document in state.items() if lacks(document, path, has_default=has_default))
    with wormdb.connect(url, settings=MANUAL) as database:
        if not wrong:
            with wormdb.connect(url, schema=schema_of(stricter(path, **fill)), apply=True, settings=MANUAL) as strict:
                for document in strict.model("Thing").find_all():
                    strict.model("Thing").save(document | {"c": 1})  # a default brings what is missing
        else:
            with pytest.raises(InvalidRequestError) as caught:
                wormdb.connect(url, schema=schema_of(stricter(path, **fill)), apply=True, settings=MANUAL)
            (problem,) = caught.value.problems
            assert problem.path == f"fields.{path}"
            count = f"{len(wrong)} documents lack" if len(wrong) > 1 else "1 document lacks"
            assert problem.reason.startswith(f"is required, and {count} it, such as ")
            assert any(problem.reason.endswith(f'"{name}"') for name in wrong)
            assert database.model("Thing").count() == len(state)
            database.model("Thing").save({"id": "later"})  # the model in force is still the loose one
    drop_memory(url.removeprefix("memory://"))


def test_statistics_of_columns_save_the_scan() -> None:
    url = empty_place()
    with wormdb.connect(url, schema=schema_of(LOOSE), apply=True, settings=MANUAL) as database:
        things = database.model("Thing")
        things.insert_many([{"id": f"{number:04}", "a": "x" * 50} for number in range(500)])
        things.forward()
        assert len(things.parquet_files().files) > 5
    with wormdb.connect(url, schema=schema_of(stricter("a")), settings=MANUAL) as database:
        before = database._metered.mark()
        database.apply_schema()
        assert database._metered.since(before).gets < 8
    drop_memory(url.removeprefix("memory://"))


def test_a_mapping_brings_it() -> None:
    url = empty_place()
    with wormdb.connect(url, schema=schema_of(LOOSE), apply=True, settings=MANUAL) as database:
        database.model("Thing").insert({"id": "x"})
    with wormdb.connect(url, schema=schema_of(stricter("b")), settings=MANUAL) as database:
        with pytest.raises(InvalidRequestError, match=r"fields\.b"):
            database.apply_schema()
        database.apply_schema(mappings={"Thing": {"$set": {"b": "given"}}})
        assert [each["b"] for each in database.model("Thing").find_all()] == ["given"]
        with pytest.raises(ValidationError):
            database.model("Thing").insert({"id": "y"})
    drop_memory(url.removeprefix("memory://"))


def test_a_document_that_comes_between_is_seen() -> None:
    """What an older program writes after the look is found by the commit, which looks again."""
    url = empty_place()
    with (
        wormdb.connect(url, schema=schema_of(LOOSE), apply=True, settings=MANUAL) as old,
        wormdb.connect(url, schema=schema_of(stricter("b")), settings=MANUAL) as new,
    ):
        old.model("Thing").insert({"id": "x", "b": "1"})
        ledger = new._ledger("shop/things/")
        real, rivals = ledger.commit, [1]

        def late(*given: Any, **more: Any) -> Any:
            while rivals:
                rivals.pop()
                old.model("Thing").insert({"id": "late"})
                old.model("Thing").forward()
            return real(*given, **more)

        ledger.commit = late  # type: ignore[method-assign] # a rival at the worst moment
        with pytest.raises(InvalidRequestError, match='1 document lacks it, such as "late"'):
            new.apply_schema()
    drop_memory(url.removeprefix("memory://"))
