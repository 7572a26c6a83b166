"""Write docs/reference/ from the code, so that it cannot drift: `make docs`.

A test compares what this writes with what is committed.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import click

from wormdb import errors, limits
from wormdb.cli.main import worm
from wormdb.storage import store

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs` from the code; edit the code instead. -->\n"


def generate() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        REFERENCE / "errors.md": errors_page(),
        REFERENCE / "limits.md": limits_page(),
        REFERENCE / "command.md": command_page(),
        REFERENCE / "store.md": store_page(),
    }


def errors_page() -> str:
    """The tree as drawn in the module, then one line a class."""
    head, _, rest = inspect.cleandoc(errors.__doc__ or "").partition("\n\n")
    tree, _, facts = rest.partition("\n\n")
    lines = ["# Errors", NOTE, head, "", "```text", tree, "```", "", facts, "", "| error | meaning |", "| --- | --- |"]
    kinds = [getattr(errors, name) for name in errors.__all__ if issubclass(getattr(errors, name), errors.WormError)]
    lines += [f"| `{kind.__name__}` | {first_paragraph(kind)} |" for kind in kinds]
    return "\n".join(lines) + "\n"


def limits_page() -> str:
    """Every name of limits.py with its value and the text below it."""
    source = inspect.getsource(limits)
    rows = ["# Limits", NOTE, first_paragraph(limits), "", "| name | value | what |", "| --- | --- | --- |"]
    pattern = re.compile(r'^([A-Z_]+): Final = .*\n(?:"""((?:.|\n)*?)""")?', flags=re.MULTILINE)
    for name, text in pattern.findall(source):
        if name not in {"KIB", "MIB"}:
            value = getattr(limits, name)
            rows.append(f"| `{name}` | {value:,} | {' '.join(text.split())} |")
    return "\n".join(rows) + "\n"


def command_page() -> str:
    """`--help` of the command and of each verb."""
    lines = ["# The worm command", NOTE, "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.", ""]
    context = click.Context(worm, info_name="worm", terminal_width=100)
    lines += ["```text", worm.get_help(context), "```", ""]
    for verb in worm.list_commands(context):
        command = worm.get_command(context, verb)
        assert command is not None
        inner = click.Context(command, info_name=verb, parent=context, terminal_width=100)
        lines += [f"## worm {verb}", "", "```text", command.get_help(inner), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def store_page() -> str:
    """The verbs of a store and what each costs."""
    intro = inspect.cleandoc(store.__doc__ or "")
    lines = ["# The store contract", NOTE, "```text", intro, "```", ""]
    for name, member in vars(store.Store).items():
        if name.startswith("_") or not (callable(member) or isinstance(member, property)):
            continue
        function = member.fget if isinstance(member, property) else member
        assert function is not None
        signature = str(inspect.signature(function)).replace("self, ", "").replace("(self)", "()")
        lines += [f"## {name}", "", "```text", f"{name}{signature.replace(chr(39), '')}", "```", ""]
        lines += [inspect.cleandoc(function.__doc__ or ""), ""]
    return "\n".join(lines).rstrip() + "\n"


def first_paragraph(thing: object) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join((inspect.getdoc(thing) or "").partition("\n\n")[0].split())


def main() -> None:
    """Write every page."""
    REFERENCE.mkdir(exist_ok=True)
    for path, text in generate().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
