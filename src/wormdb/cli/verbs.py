"""Verbs with examples in their help, and groups of them that are imported when they are used."""

from __future__ import annotations

import importlib
import keyword
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from click.shell_completion import CompletionItem

__all__ = ["SHORT", "Verb", "VerbGroup", "Verbs"]

SHORT: Final[dict[str, tuple[str, ...]]] = {
    "find": ("table", "query"),
    "count": ("table", "query", "--count"),
    "explain": ("table", "query", "--explain"),
    "collections": ("table", "list"),
}
"""Short forms, and the verbs that they stand for; all but the last take a filter behind the collection."""

MEANT_MAX: Final = 4
"""Verbs of groups that are told of one mistyped word."""


class Verb(click.Command):
    """A command whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str], **options: Any) -> None:
        """`examples` are command lines."""
        super().__init__(*arguments, **options)
        self.examples = tuple(examples)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; where --url is missing and a word looks like one, the error says so."""
        words = list(args)  # click takes them out
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            given = [word for word in words if "://" in word or Path(word).is_dir()]
            if given and error.param is not None and error.param.name == "url":
                hint = f"Did you mean --url {given[0]}?"
                raise click.MissingParameter(hint, ctx=ctx, param=error.param) from error
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, one a line as they are: a command that is wrapped cannot be copied."""
        super().format_epilog(ctx, formatter)
        with formatter.section("Examples"):
            formatter.write("".join(f"  {example}\n" for example in self.examples))


class VerbGroup(click.Group):
    """Verbs of one subject, where a mistyped one gets a suggestion."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first word; a UsageError with the verb that was probably meant, if there is none."""
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            meant = self._meant(ctx, args[0])
            hint = f" Did you mean {' or '.join(map(repr, meant))}?" if meant else ""
            ctx.fail(f"No such command {args[0]!r:.60}.{hint}")
        return super().resolve_command(ctx, args)

    def _meant(self, ctx: click.Context, word: str) -> list[str]:
        """The verb nearest to a word, here or in the groups here: `query` is `table query`."""
        from wormdb.schema.problems import find_nearest  # only mistakes need it

        if ctx.parent is None and word in SHORT:
            return [" ".join(SHORT[word])]
        if word == "help":
            return ["--help"]
        groups = {verb: self.get_command(ctx, verb) for verb in self.list_commands(ctx)}
        inner = {name: group.list_commands(ctx) for name, group in groups.items() if isinstance(group, click.Group)}
        deep = sorted({verb for verbs in inner.values() for verb in verbs})
        nearest = None if word in deep else find_nearest(word, self.list_commands(ctx))
        if nearest is not None:
            return [nearest]
        nearest = find_nearest(word, deep)
        return [f"{name} {nearest}" for name, verbs in inner.items() if nearest in verbs][:MEANT_MAX]


class Verbs(VerbGroup):
    """A group whose help and completion need none of its commands."""

    def __init__(
        self, *arguments: Any, modules: str, verbs: Mapping[str, str], hidden: Sequence[str] = (), **options: Any
    ) -> None:
        """`modules` begins the name of every command's module, `verbs` gives one line of help for each.

        `hidden` verbs work too, and neither help nor completion shows them.
        """
        super().__init__(*arguments, **options)
        self._modules = modules
        self._verbs = verbs
        self._hidden = tuple(hidden)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """The verbs, in their order."""
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """The command of a verb; None if there is none."""
        if cmd_name not in self._verbs and cmd_name not in self._hidden:
            return None
        # No module can be called as a word of the language: `import` is in import_.py.
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command = importlib.import_module(f"{self._modules}{module}").command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; 0 if its reader went away (`worm … | head`), because it has what it wanted."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # What is still in the buffer goes nowhere, instead of failing once more when the process ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)
            return 0

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """The list of verbs in a help page."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self._verbs.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs, or options, that begin with what was typed."""
        from click.shell_completion import CompletionItem

        if incomplete and not incomplete[0].isalnum():
            return click.Command.shell_complete(self, ctx, incomplete)
        found = [(verb, text) for verb, text in self._verbs.items() if verb.startswith(incomplete)]
        return [CompletionItem(verb, help=text) for verb, text in found]
