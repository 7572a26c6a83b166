"""worm table inspect: one collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from wormdb.cli.input.place import AS_JSON, MODEL, SCHEMA, URL, blocks_of, find_collection, model_of, open_database
from wormdb.cli.input.question import AS_OF, read_as_of
from wormdb.cli.show.indexes import amount_of, file_of, indexes_of, kind_of
from wormdb.cli.show.text import counted, print_json, size_text, time_text, width_of
from wormdb.cli.verbs import Verb

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.api.status import IndexDescription, ManifestStatus, ParquetFiles
    from wormdb.schema.model import Model

__all__ = ["command"]


@click.command("inspect", cls=Verb, examples=("worm table inspect Customer", "worm table inspect org/customers --json"))
@MODEL
@AS_OF
@URL
@SCHEMA
@AS_JSON
def command(model: str, url: str, *, schema: Path | None, as_of: str | None, as_json: bool) -> None:
    """Show the size of a collection, its manifest file and its indexes.

    The manifest file is read, and so are the files of indexes: each is fresh, stale (behind the log), missing or
    damaged. Columns are those of blocks, which answer queries. Numbers of indexes are those of the last forwarding.
    With --as-of only how many documents there were then.
    """
    with open_database(url, {"schema": schema}) as database:
        collection = find_collection(database, model)
        if as_of is not None:
            _print_past(collection, as_of, as_json=as_json)
            return
        known = model_of(database, collection)
        status, files = collection.get_manifest_status(), blocks_of(collection)
        indexes = [collection.describe_index(each.name) for each in indexes_of(collection, known)]
    head = {
        "Model": collection.name,
        "Path": collection.prefix if known is None else str(known.path),
        "Mode": collection.mode,
    }
    if as_json:
        print_json(_json(head, status, files, indexes))
        return
    _print_pairs(head, "")
    click.echo("\nCollection:")
    _print_pairs(
        {
            "Count": f"{status.count:,}",
            "Size": _size(files),
            **({} if files is None else {"Columns": _columns(status, files)}),
            "Last Updated": time_text(status.last_updated if files is None else files.last_change),
        }
    )
    if files is not None and files.version > 1:
        click.echo("\nVersion:")
        _print_pairs(_version(files))
    if files is not None and files.analyzed is not None:
        click.echo("\nAnalyzed:")
        _print_pairs({"Time": time_text(files.analyzed), "Fields": ", ".join(files.analyzed_fields)})
    click.echo("\nManifest:")
    _print_pairs(_manifest(status, known))
    click.echo("\nIndexes:" if indexes else "\nIndexes: none")
    _print_indexes(indexes)


def _print_past(collection: Collection[Document], as_of: str, *, as_json: bool) -> None:
    count = collection.count(as_of=read_as_of(as_of))
    if as_json:
        print_json({"model": collection.name, "asOf": as_of, "collection": {"count": count}})
    else:
        _print_pairs({"Model": collection.name, "As of": as_of, "Count": f"{count:,}"}, "")


def _size(files: ParquetFiles | None) -> str:
    if files is None:
        return "not known: another program keeps the files"
    return f"~{size_text(files.size_bytes)} (estimated from blocks)" if files.files else "not in blocks yet"


def _version(files: ParquetFiles) -> dict[str, str]:
    done = len(files.files) - files.older
    left = f", {counted(files.older, 'block', 'blocks')} still older: worm forward goes on" if files.older else ""
    return {"Number": str(files.version), "Blocks": f"{done:,} of {len(files.files):,} are of it{left}"}


def _analyzed(files: ParquetFiles | None) -> dict[str, Any] | None:
    if files is None or files.analyzed is None:
        return None
    return {"time": time_text(files.analyzed), "fields": list(files.analyzed_fields)}


def _manifest(status: ManifestStatus, model: Model | None) -> dict[str, str]:
    if status.state == "none":
        return {"Status": _freshness(status)}
    stamps = () if model is None else ("createdAt", "updatedAt")  # a manifest has them whatever its fields are
    return {
        "Status": _freshness(status),
        "Size": size_text(status.size_bytes) if status.exists else "--",
        "Fields": ", ".join(dict.fromkeys((*status.fields, *stamps))) or "--",
        "Auto-update": "disabled" if model is not None and not model.manifest.auto_update else "enabled",
    }


def _freshness(status: ManifestStatus) -> str:
    parts = ", in several files" if status.partitioned else ""
    state = "n/a" if status.state == "none" else status.state
    return f"{state} ({status.reason or 'checksum verified'}){parts}"


def _columns(status: ManifestStatus, files: ParquetFiles) -> str:
    if not files.number:
        return f"none: {counted(files.lag_entries, 'entry', 'entries')} of the log, never brought forward"
    behind = f", {counted(files.lag_entries, 'entry', 'entries')} behind the log" if files.lag_entries else ""
    return f"{size_text(status.columns_bytes)}, {'complete' if status.columns_fresh else 'not in all blocks'}{behind}"


def _print_pairs(pairs: dict[str, str], indent: str = "  ") -> None:
    width = max(len(name) for name in pairs) + 3
    for name, value in pairs.items():
        click.echo(f"{indent}{name + ':':{width}}{value}")


def _print_indexes(indexes: Sequence[IndexDescription]) -> None:
    rows = [
        (f"{each.name}:", f"{', '.join(each.fields)} ({kind_of(each)})", amount_of(each) + file_of(each))
        for each in indexes
    ]
    widths = [max(width_of(row[place]) for row in rows) for place in range(2)] if rows else []
    for row in rows:
        cells = (cell + " " * (width - width_of(cell)) for cell, width in zip(row, widths, strict=False))
        click.echo("  " + "  ".join([*cells, row[2]]))


def _json(
    head: dict[str, str], status: ManifestStatus, files: ParquetFiles | None, indexes: Sequence[IndexDescription]
) -> dict[str, Any]:
    updated = status.last_updated if files is None else files.last_change
    return {
        **{name.lower(): value for name, value in head.items()},
        "collection": {
            "count": status.count,
            "sizeBytes": None if files is None else files.size_bytes,
            "lastUpdated": None if updated is None else time_text(updated),
        },
        "version": None if files is None else {"number": files.version, "olderBlocks": files.older},
        "analyzed": _analyzed(files),
        "manifest": status.to_dict(),
        "indexes": [each.to_dict() for each in indexes],
    }
