"""From schema.json to a Schema, with every mistake reported at once.

Reading happens in two steps: this module checks each key against the table of
`wormdb.schema.keys` and builds definitions from what is sound; `wormdb.schema.rules` then checks
what depends on several places. A part with a mistake is replaced by its default, so that the
checks after it do not complain about the same thing again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, assert_never, cast

import msgspec

from wormdb.errors import Problem, SchemaError, WormError
from wormdb.format.bson_types import bson_type_of, stored_in_model, unknown_type
from wormdb.format.json import parse
from wormdb.format.values import MISSING
from wormdb.schema.identity import BUILT_IN_TYPES, SAMPLES
from wormdb.schema.keys import ID_STRATEGIES, TABLES, Key
from wormdb.schema.model import (
    Field,
    HistoryDefinition,
    IdStrategy,
    IndexDefinition,
    ManifestDefinition,
    Model,
    RefDefinition,
    Schema,
    SnapshotDefinition,
    SoftDelete,
    StorageDefinition,
    ThroughDefinition,
    duration_seconds,
    strategy_of,
)
from wormdb.schema.path import PathTemplate, Symbols, parse_template
from wormdb.schema.pattern import compile_pattern, pattern_problem
from wormdb.schema.problems import ProblemReport, did_you_mean, find_nearest, join_path
from wormdb.schema.rules import check_rules
from wormdb.schema.text import UNREADABLE, read_source
from wormdb.schema.validate import coerce
from wormdb.schema.words import STOPPED_LANGUAGES, WEIGHT_MAX, read_weight
from wormdb.settings import (
    DOCUMENT_DEPTH_MAX,
    INDEX_FIELDS_MAX,
    STOP_WORDS_MAX,
    TEXT_FIELDS_MAX,
    VECTOR_DIMENSIONS_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


__all__ = ["SchemaCheck", "check_schema", "load_model", "load_schema"]


# --- One object of schema.json against its table: shapes of values, unknown keys, missing keys.

_CLOSED: Final = frozenset(
    {"symbols", "storage", "ref", "through", "softDelete", "snapshots", "history", "manifest", "index"}
)
"""Here a key that is nearly right is an error: a misspelt `unique` would silently allow duplicates."""


class _SchemaReader:
    """Reads objects by table; what is wrong goes into the report and is left out of the answer."""

    def __init__(self, report: ProblemReport, build: Callable[[str, dict[str, Any], str], Any]) -> None:
        """Problems go into `report`; nested objects are made by `build(table, values, path)`."""
        self.report = report
        self._build = build
        self._level = 0

    def object(self, table: str, raw: Any, path: str) -> dict[str, Any] | None:
        """Attribute → value of every sound key of `raw`; None if it is not an object."""
        if not isinstance(raw, dict):
            self.report.error(path, f"expected an object, got {_kind(raw)}", self._object_fix(table, raw))
            return None
        keys = {key.name: key for key in TABLES[table]}
        for name in raw:
            if name not in keys:
                self._unknown(table, name, keys, path)
        for key in keys.values():
            if key.required and key.name not in raw:
                self.report.error(join_path(path, key.name), "is missing", f"add it: {key.text}")
        found = {}
        for name, key in keys.items():
            if name in raw:
                value = self._value(key, raw[name], join_path(path, name))
                if value is not MISSING:
                    found[key.attribute] = value
        return found

    def _object_fix(self, table: str, raw: Any) -> str:
        if table == "field" and isinstance(raw, str):
            return f'write {{"type": "{raw[:40]}"}}'
        return f"write {{…}} with the keys {', '.join(key.name for key in TABLES[table][:6])}"

    def _unknown(self, table: str, name: str, keys: dict[str, Key], path: str) -> None:
        is_typo = table in _CLOSED and find_nearest(name, keys) is not None
        note = self.report.error if is_typo else self.report.warn
        note(join_path(path, name), f"unknown key {name[:60]!r}", did_you_mean(name, keys))

    def _value(self, key: Key, raw: Any, path: str) -> Any:
        match key.shape:
            case "object" | "switch":
                return self._nested(key, raw, path)
            case "map":
                return self._map(key, raw, path)
            case "string" | "choice" | "duration":
                return self._text(key, raw, path)
            case "boolean":
                return raw if isinstance(raw, bool) else self._wrong(path, "true or false", raw)
            case "count":
                return self._count(key, raw, path)
            case "names":
                return self._names(raw, path)
            case "types":
                return self._types(raw, path)
            case "words":
                return raw if isinstance(raw, bool) else self._names(raw, path)
            case "texts" | "values" | "value" | "kept":
                return self._free(key.shape, raw, path)
            case _:
                assert_never(key.shape)

    def _free(self, shape: Literal["texts", "values", "value", "kept"], raw: Any, path: str) -> Any:
        match shape:
            case "texts":
                return self._texts(raw, path)
            case "values":
                return self._values(raw, path)
            case "value":
                return self._extended(raw, path)
            case "kept":
                return raw

    def _wrong(self, path: str, expected: str, raw: Any) -> Any:
        self.report.error(path, f"expected {expected}, got {_kind(raw)} {_short(raw)}", f"write {expected}")
        return MISSING

    def _text(self, key: Key, raw: Any, path: str) -> Any:
        if not isinstance(raw, str):
            example = f"one of {', '.join(key.choices)}" if key.choices else "text"
            return self._wrong(path, example, raw)
        if key.choices and raw not in key.choices:
            self.report.error(path, f"{raw[:60]!r} is not allowed", did_you_mean(raw, key.choices))
            return MISSING
        if key.shape == "duration" and duration_seconds(raw) is None:
            self.report.error(path, f"{raw[:60]!r} is not a duration", "write a number and one of s m h d w: 30d")
            return MISSING
        return raw

    def _count(self, key: Key, raw: Any, path: str) -> Any:
        if isinstance(raw, int) and not isinstance(raw, bool) and raw >= key.minimum:
            return raw
        return self._wrong(path, f"a whole number from {key.minimum}", raw)

    def _names(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, list):
            return self._wrong(path, "a list of names", raw)
        found: list[str] = []
        for position, name in enumerate(raw):
            place = join_path(path, position)
            if not isinstance(name, str):
                self._wrong(place, "a name", name)
            elif name in found:
                self.report.error(place, f"{name[:60]!r} occurs twice", "remove one of them")
            else:
                found.append(name)
        return tuple(found)

    def _types(self, raw: Any, path: str) -> Any:
        """The names as a model stores them."""
        found: list[str] = []
        for position, name in enumerate(raw if isinstance(raw, list) else [raw]):
            alias = bson_type_of(name)
            if alias is None:
                self.report.error(join_path(path, position), *unknown_type(name))
            else:
                found.append(stored_in_model(alias))
        return tuple(found)

    def _texts(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, dict):
            return self._wrong(path, "an object of names and texts", raw)
        for name, text in raw.items():
            if not isinstance(text, str):
                self._wrong(join_path(path, name), "text", text)
        return {name: text for name, text in raw.items() if isinstance(text, str)}

    def _values(self, raw: Any, path: str) -> Any:
        if not isinstance(raw, list) or not raw:
            return self._wrong(path, "a list of at least one value", raw)
        found = (self._extended(item, join_path(path, position)) for position, item in enumerate(raw))
        return tuple(item for item in found if item is not MISSING)

    def _extended(self, raw: Any, path: str) -> Any:
        try:
            return parse(msgspec.json.encode(raw).decode())
        except WormError as error:
            self.report.error(path, f"it must be a value: {error.reason or error.what}", "write a value of JSON")
            return MISSING

    def _nested(self, key: Key, raw: Any, path: str) -> Any:
        if key.shape == "switch" and isinstance(raw, bool):
            return raw
        return self._descend(key.of, raw, path)

    def _map(self, key: Key, raw: Any, path: str) -> Any:
        if not isinstance(raw, dict):
            return self._wrong(path, "an object of names", raw)
        made = {name: self._descend(key.of, item, join_path(path, name)) for name, item in raw.items()}
        return {name: item for name, item in made.items() if item is not MISSING}

    def _descend(self, table: str, raw: Any, path: str) -> Any:
        if self._level >= DOCUMENT_DEPTH_MAX:
            self.report.error(path, f"nested deeper than {DOCUMENT_DEPTH_MAX} levels", "flatten it")
            return MISSING
        self._level += 1
        try:
            values = self.object(table, raw, path)
            if values is None and table != "field":
                return MISSING
            # A declared field stays known, whatever is wrong with its definition.
            return self._build(table, values or {}, path)
        finally:
            self._level -= 1


_KINDS: Final = {str: "text", bool: "boolean", int: "number", float: "number", list: "list", type(None): "null"}


def _kind(raw: Any) -> str:
    return "an object" if isinstance(raw, dict) else _KINDS.get(type(raw), type(raw).__name__)


def _short(raw: Any) -> str:
    text = msgspec.json.encode(raw).decode()
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- Definitions from the values of one object each: what the table of keys alone cannot check.

_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_KEPT: Final = {key.attribute: key.name for key in TABLES["schema"] if key.shape == "kept"}
_SIMPLE: Final[Mapping[str, Callable[..., Any]]] = {
    "symbols": Symbols,
    "storage": StorageDefinition,
    "ref": RefDefinition,
    "through": ThroughDefinition,
    "snapshots": SnapshotDefinition,
    "history": HistoryDefinition,
    "manifest": ManifestDefinition,
}


_OF_LISTS: Final = (
    ("dimensions", "dimensions", "vector"),
    ("distance", "distance", "vector"),
    ("language", "language", "text"),
    ("stop_words", "stopWords", "text"),
)
"""Keys that only one type of index has."""


class _SchemaBuilder:
    """Builds one schema; everything wrong goes into the report."""

    def __init__(self, report: ProblemReport) -> None:
        """Nothing known yet: default signs, built-in types and strategies only."""
        self._report = report
        self._reader = _SchemaReader(report, self._build)
        self._symbols = Symbols()
        self._types: Mapping[str, str] = {}
        self._operators: Mapping[str, str] = {}

    def schema(self, raw: Any) -> Schema | None:
        """The schema of a JSON value; None if it is not an object."""
        values = self._reader.object("schema", raw, "")
        if values is None:
            return None
        self._check_head(values)
        self._symbols = self._checked_symbols(values.pop("symbols", Symbols()))
        self._types = values["dynamic_types"] = self._checked_types(values.get("dynamic_types", {}), "dynamicTypes")
        self._operators = values["operators"] = self._checked_operators(values.get("operators", {}))
        extra = {name: values.pop(attribute) for attribute, name in _KEPT.items() if attribute in values}
        made = {name: self._model(name, *parts) for name, parts in values.pop("models", {}).items()}
        models = {name: model for name, model in made.items() if model is not None}
        return Schema(models=models, extra=extra, **values)

    def model(self, name: str, raw: Any, path: str) -> Model | None:
        """One model of a JSON value; None if it has no usable path."""
        values = self._reader.object("model", raw, path)
        return None if values is None else self._model(name, values, path)

    def _build(self, table: str, values: dict[str, Any], path: str) -> Any:
        match table:
            case "model":
                # Models wait until the signs, types and operators of the schema are known.
                return values, path
            case "field":
                return self._field(values, path)
            case "index":
                return self._index(values, path)
            case "softDelete":
                return SoftDelete(enabled=True, ttl=values.get("ttl"))
            case _:
                required = {"ref": {"model"}, "through": {"model", "foreign_key", "target"}}.get(table, set())
                return _SIMPLE[table](**values) if required <= values.keys() else MISSING

    # --- the head of the schema ---

    def _check_head(self, values: dict[str, Any]) -> None:
        version = values.get("schema_version")
        if version is None:
            self._report.warn("schemaVersion", "is missing", 'add "schemaVersion": "1.0"')
        elif not re.fullmatch(r"1(\.[0-9]+)*", version):
            self._report.error("schemaVersion", f"{version[:60]!r} is not known here", 'write "1.0", or upgrade wormdb')
        if "source_of_truth" not in values:
            self._report.warn("sourceOfTruth", "is missing", 'add "sourceOfTruth": "local"')

    def _checked_symbols(self, symbols: Symbols) -> Symbols:
        single = {"namespace": symbols.namespace, "collection": symbols.collection}
        pairs = {"dynamic": symbols.dynamic, "requiredFile": symbols.required_file}
        problems = len(self._report.errors)
        for name, sign in single.items():
            if len(sign) != 1:
                self._report.error(f"symbols.{name}", f"{sign!r} is not one character", "use a sign such as #")
        for name, pair in pairs.items():
            if len(pair) != 2:
                self._report.error(f"symbols.{name}", f"{pair!r} is not two characters", "use a pair such as ()")
        signs = "".join([*single.values(), *pairs.values()])
        if len(set(signs)) < len(signs) or re.search(r"[A-Za-z0-9_./:\s-]", signs):
            self._report.error(
                "symbols", "the signs are not six different ones, or one may occur in a name", "use #, @, () and []"
            )
        return symbols if len(self._report.errors) == problems else Symbols()

    def _checked_types(self, types: Mapping[str, str], path: str) -> dict[str, str]:
        sound = {}
        for name, pattern in types.items():
            problem = pattern_problem(pattern)
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name):
                self._report.error(
                    join_path(path, name), f"{name[:60]!r} is not a name", "use letters, digits, _ and -"
                )
            elif problem is not None:
                self._report.error(join_path(path, name), *problem)
            else:
                sound[name] = pattern
        # A type with a mistake stays known, so that paths that use it are not refused as well.
        return {**dict.fromkeys(types, ""), **sound}

    def _checked_operators(self, operators: Mapping[str, str]) -> Mapping[str, str]:
        for name, strategy in operators.items():
            if strategy not in ID_STRATEGIES:
                self._report.error(
                    f"operators.{name}",
                    f"{strategy[:60]!r} is not an id strategy",
                    did_you_mean(strategy, ID_STRATEGIES),
                )
        return operators

    # --- models ---

    def _model(self, name: str, values: dict[str, Any], path: str) -> Model | None:
        if not _MODEL_NAME.fullmatch(name):
            self._report.error(path, f"{name[:60]!r} cannot be the name of a model", "use letters, digits, _, - and .")
        template = self._template(values.get("path"), join_path(path, "path"))
        own = self._checked_types(values.pop("dynamic_types", {}), join_path(path, "dynamicTypes"))
        if template is None:
            return None
        values["path"] = template
        types = {**self._types, **own}
        values["dynamic_types"] = self._used_types(template, types, path)
        values["id"] = self._strategy(template, values.get("id"), types, path)
        values.setdefault("files", template.file is not None and not template.is_of_others)
        trash = values.get("soft_delete", False)
        values["soft_delete"] = SoftDelete(enabled=trash) if isinstance(trash, bool) else trash
        return Model(name=name, **values)

    def _template(self, text: str | None, path: str) -> PathTemplate | None:
        if text is None:
            return None
        try:
            template = parse_template(text, self._symbols)
        except SchemaError as error:
            for problem in error.problems:
                self._report.error(path, problem.reason, problem.fix)
            return None
        if template.file is None:
            opening, closing = tuple(self._symbols.required_file)
            fix = f"end it with /{opening}data{closing}.json"
            self._report.warn(path, "names no required file: documents are data.json, without readable files", fix)
        return template

    def _used_types(self, template: PathTemplate, types: Mapping[str, str], path: str) -> dict[str, str]:
        used = {}
        for segment in template.segments:
            if segment.kind != "dynamic":
                continue
            if segment.type in types:
                used[segment.type] = types[segment.type]
            elif segment.type not in BUILT_IN_TYPES:
                known = sorted({*types, *BUILT_IN_TYPES})
                fix = f"{did_you_mean(segment.type, known)} or declare it in dynamicTypes"
                self._report.error(join_path(path, "path"), f"unknown type {segment.type!r} of {segment.name!r}", fix)
        return used

    def _strategy(self, template: PathTemplate, given: str | None, types: Mapping[str, str], path: str) -> IdStrategy:
        implied = strategy_of(template)
        strategy = implied if given is None else self._operators.get(given, given)
        if strategy not in ID_STRATEGIES:
            known = [*ID_STRATEGIES, *self._operators]
            reason = f"{strategy[:60]!r} is not an id strategy"
            self._report.error(join_path(path, "id"), reason, did_you_mean(strategy, known))
            return implied
        found = cast("IdStrategy", strategy)
        pattern = "" if template.id is None else types.get(template.id.type, BUILT_IN_TYPES.get(template.id.type, ""))
        if found in SAMPLES and pattern and not pattern_problem(pattern):
            sample = SAMPLES[found]
            if compile_pattern(pattern).fullmatch(sample) is None:
                place = join_path(path, "path" if given is None else "id")
                reason = f"ids made by {found}, such as {sample}, do not match the path's type"
                self._report.error(place, reason, 'correct the pattern, or set "id": "given"')
        return found

    # --- parts of models ---

    def _field(self, values: dict[str, Any], path: str) -> Field:
        default, choices = values.pop("default", MISSING), values.pop("enum", None)
        if "ref" in values:
            values.setdefault("type", "string")
        kind = values.get("type", "any")
        for key, needed in (("items", "array"), ("properties", "object")):
            if key in values and kind != needed:
                self._report.error(join_path(path, key), f"only an {needed} has {key}", f'write "type": "{needed}"')
                del values[key]
        field = Field(**values)
        if choices is not None:
            place = join_path(path, "enum")
            made = [coerce(field, item, join_path(place, number), self._report) for number, item in enumerate(choices)]
            field = replace(field, enum=tuple(made))
        if default is not MISSING:
            field = replace(field, default=coerce(field, default, join_path(path, "default"), self._report))
        return field

    def _index(self, values: dict[str, Any], path: str) -> Any:
        single, several = values.pop("field", None), values.pop("fields", None)
        if single is not None and several is not None:
            self._report.error(join_path(path, "fields"), "field and fields are both given", "keep one of them")
        names = (single,) if single is not None else several
        if not names:
            if not self._report.has_errors_below(path):
                self._report.error(join_path(path, "field"), "is missing", "name the indexed field")
            return MISSING
        if len(names) > INDEX_FIELDS_MAX:
            self._report.error(join_path(path, "fields"), f"more than {INDEX_FIELDS_MAX} fields", "index fewer")
        types = values.get("bson_type", ())
        if types and len(types) != len(names):
            self._report.error(
                join_path(path, "bsonType"), f"{len(types)} types for {len(names)} fields", "give one each"
            )
            del values["bson_type"]
        if values.get("type") == "text":
            names, values["weights"] = self._weighted(names, join_path(path, "field" if several is None else "fields"))
        return IndexDefinition(tuple(names), **self._index_type(values, len(names), path))

    def _weighted(self, written: Sequence[str], path: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
        """The fields of a text index and their weights; none if all are 1."""
        found: dict[str, float] = {}
        for position, text in enumerate(written):
            name, weight = read_weight(text)
            place = path if len(written) == 1 else join_path(path, position)
            if weight is None:
                reason = f"a weight must be a number above 0 and at most {WEIGHT_MAX:,.0f}"
                self._report.error(place, reason, "write such as title^3")
            elif name in found:
                self._report.error(place, f"{name[:60]!r} occurs twice", "name it once, with one weight")
            found.setdefault(name, weight or 1.0)
        weights = tuple(found.values())
        return tuple(found), weights if any(weight != 1.0 for weight in weights) else ()

    def _check_lists(self, values: dict[str, Any], count: int, path: str) -> None:
        """Say what is missing of an index of vectors or of words, or is only for one."""
        kind = values.get("type")
        for name, key, owner in _OF_LISTS:
            if name in values and kind != owner:
                self._report.error(join_path(path, key), f"only an index of type {owner} has it", "remove it")
        if kind not in {"vector", "text"}:
            return
        for name, key in (("unique", "unique"), ("bson_type", "bsonType")):
            if values.get(name):
                self._report.error(join_path(path, key), f"an index of type {kind} cannot have it", "remove it")
        if kind == "text":
            if count > TEXT_FIELDS_MAX:
                self._report.error(join_path(path, "fields"), f"more than {TEXT_FIELDS_MAX} fields", "index fewer")
            self._check_stop_words(values, path)
            return
        if count != 1:
            self._report.error(join_path(path, "fields"), "an index of vectors has one field", "name one field")
        dimensions = values.get("dimensions")
        if dimensions is None or dimensions > VECTOR_DIMENSIONS_MAX:
            reason = "is missing" if dimensions is None else f"more than {VECTOR_DIMENSIONS_MAX:,}"
            self._report.error(join_path(path, "dimensions"), reason, "write how many numbers a vector has")

    def _check_stop_words(self, values: dict[str, Any], path: str) -> None:
        """Say what is wrong with them; a list is kept in the order of its letters."""
        words, place = values.get("stop_words"), join_path(path, "stopWords")
        if words is True and values.get("language") not in STOPPED_LANGUAGES:
            known = ", ".join(STOPPED_LANGUAGES)
            self._report.error(place, f"there are none of this language, only of {known}", "give a list")
        if isinstance(words, tuple):
            if len(words) > STOP_WORDS_MAX or not all(words):
                reason = f"it must be a list of at most {STOP_WORDS_MAX:,} words, none of them empty"
                self._report.error(place, reason, 'write ["the", "of"]')
            values["stop_words"] = tuple(sorted(words)) or None

    def _index_type(self, values: dict[str, Any], count: int, path: str) -> dict[str, Any]:
        self._check_lists(values, count, path)
        kind = values.pop("type", None)
        if kind in {"vector", "text"}:
            return {**values, "type": kind}
        if kind == "unique":
            return {**values, "unique": True, "type": "standard" if count == 1 else "compound"}
        if kind is None:
            kind = "standard" if count == 1 else "compound"
        if (kind == "compound") != (count > 1):
            fix = "list two or more fields" if kind == "compound" else "remove type, or index one field"
            self._report.error(join_path(path, "type"), f"{kind} does not go with {count} field(s)", fix)
            kind = "standard" if count == 1 else "compound"
        return {**values, "type": kind}


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """What `check_schema` found; `schema` is None if there is an error among the problems."""

    schema: Schema | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that make the schema unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def check_schema(source: str | bytes | Mapping[str, Any]) -> SchemaCheck:
    """Read a schema and report everything about it, errors first; raises nothing. No requests."""
    report = ProblemReport()
    raw = read_source(source, report)
    if raw is UNREADABLE:
        return SchemaCheck(None, report.problems)
    schema = _SchemaBuilder(report).schema(raw)
    if schema is not None:
        models = raw.get("models")
        check_rules(schema, report, declared=models if isinstance(models, dict) else ())
    return SchemaCheck(None if report.errors else schema, report.problems)


def load_schema(source: str | bytes | Mapping[str, Any], *, name: str = "schema") -> Schema:
    """Read a schema; raises SchemaError listing every error. Warnings are for `worm lint`. No requests."""
    checked = check_schema(source)
    if checked.schema is None:
        raise SchemaError(name, problems=checked.errors)
    return checked.schema


def load_model(name: str, source: str | bytes | Mapping[str, Any]) -> Model:
    """Read one model by itself, as `Model.to_json` wrote it; references to other models are not followed.

    Raises SchemaError listing every error. No requests.
    """
    report = ProblemReport()
    raw = read_source(source, report)
    if raw is not UNREADABLE:
        model = _SchemaBuilder(report).model(name, raw, f"models.{name}")
        if model is not None:
            check_rules(model, report)
            if not report.errors:
                return model
    raise SchemaError(f"model {name}", problems=report.errors)
