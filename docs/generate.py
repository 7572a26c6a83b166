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
from wormdb.schema import editor, keys
from wormdb.storage import store

REFERENCE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs` from the code; edit the code instead. -->\n"


def generate() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        REFERENCE / "errors.md": errors_page(),
        REFERENCE / "limits.md": limits_page(),
        REFERENCE / "command.md": command_page(),
        REFERENCE / "schema.md": schema_page(),
        REFERENCE / "store.md": store_page(),
        Path(editor.__file__).with_name("schema.schema.json"): editor.editor_text(),
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


def schema_page() -> str:
    """Every key of schema.json, from the table that the loader reads."""
    lines = ["# schema.json", NOTE, "How to write one: [models](../how-to/models.md).", ""]
    lines += ["Editors check a file that begins with a `$schema` key naming `schema.schema.json` of the package.", ""]
    for table, rows in keys.TABLES.items():
        lines += [f"## {table}", "", "| key | value | default | what |", "| --- | --- | --- | --- |"]
        for key in rows:
            default = "required" if key.required else "" if key.default in (None, "") else f"`{key.default}`"
            lines.append(f"| `{key.name}` | {schema_value(key)} | {default} | {key.text} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def schema_value(key: keys.Key) -> str:
    """What a key holds, in words."""
    linked = f"[{key.of}](#{key.of.lower()})"
    words = {
        "choice": ", ".join(f"`{choice}`" for choice in key.choices),
        "choices": f"one or a list of {', '.join(f'`{choice}`' for choice in key.choices)}",
        "count": f"integer from {key.minimum}",
        "names": "list of names",
        "values": "list of values",
        "value": "any value",
        "object": linked,
        "switch": f"boolean or {linked}",
        "map": f"name → {linked}",
        "texts": "name → text",
        "kept": "anything",
    }
    return words.get(key.shape, key.shape)


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
