"""A model that is made of the records to be imported: shown, then applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from wormdb.api.database import connect
from wormdb.cli.input.schema import folder_of, path_to
from wormdb.cli.show.text import counted
from wormdb.errors import InvalidRequestError
from wormdb.schema.load import load_schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.jobs.infer import InferredModel

__all__ = ["apply_inferred"]


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
