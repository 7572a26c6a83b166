"""worm completion: commands, options and models at the press of a key."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from wormdb.cli.verbs import Verb

__all__ = ["command"]


@click.command(
    "completion",
    cls=Verb,
    examples=(
        'eval "$(worm completion bash)"                    # in ~/.bashrc',
        'eval "$(worm completion zsh)"                     # in ~/.zshrc',
        "worm completion fish > ~/.config/fish/completions/worm.fish",
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes worm's commands in a shell.

    Commands and options are completed, and the names of models if the schema is in .worm/schema.json or
    schema.json, or WORM_URL or --url tells the database.
    """
    found = get_completion_class(shell)
    assert found is not None, "click knows these shells"
    click.echo(found(context.find_root().command, {}, "worm", "_WORM_COMPLETE").source())
