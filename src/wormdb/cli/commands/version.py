"""worm version: what is installed."""

from __future__ import annotations

import platform

import click

from wormdb.cli.show.text import print_json, print_table
from wormdb.cli.verbs import Verb
from wormdb.system.installed import EXTRAS, __version__, is_installed

__all__ = ["command"]


@click.command(
    "version",
    cls=Verb,
    examples=(
        "worm version",
        "worm version --json",
    ),
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def command(*, as_json: bool) -> None:
    """Show the version and which optional parts are installed."""
    installed = {extra.name: is_installed(extra) for extra in EXTRAS}
    if as_json:
        print_json({"wormdb": __version__, "python": platform.python_version(), "extras": installed})
        return
    click.echo(f"wormdb {__version__} on Python {platform.python_version()}")
    print_table(
        ("extra", "installed", "for"),
        [
            (
                extra.name,
                "yes" if installed[extra.name] else f"no: pip install 'wormdb[{extra.name}]'",
                extra.feature,
            )
            for extra in EXTRAS
        ],
    )
