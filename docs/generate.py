"""Write docs/reference/ from the code, so that it cannot drift: `make docs`.

A test compares what this writes with what is committed.
"""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, is_typeddict

import click

import wormdb
from wormdb import errors
from wormdb import settings as limits
from wormdb.api.adopt import AdoptOptions
from wormdb.api.batch import Batch
from wormdb.api.imports.records import ImportOptions
from wormdb.api.options import FindOptions
from wormdb.api.records import Record
from wormdb.cli.main import worm
from wormdb.schema import editor, keys
from wormdb.server.table import COMMANDS
from wormdb.storage import store
from wormdb.storage.meter import MeteredRequest, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REFERENCE = Path(__file__).parent / "reference"
API: tuple[type[Any], ...] = (
    wormdb.Database,
    wormdb.Collection,
    Batch,
    wormdb.Document,
    FindOptions,
    wormdb.Results,
    wormdb.Query,
    wormdb.Cursor,
    wormdb.Explanation,
    wormdb.UpdateResult,
    wormdb.DeleteResult,
    wormdb.Change,
    wormdb.HistoryEntry,
    wormdb.Snapshot,
    wormdb.TrashedDocument,
    wormdb.BlobTarget,
    wormdb.BlobReference,
    wormdb.BlobReader,
    wormdb.StoredBlob,
    wormdb.CollectionStatus,
    wormdb.IndexSummary,
    wormdb.IndexDescription,
    wormdb.FunctionDefinition,
    wormdb.ManifestStatus,
    AdoptOptions,
    wormdb.Adoption,
    ImportOptions,
    wormdb.ImportResult,
    wormdb.Rejection,
    Record,
    wormdb.ReadableFiles,
    wormdb.FilesStatus,
    wormdb.TableStatus,
    wormdb.FilesSyncResult,
    wormdb.FileFault,
    Usage,
    MeteredRequest,
)
SPECIAL = {"__getitem__": 'db["name"]', "__iter__": "for document in collection", "__contains__": "id in collection"}
NOTE = "<!-- Written by `make docs` from the code; edit the code instead. -->\n"


def generate() -> dict[Path, str]:
    """Every generated page and its text."""
    return {
        REFERENCE / "api.md": api_page(),
        REFERENCE / "server.md": server_page(),
        REFERENCE / "errors.md": errors_page(),
        REFERENCE / "limits.md": limits_page(),
        REFERENCE / "command.md": command_page(),
        REFERENCE / "schema.md": schema_page(),
        REFERENCE / "settings.md": settings_page(),
        REFERENCE / "store.md": store_page(),
        Path(editor.__file__).with_name("schema.schema.json"): editor.editor_text(),
    }


