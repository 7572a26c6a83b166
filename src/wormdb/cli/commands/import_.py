"""worm import: files into a collection, by one change."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import msgspec

from wormdb.api.database import Database, connect
from wormdb.api.imports.intake import RejectedRecord, Rejection
from wormdb.api.imports.records import CONFLICT_RULES, ImportResult
from wormdb.api.texts import check_encoding
from wormdb.cli.input.document import ACTOR
from wormdb.cli.input.engine import pipeline_at, with_engine
from wormdb.cli.input.place import AS_JSON, NEW_URL, complete_files, complete_models, find_collection
from wormdb.cli.input.schema import folder_of, path_to
from wormdb.cli.input.sources import SEPARATOR, STDIN, is_stream, open_source
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError
from wormdb.jobs.parts import FORMS
from wormdb.schema.load import load_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.jobs.import_ import FileRecords
    from wormdb.jobs.infer import InferredModel
    from wormdb.jobs.pipeline import Pipeline
    from wormdb.jobs.place import Where

__all__ = ["Rejects", "apply_inferred", "command"]

COUNTS = ("inserted", "replaced", "unchanged", "ignored", "rejected")


@click.command(
    "import",
    cls=Verb,
    examples=(
        "worm import customers.csv --model Customer",
        "worm import *.ndjson.gz --model Invoice --on-conflict ignore",
        "worm import exports/ --model Customer --job nightly-2026-02-24",
        "worm import people.csv --model Person --infer --id email",
        "zcat events.gz | worm import - --model Event --format ndjson --max-errors 100",
        "worm import customers.csv.rejects.ndjson --from-rejects --model Customer",
        "worm import s3://lake/events/ --model Event --master spark://head:7077",
        "worm import old-bucket/customers --model Customer --format entities",
        "worm import --table sales.orders --model Order",
    ),
)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_files)
@click.option("--table", metavar="NAME", help="A table of Spark instead of files.")
@click.option("--model", "-m", required=True, shell_complete=complete_models, help="The model, or the folder.")
@click.option("--create", "creates", is_flag=True, help="Make the collection, without a model, if it is not there.")
@click.option("--infer", "infers", is_flag=True, help="Make the model of the records, show it, and apply it first.")
@click.option("--id-field", "--id", metavar="FIELD", help="The field that is the id.  [default: id or _id]")
@click.option(
    "--on-conflict",
    type=click.Choice(CONFLICT_RULES),
    default="error",
    show_default=True,
    help="Of a record whose id exists, in the collection or before it in the files: reject it, replace, or ignore it.",
)
@click.option("--job", default="", metavar="NAME", help="With the same name again nothing is imported twice.")
@click.option("--strict", "is_strict", is_flag=True, help="Import nothing if any record is rejected.")
@click.option("--rejects", type=click.Path(dir_okay=False, path_type=Path), help="Where rejected records are written.")
@click.option("--from-rejects", is_flag=True, help="The files are such: import what was corrected in them.")
@click.option("--max-errors", type=click.IntRange(min=0), metavar="N", help="Allow N rejected records, stop at more.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMS),
    help="How files are written; entities have one document each.  [default: as they look]",
)
@SEPARATOR
@click.option(
    "--encoding", metavar="NAME", default="utf-8", help="Of text: latin-1, utf-16 and others.  [default: UTF-8]"
)
@click.option("--csv-safe", is_flag=True, help="CSV was exported with --csv-safe: take that back.")
@click.option("--from-line", type=click.IntRange(min=1), metavar="N", help="Begin with the record on line N.")
@click.option(
    "--forward/--no-forward",
    "forwards",
    default=True,
    help="Bring the log forward after a large import, so that the next query is fast.  [forward]",
)
@with_engine
@ACTOR
@NEW_URL
@AS_JSON
def command(files: tuple[str, ...], model: str, url: str, **options: Any) -> int:
    """Read files into a collection by one change: NDJSON, JSON, CSV or Parquet.

    FILE is a file, a folder or a bucket with files, also packed by gzip or zstd; - is standard input; --table reads a
    table of Spark instead. All records go in by one entry of the log, or none; other writers go on meanwhile, and
    memory does not grow with the files. The model decides about types: cells of CSV are text, and become what it
    declares. Ids are given, or made as the model says.

    Records that do not fit, and those whose id or unique value another one has, are written to FILE.rejects.ndjson, of
    folders to MODEL.rejects.ndjson, with file, line and reason, and the others go in; it exits with 1 then, unless
    --max-errors allows it. A broken import imported nothing: run it again, with --job as often as you like. If it is
    not known whether it was done, --on-conflict ignore leaves what is there: ids that are made depend on the file and
    the place in it. Those of standard input, of tables and of the strategy seq do not, so that records without an id
    are refused there.
    """
    _check(files, options)
    options["encoding"] = check_encoding(options["encoding"])
    rejects = Rejects(options["rejects"], files, f"{model.strip('/').replace('/', '-')}.rejects.ndjson")
    rejects.check()
    try:
        result = _imported(files, model, url, options, rejects)
    except InvalidRequestError as error:
        if rejects.written:
            error.fix += f"{'; ' if error.fix else ''}see {rejects.shown}"
        raise
    finally:
        rejects.close()
    _print(files or (options["table"],), model, result, rejects, as_json=options["as_json"])
    return 1 if result.rejected > (options["max_errors"] or 0) or result.is_stopped else 0


def _check(files: tuple[str, ...], options: dict[str, Any]) -> None:
    if bool(files) == (options["table"] is not None):
        raise InvalidRequestError("worm import", reason="it needs records", fix="name files, or --table NAME")
    streams = [name for name in files if is_stream(name)]
    for wrong, reason in (("infers", "it is read twice"), ("spark", "workers cannot read it")):
        if streams and (options["engine"] == wrong or options.get(wrong)):
            fix = "write it to a file first, and import that"
            raise InvalidRequestError(f"{streams[0]} cannot be imported like this", reason=reason, fix=fix)
    for name in files:
        if name not in streams and "://" not in name and not Path(name).exists():
            raise InvalidRequestError(f"{name} cannot be read", reason="there is no such file or folder")


def _imported(files: tuple[str, ...], model: str, url: str, options: dict[str, Any], rejects: Rejects) -> ImportResult:
    from wormdb.jobs.import_ import FileRecords
    from wormdb.jobs.infer import infer_files
    from wormdb.jobs.records import RecordRules
    from wormdb.jobs.sources import size_of

    if options["table"] is not None:
        return _from_table(model, url, options, rejects)
    records = FileRecords(
        tuple(name for name in files if not is_stream(name)),
        **{name: options[name] for name in ("form", "separator", "actor", "forwards", "encoding")},
        **_rules(options),
        reading=RecordRules(options["csv_safe"], options["from_rejects"], options["from_line"] or 0),
        needs_ids=options["on_conflict"] == "ignore" and not options["job"],
    )
    if options["infers"]:
        apply_inferred(url, model, lambda folder: infer_files(records, folder))
    where = _place(url, model, creates=options["creates"])
    with pipeline_at(where, options, size_of(records.sources)) as pipeline:
        return _load(pipeline, records, files, options, rejects)


def _rules(options: dict[str, Any]) -> dict[str, Any]:
    rules = {name: options[name] for name in ("id_field", "on_conflict", "job", "is_strict")}
    return {**rules, "rejects_max": options["max_errors"]}


def _load(
    pipeline: Pipeline, records: FileRecords, files: tuple[str, ...], options: dict[str, Any], rejects: Rejects
) -> ImportResult:
    """Import files, and what can be read only once."""
    from wormdb.api.imports.rows import Replay, RowSpool, pack_record, unpack_record
    from wormdb.jobs.import_ import load_files

    with ExitStack() as stack:
        streams = []
        for name in filter(is_stream, files):
            source = stack.enter_context(
                open_source(name, _text_form(options["form"]), options["separator"], records.encoding)
            )
            kept = Replay(source.records(), RowSpool(pack_record, unpack_record))
            stack.callback(kept.close)
            streams.append((name, kept))
        return load_files(pipeline.where, records, pipeline.import_runner, pipeline.told, rejects.add, streams)


def _text_form(form: str | None) -> Any:
    if form in ("parquet", "entities"):
        raise InvalidRequestError(f"--format {form}", reason="standard input is text", fix="write it to a file first")
    return form


def _from_table(model: str, url: str, options: dict[str, Any], rejects: Rejects) -> ImportResult:
    from wormdb.api.imports.records import ImportResult
    from wormdb.jobs.import_ import ImportRules
    from wormdb.spark.jobs import import_table, infer_table, spark_at

    rules = ImportRules(**_rules(options), actor=options["actor"], forwards=options["forwards"])
    with spark_at(options["master"] or "local[*]"):
        if options["infers"]:
            apply_inferred(url, model, lambda folder: infer_table(options["table"], folder, rules.id_field))
        where = _place(url, model, creates=options["creates"])
        with pipeline_at(where, {**options, "engine": "spark"}, 0) as pipeline:
            done = import_table(pipeline.where, options["table"], rules)
    for each in done.rejected:
        rejects.add(each.rejected())
    left = {"ignored" if rules.on_conflict == "ignore" else "unchanged": done.unchanged}
    return ImportResult(
        read=done.read,
        inserted=done.inserted,
        replaced=done.replaced,
        rejected=len(done.rejected),
        job=done.job,
        number=done.number,
        is_repeated=done.is_repeated,
        is_stopped=done.is_stopped,
        **left,
    )


def _place(url: str, name: str, *, creates: bool) -> Where:
    """The collection of a model, or at a folder, and then of the model whose path leads there."""
    from wormdb.jobs.place import Where

    with connect(url) as database:
        for model in {} if database.schema is None else database.schema.models.values():
            outer = model.path.parse_folder(name.strip("/") + "/")
            if outer:
                return Where.named(url, model.name, outer=outer)
        found = _folder(database, name, creates=creates)
        is_model = database.schema is not None and found in database.schema.models
        return Where.named(url, found if is_model else None, None if is_model else found)


def _folder(database: Database, name: str, *, creates: bool) -> str:
    """The name of a model, or the folder of a collection."""
    try:
        return find_collection(database, name).name
    except InvalidRequestError as error:
        if creates:
            return name.rstrip("/")
        error.fix = f"{error.fix}; --create makes a collection without a model"
        raise


def _print(names: tuple[str, ...], model: str, result: ImportResult, rejects: Rejects, *, as_json: bool) -> None:
    if as_json:
        told = {name: {"rejected": count, "rejects": str(path)} for name, count, path in rejects.counts}
        files = dict.fromkeys((*names, *told))
        found = [{"file": name, **told.get(name, {"rejected": 0, "rejects": None})} for name in files]
        print_json({"model": model, **result.to_dict(), "files": found})
    elif result.is_repeated:
        click.echo(f"job {result.job} was done before, by entry {result.number}: nothing was imported")
    else:
        what = names[0] if len(names) == 1 else f"{len(names):,} sources"
        counts = [f"{getattr(result, count):,} {count}" for count in COUNTS if getattr(result, count)]
        line = f"{what}: {', '.join([counted(result.read, 'record', 'records'), *counts])}"
        click.echo(line + (f", see {rejects.shown}" if rejects.written else ""))
    if result.is_stopped:
        click.echo("stopped: too many records were rejected; nothing was imported", err=True)


def apply_inferred(url: str, name: str, infer: Callable[[str], InferredModel]) -> None:
    """Make a model by `infer`, which is told its path; show it on standard error, and add it to the schema.

    Costs as that, and as `Database.apply_schema`. Raises InvalidRequestError if there is such a model.
    """
    with connect(url) as database:
        published = None if database.schema is None else database.schema.to_json()
    models = {} if published is None else published["models"]
    if name in models or "/" in name:
        reason = "there is such a model already" if name in models else "that is no name of a model"
        raise InvalidRequestError(f"--infer for {name}", reason=reason, fix="leave --infer out, or name a new model")
    found = infer(path_to(folder_of(name)) or f"@{folder_of(name)}")
    whole = published or {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {}}
    schema = load_schema({**whole, "models": {**models, name: found.model}}, name="the schema of this data")
    shown = msgspec.json.format(msgspec.json.encode(schema.to_json()["models"][name]), indent=2)
    looked = "" if found.is_whole else " of them; no field is required, as others may not have it"
    click.echo(f"model {name}, made of {counted(found.seen, 'record', 'records')}{looked}:\n{shown.decode()}", err=True)
    with connect(url, schema=schema.to_json(), apply=True):
        pass


class Rejects:
    """Where rejected records go: beside their file, or all to one. A file is made when the first one comes."""

    def __init__(self, path: Path | None, names: Sequence[str], other: str) -> None:
        """Without a path each file that is named has its own, `<file>.rejects.ndjson`; those of folders go to another.

        No file is made yet.
        """
        self._given = path
        self._names = frozenset(name for name in names if "://" not in name and not Path(name).is_dir())
        self._other = Path(other)
        self._open: dict[Path, BinaryIO] = {}
        self._counts: dict[str, int] = {}

    @property
    def written(self) -> list[Path]:
        """The files that were written, in order."""
        return list(self._open)

    @property
    def shown(self) -> str:
        """The files that were written, for people."""
        paths = list(map(str, self._open))
        return ", ".join(paths[:3]) + (f" and {len(paths) - 3:,} more" if len(paths) > 3 else "")

    @property
    def counts(self) -> list[tuple[str, int, Path]]:
        """How many records of each file were rejected, and where they are."""
        return [(name, count, self._path_of(name)) for name, count in self._counts.items()]

    def check(self) -> None:
        """Raise InvalidRequestError for a place where no file can be, or that is one of the files to read."""
        for path in {self._path_of(name) for name in self._names} | {self._given or self._other}:
            if not path.parent.is_dir() or path.is_dir():
                raise InvalidRequestError(f"{path} cannot be written", fix="name another file: --rejects FILE")
            if any(other != STDIN and path.resolve() == Path(other).resolve() for other in self._names):
                raise InvalidRequestError(f"{path} is read and written", fix="name another file: --rejects FILE")

    def add(self, rejected: Rejection) -> None:
        """Write one; the first of a file replaces what was there."""
        path = self._path_of(rejected.file)
        try:
            if path not in self._open:
                self._open[path] = path.open("wb")
            self._open[path].write(RejectedRecord.of(rejected).to_line())
        except OSError as error:
            reason = error.strerror or str(error)
            fix = "name another file: --rejects FILE"
            raise InvalidRequestError(f"{path} cannot be written", reason=reason, fix=fix) from error
        self._counts[rejected.file] = self._counts.get(rejected.file, 0) + 1

    def close(self) -> None:
        """Close the files."""
        for file in self._open.values():
            file.close()

    def _path_of(self, name: str) -> Path:
        if self._given is not None or name not in self._names:
            return self._given or self._other
        return Path(f"{'stdin' if name == STDIN else name}.rejects.ndjson")
