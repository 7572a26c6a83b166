"""Definitions from the values of one object each: what the table of keys alone cannot check."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from wormdb.errors import SchemaError
from wormdb.format.values import MISSING
from wormdb.schema.coerce import coerce
from wormdb.schema.identity import BUILT_IN_TYPES, SAMPLES
from wormdb.schema.keys import ID_STRATEGIES, TABLES
from wormdb.schema.model import (
    Field,
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
    strategy_of,
)
from wormdb.schema.path import PathTemplate, Symbols, parse_template
from wormdb.schema.pattern import compile_pattern, pattern_problem
from wormdb.schema.read import SchemaReader
from wormdb.schema.report import did_you_mean, join_path
from wormdb.settings import INDEX_FIELDS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.schema.report import ProblemReport

__all__ = ["SchemaBuilder"]

_MODEL_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}", re.ASCII)
_KEPT: Final = {key.attribute: key.name for key in TABLES["schema"] if key.shape == "kept"}
_SIMPLE: Final[Mapping[str, Callable[..., Any]]] = {
    "symbols": Symbols,
    "storage": StorageDefinition,
    "ref": RefDefinition,
    "through": ThroughDefinition,
    "snapshots": SnapshotDefinition,
    "manifest": ManifestDefinition,
}


class SchemaBuilder:
    """Builds one schema; everything wrong goes into the report."""

    def __init__(self, report: ProblemReport) -> None:
        """Nothing known yet: default signs, built-in types and strategies only."""
        self._report = report
        self._reader = SchemaReader(report, self._build)
        self._symbols = Symbols()
        self._types: Mapping[str, str] = {}
        self._operators: Mapping[str, str] = {}

    def schema(self, raw: Any) -> Schema | None:
        """The schema of a JSON value; None if it is no object."""
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
                self._report.error(join_path(path, name), f"{name[:60]!r} is no name", "use letters, digits, _ and -")
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
                    f"operators.{name}", f"{strategy[:60]!r} is no id strategy", did_you_mean(strategy, ID_STRATEGIES)
                )
        return operators

    # --- models ---

    def _model(self, name: str, values: dict[str, Any], path: str) -> Model | None:
        if not _MODEL_NAME.fullmatch(name):
            self._report.error(path, f"{name[:60]!r} is no name of a model", "use letters, digits, _, - and .")
        template = self._template(values.get("path"), join_path(path, "path"))
        own = self._checked_types(values.pop("dynamic_types", {}), join_path(path, "dynamicTypes"))
        if template is None:
            return None
        values["path"] = template
        types = {**self._types, **own}
        values["dynamic_types"] = self._used_types(template, types, path)
        values["id"] = self._strategy(template, values.get("id"), types, path)
        values.setdefault("files", template.file is not None)
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
            reason = f"{strategy[:60]!r} is no id strategy"
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
        return IndexDefinition(tuple(names), **self._index_type(values, len(names), path))

    def _index_type(self, values: dict[str, Any], count: int, path: str) -> dict[str, Any]:
        kind = values.pop("type", None)
        if kind == "unique":
            return {**values, "unique": True, "type": "standard" if count == 1 else "compound"}
        if kind is None:
            kind = "standard" if count == 1 else "compound"
        if (kind == "compound") != (count > 1):
            fix = "list two or more fields" if kind == "compound" else "remove type, or index one field"
            self._report.error(join_path(path, "type"), f"{kind} does not go with {count} field(s)", fix)
            kind = "standard" if count == 1 else "compound"
        return {**values, "type": kind}
