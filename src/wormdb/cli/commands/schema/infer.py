"""worm schema infer: a model from data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from wormdb.api.database import connect
from wormdb.api.records import FORMS
from wormdb.api.texts import check_encoding
from wormdb.cli.input.place import complete_files, find_collection
from wormdb.cli.input.schema import folder_of, model_name, path_to
from wormdb.cli.input.sources import SEPARATOR, STDIN, open_source
from wormdb.cli.show.progress import show_load
from wormdb.cli.show.text import counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError
from wormdb.schema.infer import Inference
from wormdb.schema.load import load_schema
from wormdb.schema.path import parse_template

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wormdb.jobs.infer import InferredLayout

__all__ = ["command"]


@click.command(
    "infer",
    cls=Verb,
    examples=(
        "worm schema infer customers.csv > .worm/schema.json",
        "worm schema infer *.ndjson.gz --model Event --id-field key --enums",
        "worm schema infer --collection org/people --url ./shop",
        "worm schema infer s3://others-bucket/data > .worm/schema.json",
    ),
)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=complete_files)
@click.option("--collection", metavar="NAME", help="Look at the documents of a collection instead.")
@click.option("--model", "name", metavar="NAME", help="The name of the model.  [default: made of the file's name]")
@click.option("--path", metavar="PATH", help="Where its documents lie, without the id.  [default: made of the name]")
@click.option("--id-field", metavar="FIELD", help="The field that is the id.  [default: id or _id]")
@click.option("--enums", is_flag=True, help="Allow only the texts that are there, where these are few.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Look at N documents only.")
@click.option("--format", "form", type=click.Choice(FORMS), help="How files are written.  [default: as they look]")
@SEPARATOR
@click.option(
    "--encoding", metavar="NAME", default="utf-8", help="Of text: latin-1, utf-16 and others.  [default: UTF-8]"
)
@click.option("--url", envvar="WORM_URL", show_envvar=True, help="The database of --collection.")
def command(files: tuple[str, ...], **options: Any) -> None:
    """Print a schema that all the data fits: types, required fields, arrays, nested objects and ids.

    FILE is as for worm import, which takes the same data without rejects then. Of a folder or bucket with files
    of JSON, or of lines of JSON, packed by gzip or not, the models have the paths that fit the files, such as
    @users/(id:string).json for users/ada.json or @events/(id:path).json for events/2024/05/17/abc.json, and are
    readonly: they can be read where they are, and adopted. ISO text is datetime,
    values of several types are any, in CSV text. A field is required if every document has it. Ids that are uuid,
    ulid, objectid or numbered keep their kind, others are given; where they are missing they are made.
    """
    if bool(files) == (options["collection"] is not None):
        raise InvalidRequestError("worm schema infer", reason="it needs data", fix="name files, or --collection NAME")
    if files and any("://" in file or Path(file).is_dir() for file in files):
        _print_models(_models_of(files, options))
        return
    inference = Inference(id_field=options["id_field"], enums=options["enums"])
    if files:
        folder, name = _see_files(inference, files, options)
    else:
        folder, name = _see_collection(inference, options)
    if options["name"]:
        name = options["name"]
        folder = folder if options["collection"] else f"@{folder_of(name)}"
    _print_models({name: inference.model((options["path"] or folder).rstrip("/"))})


def _print_models(models: Mapping[str, Mapping[str, Any]]) -> None:
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": models}
    print_json(load_schema(schema, name="the schema of this data").to_json())


def _models_of(files: Sequence[str], options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The models of folders and buckets: of documents that lie in a file each, else of the records in files."""
    from wormdb.jobs.import_ import FileRecords
    from wormdb.jobs.infer import infer_files, infer_layout

    layouts = [_layout_of(file, options, infer_layout) for file in files]
    found = [each for layout in layouts if layout is not None for each in layout.models]
    for note in (note for layout in layouts if layout is not None for note in layout.notes):
        click.echo(f"worm: {note}", err=True)
    models: dict[str, dict[str, Any]] = {}
    for each in found:
        stem = parse_template(each.model["path"]).collection_name
        name = model_name(stem) if len(found) > 1 or not options["name"] else options["name"]
        models[name if name not in models else f"{name}{len(models) + 1}"] = each.model
    if models:
        return models
    if any(layouts):
        click.echo(f"worm: no model fits files of {files[0]} where they are: this one is for worm import", err=True)
    last = files[0].partition("?")[0].rstrip("/").rpartition("/")[2].partition(".")[0]
    name = options["name"] or model_name(last)
    texts = {"form": options["form"], "separator": options["separator"]}
    encoding = check_encoding(options["encoding"])
    records = FileRecords(tuple(files), **texts, id_field=options["id_field"], encoding=encoding)
    return {name: infer_files(records, (options["path"] or f"@{folder_of(name)}").rstrip("/")).model}


def _layout_of(file: str, options: Mapping[str, Any], infer: Callable[..., InferredLayout]) -> InferredLayout | None:
    """None for a single file, for which a URL has a suffix at its end."""
    is_file = bool(Path(file.partition("?")[0]).suffix) if "://" in file else not Path(file).is_dir()
    if is_file or options["form"] is not None:
        return None
    limit = {} if options["limit"] is None else {"limit": options["limit"]}
    return infer(file, enums=options["enums"], **limit)


def _see_files(inference: Inference, files: Sequence[str], options: dict[str, Any]) -> tuple[str, str]:
    skipped = 0
    for file in files:
        with open_source(file, options["form"], options["separator"], check_encoding(options["encoding"])) as source:
            for record in show_load(source.records(), "records", source.done):
                if inference.count == options["limit"]:
                    break
                if record.values is None:
                    skipped += 1
                elif record.is_text:
                    inference.see_cells(record.values)
                else:
                    inference.see(record.values)
    if skipped:
        click.echo(f"{counted(skipped, 'record', 'records')} could not be read", err=True)
    stem = "records" if files[0] == STDIN else Path(files[0]).name.partition(".")[0]
    name = model_name(stem)
    return f"@{folder_of(name)}", name


def _see_collection(inference: Inference, options: dict[str, Any]) -> tuple[str, str]:
    if not options["url"]:
        raise InvalidRequestError("--collection", reason="no database is named", fix="add --url, or set WORM_URL")
    with connect(options["url"]) as database:
        collection = find_collection(database, options["collection"])
        for document in show_load(collection.scan(), "documents", lambda: None):
            if inference.count == options["limit"]:
                break
            inference.see(document)
        name = model_name(collection.prefix.rstrip("/").rpartition("/")[2])
        return path_to(collection.prefix) or f"@{folder_of(name)}", name
