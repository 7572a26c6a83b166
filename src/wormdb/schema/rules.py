"""What depends on several places of a schema: names that must exist, settings that must agree."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from wormdb.errors import WormError
from wormdb.format.path import parse_path
from wormdb.format.values import normalize_document
from wormdb.schema.model import SYSTEM_FIELDS, Field, Model, Schema
from wormdb.schema.path import FOLDERS
from wormdb.schema.problems import ProblemReport, did_you_mean, join_path

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


__all__ = ["check_rules"]

_RESERVED: Final = frozenset({"_rev", "_doc"})
_INDEX_NAME_CHARS_MAX: Final = 200
_OWNERS: Final = "_blobs"
_TABLES: Final = (".parquet", ".csv", ".tsv", ".avro", ".orc", ".csv.gz", ".tsv.gz")


def check_rules(definition: Schema | Model, report: ProblemReport, *, declared: Collection[str] = ()) -> None:
    """Report what is wrong between the parts of a schema, or of one model by itself.

    `declared` are names of models that exist, though they have mistakes of their own.
    """
    if isinstance(definition, Model):
        _check_model(definition, f"models.{definition.name}", report)
        return
    for name, model in definition.models.items():
        path = f"models.{name}"
        _check_model(model, path, report)
        _check_references(model, definition.models, path, report)
        for place, target in _targets(model, path):
            if target not in definition.models and target not in declared:
                report.error(place, f"no model {target[:60]!r}", did_you_mean(target, definition.models))
    _check_places(definition, report)


def _check_model(model: Model, path: str, report: ProblemReport) -> None:
    _check_file(model, path, report)
    for name in model.fields:
        _check_field_name(model, name, join_path(path, "fields", name), report)
    _check_indexes(model, join_path(path, "indexes"), report)
    _check_manifest(model, join_path(path, "manifest"), report)
    _check_snapshots(model, join_path(path, "snapshots"), report)
    _check_history(model, join_path(path, "history"), report)
    if model.expire_at is not None:
        _check_expiry(model, model.expire_at, join_path(path, "expireAt"), report)


def _check_file(model: Model, path: str, report: ProblemReport) -> None:
    """What the path says of files must be something that can be read, and written if the mode says so."""
    template, place = model.path, join_path(path, "path")
    for segment in template.segments:
        is_built_in = segment.kind == "dynamic" and segment.type == FOLDERS and FOLDERS not in model.dynamic_types
        if is_built_in and not (segment is template.id and template.is_deep):
            reason = f"{segment.name!r} is a path, which only the id of a file with an extension can be"
            report.error(place, reason, f"write ({segment.name}:{FOLDERS}).json at the end, or another type")
    if template.is_deep and FOLDERS in model.dynamic_types:
        report.error(place, f"{FOLDERS!r} is a type of its own in a path to files", "rename the one in dynamicTypes")
    if template.is_flat and template.extension.endswith(_TABLES):
        reason = f"{template.extension} files are tables, which are not read in place"
        report.error(place, reason, "worm import copies them into a collection; Spark reads them where they are")
    if template.is_of_others and model.files:
        what = "files with many documents each" if template.holds_many else "files packed by gzip"
        report.error(join_path(path, "files"), f"{what} are read, and not written", 'leave out "files"')


def _check_field_name(model: Model, name: str, path: str, report: ProblemReport) -> None:
    try:
        normalize_document({name: None})
    except WormError as error:
        report.error(path, error.reason or error.what, "rename the field")
        return
    if name in _RESERVED:
        report.error(path, f"{name} is the database's own", "rename the field")
    field = model.fields[name]
    if name in {"id", "_id"} and (field.type not in {"string", "any"} or field.enum is not None):
        report.error(path, "ids of models are text, checked by the type in the path", 'write {"type": "string"}')


# --- indexes, manifest, snapshots ---


def _check_indexes(model: Model, path: str, report: ProblemReport) -> None:
    seen: dict[tuple[str, ...], str] = {}
    for name, index in model.indexes.items():
        place = join_path(path, name)
        if (
            not name
            or len(name) > _INDEX_NAME_CHARS_MAX
            or name.startswith(".")
            or not name.isprintable()
            or "/" in name
        ):
            report.error(place, "it cannot be the name of an index", "use a short name such as byEmail")
        if name == _OWNERS:
            report.error(place, "this is the name of the index that is kept for blobs", "choose another name")
        key = "field" if len(index.fields) == 1 else "fields"
        for number, field in enumerate(index.fields):
            _check_field_path(model, field, join_path(place, f"{key}.{number}" if key == "fields" else key), report)
        if index.is_lists:
            continue
        if index.fields in seen:
            report.error(
                join_path(place, key),
                f"{', '.join(index.fields)} has the index {seen[index.fields]!r} already: both would be one file",
                "remove one of them",
            )
        seen.setdefault(index.fields, name)
        declared = model.field_at(index.fields[0])
        if index.type == "multiValue" and declared is not None and declared.type not in {"array", "any"}:
            report.error(
                join_path(place, "type"),
                f"multiValue needs an array, and {index.fields[0]} is {declared.type}",
                "remove type, or declare the field as array",
            )
    if model.is_singleton and model.indexes:
        report.warn(path, "a singleton has one document: indexes have no effect", "remove them")


def _check_manifest(model: Model, path: str, report: ProblemReport) -> None:
    manifest = model.manifest
    for number, name in enumerate(manifest.fields or ()):
        _check_field_path(model, name, join_path(path, "fields", number), report)
    if not manifest.enabled and manifest.to_json():
        report.warn(join_path(path, "enabled"), "the manifest is set up, but not enabled", 'add "enabled": true')
    if model.is_singleton and manifest.enabled:
        report.warn(path, "a singleton has one document: a manifest has no effect", "remove it")


def _check_snapshots(model: Model, path: str, report: ProblemReport) -> None:
    snapshots = model.snapshots
    if not snapshots.enabled and snapshots.to_json():
        report.warn(join_path(path, "enabled"), "snapshots are set up, but not enabled", 'add "enabled": true')


def _check_history(model: Model, path: str, report: ProblemReport) -> None:
    """Readable files of changes and snapshots stay, so history may not lose what they are compared with."""
    if model.history.is_limited and model.files and (model.oplog or model.snapshots.enabled):
        kept = "oplog" if model.oplog else "snapshots"
        report.error(path, f"{kept} keeps readable files of versions that would go", f"remove it, or {kept}")


def _check_expiry(model: Model, dotted: str, path: str, report: ProblemReport) -> None:
    """A document ends by a date: a declared one, or those that the database keeps."""
    if dotted in {"createdAt", "updatedAt"}:
        return
    _check_field_path(model, dotted, path, report)
    field = model.field_at(dotted)
    kinds = [] if field is None else [field.type, "" if field.items is None else field.items.type]
    if field is not None and not {"datetime", "any"} & set(kinds):
        report.error(path, f"{dotted[:60]!r} is a {field.type}, not a date", 'declare it as {"type": "datetime"}')


def _check_field_path(model: Model, dotted: str, path: str, report: ProblemReport) -> None:
    """A dotted name must be well formed and, where the model declares fields, lead to one of them."""
    try:
        parts = parse_path(dotted)
    except WormError as error:
        report.error(path, error.reason or error.what, error.fix or "write a field, or fields joined by single dots")
        return
    known: Mapping[str, Field] = model.fields
    if not known:
        return
    for number, part in enumerate(parts):
        field = known.get(part)
        if field is None:
            if number == 0 and part in {*SYSTEM_FIELDS, "id"}:
                return
            where = f" in {'.'.join(parts[:number])}" if number else ""
            report.error(path, f"no field {part[:60]!r} is declared{where}", did_you_mean(part, known))
            return
        inner = field.items if field.type == "array" and field.items is not None else field
        if inner.type == "any" or not inner.properties:
            if number + 1 < len(parts) and inner.type not in {"any", "object", "array"}:
                report.error(path, f"{'.'.join(parts[: number + 1])} is {inner.type} and has no fields", "shorten it")
            return
        known = inner.properties


# --- between models ---


def _targets(model: Model, path: str) -> Iterator[tuple[str, str]]:
    """Every name of another model, and where it stands."""
    for place, field in _all_fields(model.fields, join_path(path, "fields")):
        if field.ref is not None:
            yield join_path(place, "ref"), field.ref
    for name, ref in model.refs.items():
        yield join_path(path, "refs", name, "model"), ref.model
        if ref.through is not None:
            yield join_path(path, "refs", name, "through.model"), ref.through.model


def _check_references(model: Model, models: Mapping[str, Model], path: str, report: ProblemReport) -> None:
    for name, ref in model.refs.items():
        place = join_path(path, "refs", name)
        if ref.field is not None:
            _check_field_path(model, ref.field, join_path(place, "field"), report)
        if ref.foreign_key is not None and ref.model in models:
            _check_field_path(models[ref.model], ref.foreign_key, join_path(place, "foreignKey"), report)


def _all_fields(fields: Mapping[str, Field], path: str) -> Iterator[tuple[str, Field]]:
    for name, field in fields.items():
        yield from _with_inner(field, join_path(path, name))


def _with_inner(field: Field, path: str) -> Iterator[tuple[str, Field]]:
    yield path, field
    yield from _all_fields(field.properties, join_path(path, "properties"))
    if field.items is not None:
        yield from _with_inner(field.items, join_path(path, "items"))


def _check_places(schema: Schema, report: ProblemReport) -> None:
    """No two models may share a collection; shared last names matter in the root layout only."""
    owners: dict[tuple[str, ...], str] = {}
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for name, model in schema.models.items():
        shape = _folders(model)
        if shape in owners:
            reason = f"{'/'.join(shape)}/ is the collection of {owners[shape]!r} already"
            report.error(f"models.{name}.path", reason, "give each model a folder of its own")
            continue
        _check_meeting(model, [schema.models[owner] for owner in owners.values()], report)
        owners[shape] = name
        by_name[model.path.collection_name].append(name)
    _warn_of_names(by_name, schema, report)


def _shape(model: Model) -> tuple[str, ...]:
    """The folders of a document's file, each by its name; * where it can be any."""
    return tuple("*" if segment.kind == "dynamic" else segment.name for segment in model.path.segments)