def api_page() -> str:
    """What a program calls, with signatures and promises."""
    lines = [
        "# Python API",
        NOTE,
        "`import wormdb` gives `connect`, the classes below and [every error](errors.md).",
        "",
    ]
    lines += ["All of it blocks; a database and its collections may be shared by threads.", ""]
    lines += entry("wormdb.connect", wormdb.connect, level=2)
    for kind in API:
        lines += [f"## {kind.__name__}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
        if is_typeddict(kind):
            lines += ["| option | type | what |", "| --- | --- | --- |", *option_rows(kind), ""]
        elif is_dataclass(kind) and any(not each.name.startswith("_") for each in fields(kind)):
            lines += ["| field | type | what |", "| --- | --- | --- |", *field_rows(kind), ""]
        for name, member in members_of(kind):
            function = member.fget if isinstance(member, property) else member
            if not inspect.isfunction(function) or (name.startswith("_") and name not in SPECIAL):
                continue
            lines += entry(SPECIAL.get(name, name), function, level=3, is_property=isinstance(member, property))
    return "\n".join(lines).rstrip() + "\n"


def members_of(kind: type[Any]) -> Iterator[tuple[str, Any]]:
    """What a class has, then what it has of classes of ours that it is made of, each name once."""
    seen: set[str] = set()
    for each in kind.__mro__:
        if each.__module__.startswith("wormdb."):
            yield from ((name, member) for name, member in vars(each).items() if name not in seen)
            seen |= set(vars(each))


def entry(title: str, function: Callable[..., object], *, level: int, is_property: bool = False) -> list[str]:
    """One function: its title, its signature and its docstring."""
    signature = inspect.signature(function)
    is_plain = is_property or title in SPECIAL.values()
    parameters = [each for each in signature.parameters.values() if each.name not in {"self", "clock", "chance"}]
    text = str(signature.replace(parameters=[] if is_plain else parameters)).replace("'", "")
    code = title + (text.removeprefix("()") if is_plain else text)
    if len(code) > 120:
        at = next(index for index, each in enumerate(parameters) if each.kind is each.KEYWORD_ONLY)
        rows = [*map(str, parameters[:at]), "*", *map(str, parameters[at:])]
        code = "\n".join([f"{title}(", *(f"    {row}," for row in rows), text[text.rindex(") ->") :]]).replace("'", "")
    title = title if level == 2 else f"`{title}`"
    return [f"{'#' * level} {title}", "", "```text", code, "```", "", inspect.cleandoc(function.__doc__ or ""), ""]


def texts_below(kind: type[Any]) -> dict[str, str]:
    """What is written below each field of a dataclass."""
    found = re.findall(r'^    (\w+): [^\n]+\n    """((?:.|\n)*?)"""', inspect.getsource(kind), flags=re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


def field_rows(kind: type[Any]) -> list[str]:
    """One row of a table for each field of a dataclass."""
    texts = texts_below(kind)
    bar = "\\|"
    return [
        f"| `{each.name}` | `{each.type.replace('|', bar)}` | {texts.get(each.name, '')} |" for each in fields(kind)
    ]


def option_rows(kind: type[Any]) -> list[str]:
    """One row of a table for each key of a typed dict; what it has of others in its module is told there."""
    options = kind.__annotations__
    parts = [each for each in vars(sys.modules[kind.__module__]).values() if is_typeddict(each)]
    texts = {
        name: text
        for each in parts
        if each.__annotations__.keys() <= options.keys()
        for name, text in texts_below(each).items()
    }
    types = {name: each.__forward_arg__.replace("|", "\\|") for name, each in options.items()}
    return [f"| `{name}` | `{types[name]}` | {texts[name]} |" for name in options]


def settings_page() -> str:
    """Every setting with its default."""
    lines = ["# Settings", NOTE, first_paragraph(wormdb.Settings), ""]
    lines += ["Give them to `connect`: `wormdb.connect(url, settings=wormdb.Settings(staleness_ms=500))`.", ""]
    lines += ["| name | default | what |", "| --- | --- | --- |"]
    defaults, texts = wormdb.Settings(), texts_below(wormdb.Settings)
    for each in fields(defaults):
        value = getattr(defaults, each.name)
        shown = f"`{value}`" if isinstance(value, str | None) else f"{value:,}"
        lines.append(f"| `{each.name}` | {shown} | {texts[each.name]} |")
    return "\n".join(lines) + "\n"


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
    lines += [
        "Errors are one line on standard error; `WORM_DEBUG=1` in the environment shows where they came from.",
        "`WORM_CACHE` names a folder in which objects of a cloud store stay from one command to the next.",
        "",
    ]
    # The settings of the command are given, as click does when it runs it: it keeps the first help option it made.
    context = click.Context(worm, info_name="worm", terminal_width=100, **worm.context_settings)
    lines += ["```text", worm.get_help(context), "```", "", *verbs(worm, context)]
    return "\n".join(lines).rstrip() + "\n"


def verbs(group: click.Group, context: click.Context) -> Iterator[str]:
    """The help of each verb of a group, and of the verbs below it."""
    for verb in group.list_commands(context):
        command = group.get_command(context, verb)
        assert command is not None
        inner = click.Context(command, info_name=verb, parent=context, terminal_width=100)
        yield from (f"## {inner.command_path}", "", "```text", command.get_help(inner), "```", "")
        if isinstance(command, click.Group):
            yield from verbs(command, inner)


def server_page() -> str:
    """Every command of the server, from the table that it is dispatched by."""
    lines = ["# Commands of the server", NOTE, "How to run one: [serve a database](../how-to/serve.md).", ""]
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        lines += [f"## {group.capitalize()}", "", "| command | |", "| --- | --- |"]
        for command in (each for each in COMMANDS.values() if each.group == group):
            for name, each in [("", command), *((command.name, each) for each in command.subcommands)]:
                words = " ".join(filter(None, [name, each.name, each.syntax])).replace("|", "\\|")
                lines.append(f"| `{words}` | {each.summary} |")
        lines.append("")
    return "\n".join(lines)


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