def _folders(model: Model) -> tuple[str, ...]:
    """Those of its collection."""
    return _shape(model)[: None if model.is_singleton else -1]


def _check_meeting(model: Model, others: Iterable[Model], report: ProblemReport) -> None:
    """What has the name of another's folder as its id, or as an outer value, would lie in its place."""
    for other in others:
        folder = _meeting(_folders(model), _folders(other))
        file = _meeting(_shape(model), _shape(other)) if model.path.file_name == other.path.file_name else None
        if folder is not None:
            reason, fix = f"{folder}/ can be a collection of {other.name!r} too", "give one of them another folder"
        elif file is not None:
            reason = f"{file}/{model.path.file_name} can be a document of {other.name!r} too"
            fix = "give one of them another folder, or another file name"
        elif (deep := _holder(model, other) or _holder(other, model)) is not None:
            reason = f"files of both can lie in {'/'.join(_folders(deep))}/: those of {deep.name!r} have any depth"
            fix = "give one of them another folder"
        else:
            continue
        report.error(f"models.{model.name}.path", reason, fix)


def _holder(model: Model, other: Model) -> Model | None:
    """The model, if files of the other can lie among its own, in folders of any depth."""
    inside = _folders(other) if other.path.is_flat else _shape(other)
    begin = inside[: len(_folders(model))]
    is_alike = other.path.file_name.endswith(model.path.extension)
    return model if model.path.is_deep and is_alike and _meeting(_folders(model), begin) is not None else None


def _meeting(one: tuple[str, ...], two: tuple[str, ...]) -> str | None:
    """A path that fits two shapes; None if none does."""
    pairs = list(zip(one, two, strict=False))
    if len(one) != len(two) or not all(a == b or "*" in (a, b) for a, b in pairs):
        return None
    return "/".join(b if a == "*" else a for a, b in pairs)


def _warn_of_names(by_name: Mapping[str, list[str]], schema: Schema, report: ProblemReport) -> None:
    layouts = {schema.storage.layout_of(kind) for kind in ("oplog", "snapshots", "trash")}
    for collection, names in by_name.items():
        if len(names) > 1 and "root" in layouts:
            report.warn(
                f"models.{names[1]}.path",
                f"{names[0]!r} has a collection {collection!r} too: in the root layout one of them uses its full path",
                "rename one of them, or leave it",
            )
