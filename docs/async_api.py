"""Write src/wormdb/aio from the API, so that both have the same names and signatures: `make docs`.

Each class of the API gets one whose calls are awaited. What makes no request is a plain call there too; what gives rows
one by one is gone through by `async for`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src" / "wormdb"
NOTE = "Written by `make docs` from `wormdb.api.{module}`; edit that instead."
WRAPPED = {
    "Batch": "batch",
    "BlobReader": "blobs",
    "BlobTarget": "blobs",
    "ChangeStream": "runner",
    "Collection": "collection",
    "Cursor": "cursor",
    "Database": "database",
    "DatabaseSnapshot": "snapshot",
    "FunctionRegistry": "functions",
    "Query": "query",
    "ReadableFiles": "files",
    "Results": "results",
    "SnapshotCollection": "snapshot_collection",
    "Transaction": "transaction",
    "TransactionCollection": "transaction_collection",
}
"""What a call may return that makes requests itself, and the module of its async side."""


@dataclass(frozen=True)
class AsyncClass:
    """One class to write: `plain` makes no requests, `streams` gives rows, `left_out` has no place there.

    `narrowed` takes fewer arguments than the same call of a base, there as here.
    """

    module: str
    name: str
    bases: str
    plain: frozenset[str] = frozenset()
    streams: frozenset[str] = frozenset()
    left_out: frozenset[str] = frozenset()
    narrowed: frozenset[str] = frozenset()
    inner: str = "self._inner"
    """What the calls are passed on to."""

    @property
    def target(self) -> str:
        """The module that is written."""
        return WRAPPED.get(self.name, self.module)


_CONDITIONS = frozenset(
    """eq ne gt gte lt lte in_ nin exists contains starts_with ends_with regex where or_ filter sort limit offset
    select populate near search strategy as_of at_least stale_ms""".split()  # noqa: SIM905 - a list of words
)
CLASSES = (
    AsyncClass(
        "find",
        "QueryMethods",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"token", "with_options", "find", "query", "resume"}),
    ),
    AsyncClass("familiar", "FamiliarMethods", "AsyncHandle[Any], Generic[T]"),
    AsyncClass(
        "notebook",
        "NotebookMethods",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"head"}),
        left_out=frozenset({"__len__"}),
    ),
    AsyncClass("modify", "ModifyMethods", "AsyncHandle[Any], Generic[T]"),
    AsyncClass("index_methods", "IndexMethods", "AsyncHandle[Any], Generic[T]", left_out=frozenset({"forward"})),
    AsyncClass(
        "blob_methods",
        "BlobMethods",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"create_blob_target"}),
        streams=frozenset({"list_blobs"}),
    ),
    AsyncClass(
        "collection",
        "Collection",
        ", ".join(f"Async{name}Methods[T]" for name in ("Query", "Familiar", "Notebook", "Modify", "Index", "Blob")),
        plain=frozenset({"name", "mode", "prefix", "create", "batch", "functions", "invalidate_manifest"}),
        streams=frozenset({"scan", "watch", "__iter__"}),
        left_out=frozenset({"__contains__"}),
    ),
    AsyncClass("schema_methods", "SchemaMethods", "AsyncHandle[Any]", left_out=frozenset({"class_change", "url"})),
    AsyncClass(
        "transaction_methods",
        "TransactionMethods",
        "AsyncHandle[Any]",
        left_out=frozenset({"transaction", "snapshot"}),
    ),
    AsyncClass(
        "database",
        "Database",
        "OpenedDatabase, SessionMethods, AsyncSchemaMethods, AsyncTransactionMethods",
        plain=frozenset({"as_actor", "url", "store", "__getitem__", "files", "cost"}),
        left_out=frozenset({"close", "removal", "__enter__", "__exit__"}),
    ),
    AsyncClass(
        "results",
        "Results",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"skipped", "sort", "skip", "limit"}),
        streams=frozenset({"__iter__", "highlights", "scored"}),
    ),
    AsyncClass(
        "cursor",
        "Cursor",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"batch_size", "token", "close"}),
        streams=frozenset({"__iter__"}),
    ),
    AsyncClass(
        "query",
        "Query",
        "AsyncHandle[Any], Generic[T]",
        plain=_CONDITIONS | {"find"},
        streams=frozenset({"__iter__"}),
    ),
    AsyncClass(
        "batch",
        "Batch",
        "AsyncHandle[Any], Generic[T]",
        plain=frozenset({"insert", "save", "update", "delete", "discard", "__len__"}),
    ),
    AsyncClass(
        "transaction",
        "Transaction",
        "OpenedTransaction",
        plain=frozenset({"id", "size", "numbers", "rollback", "__getitem__"}),
        left_out=frozenset({"check", "is_over", "open", "room", "__enter__", "__exit__"}),
    ),
    AsyncClass(
        "transaction",
        "TransactionCollection",
        "SessionHandle, AsyncQueryMethods[T], AsyncFamiliarMethods[T], AsyncModifyMethods[T], AsyncBlobMethods[T]",
        plain=frozenset({"create", "batch"}),
        streams=frozenset({"scan", "__iter__"}),
    ),
    AsyncClass(
        "snapshot",
        "DatabaseSnapshot",
        "OpenedSnapshot",
        plain=frozenset({"numbers", "close", "__getitem__"}),
        left_out=frozenset({"collect", "__enter__", "__exit__"}),
        inner="self._taken",
    ),
    AsyncClass(
        "snapshot",
        "SnapshotCollection",
        "SessionHandle, AsyncQueryMethods[T]",
        plain=frozenset({"query"}),
        streams=frozenset({"__iter__"}),
        narrowed=frozenset({"find_by_id", "exists", "count", "distinct"}),
    ),
    AsyncClass("functions", "FunctionRegistry", "AsyncHandle[Any]"),
    AsyncClass("files", "ReadableFiles", "AsyncHandle[Any]"),
)
_BASES = {
    "blob_methods": "AsyncBlobMethods",
    "familiar": "AsyncFamiliarMethods",
    "find": "AsyncQueryMethods",
    "index_methods": "AsyncIndexMethods",
    "modify": "AsyncModifyMethods",
    "notebook": "AsyncNotebookMethods",
}
_KEPT = {"__getitem__", "__iter__", "__len__", "__enter__", "__exit__"}


def generate() -> dict[Path, str]:
    """Every generated module and its text."""
    written = {SOURCE / "aio" / f"{one.target}.py": _module(one) for one in CLASSES}
    return {path: _formatted(path, text) for path, text in written.items()}


def _formatted(path: Path, text: str) -> str:
    """The text as ruff would have it: without imports that are not needed, and in its format."""
    ruff = [sys.executable, "-m", "ruff"]
    fix = ["check", "--fix-only", "--quiet", "--select"]
    # What is not needed goes first: sorting would break a long line of it for good.
    for command in ([*fix, "F401"], [*fix, "I001"], ["format", "--quiet"]):
        text = subprocess.run(  # noqa: S603 - a tool of this environment
            [*ruff, *command, "--stdin-filename", str(path), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return text


def _module(one: AsyncClass) -> str:
    tree = ast.parse((SOURCE / "api" / f"{one.module}.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == one.name)
    members = [node for node in found.body if isinstance(node, ast.FunctionDef) and _is_offered(node.name, one)]
    body = "\n".join(_member(node, one) for node in members)
    if one.name == "Collection":
        imports = [f"from wormdb.aio.{module} import {base}" for module, base in _BASES.items()]
    elif one.name == "Database":
        imports = [
            "from wormdb.aio.opened import OpenedDatabase",
            "from wormdb.aio.schema_methods import AsyncSchemaMethods",
            "from wormdb.aio.sessions import SessionMethods",
            "from wormdb.aio.transaction_methods import AsyncTransactionMethods",
        ]
    elif one.module in {"snapshot", "transaction"}:
        imports = [f"from wormdb.aio.{module} import {base}" for module, base in _BASES.items()]
        imports += [
            f"from wormdb.aio.sessions import {base}" for base in ("SessionHandle", f"Opened{one.module.title()}")
        ]
    else:
        imports = ["from wormdb.aio.runner import AsyncHandle"]
    defaults = sorted({found for node in members for found in _constants(node)})
    imports += [f"from wormdb.api.{one.module} import {name}" for name in defaults]
    own = [node.name for node in tree.body if isinstance(node, ast.ClassDef) and node.name not in {one.name, *WRAPPED}]
    later = [f"    from wormdb.api.{one.module} import {name}" for name in own if not name.startswith("_")]
    later += [f"    from wormdb.aio.{WRAPPED[name]} import Async{name}" for name in sorted(WRAPPED) if name != one.name]
    doc = ast.get_docstring(found) or ""
    summary = doc.partition("\n")[0]
    lines = [
        f'"""{_title(one)}\n\n{NOTE.format(module=one.module)}\n"""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast, overload",
        "",
        *imports,
        "",
        "if TYPE_CHECKING:",
        "    from collections.abc import AsyncIterator, Coroutine",
        *_typing_imports(tree),
        *later,
        "",
        f'__all__ = ["Async{one.name}"]',
        "",
        *(f'{name} = TypeVar("{name}")' for name in ("T", "R") if name in _variables(tree)),
        "",
        "",
        f"class Async{one.name}({one.bases}):",
        f'    """{summary}\n\n    Calls are awaited; `wormdb.api.{one.module}.{one.name}` has their promises.\n    """',
        "",
        body,
    ]
    return "\n".join(lines) + "\n"


def _constants(node: ast.FunctionDef) -> list[str]:
    """The constants that are defaults of arguments."""
    return [each.id for each in (*node.args.defaults, *node.args.kw_defaults) if isinstance(each, ast.Name)]


def _variables(tree: ast.Module) -> set[str]:
    """The type variables of a module; T in any case."""
    made = (node for node in tree.body if isinstance(node, ast.Assign) and "TypeVar(" in ast.unparse(node.value))
    return {"T", *(ast.unparse(node.targets[0]) for node in made)}


def _title(one: AsyncClass) -> str:
    return f"The calls of `{one.name}`, to be awaited."


def _is_offered(name: str, one: AsyncClass) -> bool:
    return (not name.startswith("_") or name in _KEPT) and name not in one.left_out


def _typing_imports(tree: ast.Module) -> list[str]:
    """All that the module imports, and its aliases of types: what annotations do not need is taken out afterwards."""
    lines = []
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__":
            lines.append(ast.unparse(node))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lines += [ast.unparse(inner) for inner in node.body]
    own = {"TYPE_CHECKING", "Any", "Generic", "TypeVar", "cast", "overload"}
    kept = []
    for line in lines:
        found = re.fullmatch(r"from typing import (.*)", line)
        if found:
            names = [name for name in found[1].split(", ") if name not in own]
            if names:
                kept.append(f"from typing import {', '.join(names)}")
        else:
            kept.append(line)
    return [f"    {line}" for line in kept]


def _member(node: ast.FunctionDef, one: AsyncClass) -> str:
    decorators = {ast.unparse(each) for each in node.decorator_list}
    name, returns = node.name, "None" if node.returns is None else _async_type(ast.unparse(node.returns))
    arguments = re.sub(r"\b(Query|Collection)\b", r"Async\1", ast.unparse(node.args))
    summary = (ast.get_docstring(node) or "").partition("\n")[0].replace('"', "'")
    doc = f'        """{summary}"""' if summary else f'        """As `{one.name}.{name}`."""'
    if name in {"__enter__", "__exit__"}:
        return _manager(name)
    if name in one.streams:
        return _stream(node, arguments, returns, doc)
    is_plain = name in one.plain
    if "property" in decorators:
        if is_plain:
            lines = _given_back(one, name, returns, f"{one.inner}.{name}")
            return f"    @property\n    def {name}(self) -> {returns}:\n{doc}\n{lines}\n"
        kind = f"Coroutine[Any, Any, {returns}]"
        call = f"self._runner.call(getattr, self._inner, {name!r})"
        return f"    @property\n    def {name}(self) -> {kind}:\n{doc}\n        return {call}\n"
    word = "def" if is_plain else "async def"
    if "overload" in decorators:
        return f"    @overload\n    {word} {name}({arguments}) -> {returns}: ...\n"
    given = _forwarded(node.args)
    call = f"{one.inner}.{name}({given})"
    if not is_plain:
        call = f"await self._runner.call({one.inner}.{name}{', ' if given else ''}{given})"
    ignored = "  # type: ignore[override] # as there" if name in one.narrowed else ""
    return f"    {word} {name}({arguments}) -> {returns}:{ignored}\n{doc}\n{_given_back(one, name, returns, call)}\n"


def _given_back(one: AsyncClass, name: str, returns: str, call: str) -> str:
    """The lines that make a call, and give what it returns as its async side has it."""
    if returns == "None":
        return f"        {call}"
    if returns == "NoReturn":
        return f"        {call}\n        raise AssertionError  # it raised"
    if returns == "Self":
        made = f"type(self)(self._runner, {call})"
        return f"        return {made}" if name == "with_options" else f"        {call}\n        return self"
    found = re.match(r"Async(\w+)\b", returns)
    if found is None:
        return f"        return cast({returns!r}, {call})"
    kind = found[0]
    imported = f"        from wormdb.aio.{WRAPPED[found[1]]} import {kind}\n\n" if found[1] != one.name else ""
    return f"{imported}        return {kind}(self._runner, {call})"


def _async_type(returns: str) -> str:
    for name in WRAPPED:
        returns = re.sub(rf"(?<![\w.]){name}\b", f"Async{name}", returns)
    return re.sub(r"(?<![\w.])Iterator\b", "AsyncIterator", returns)


def _forwarded(arguments: ast.arguments) -> str:
    given = [each for each in (*arguments.posonlyargs, *arguments.args) if each.arg != "self"]
    plain = [f"*self._plain([{each.arg}])" if _may_be_handle(each) else each.arg for each in given]
    several = [f"*{arguments.vararg.arg}"] if arguments.vararg else []
    if arguments.vararg and "Query" in ast.unparse(arguments):  # queries among the arguments are the API's below
        several = [f"*self._plain({arguments.vararg.arg})"]
    named = [f"{each.arg}={each.arg}" for each in arguments.kwonlyargs]
    rest = [f"**{arguments.kwarg.arg}"] if arguments.kwarg else []
    return ", ".join([*plain, *several, *named, *rest])


def _may_be_handle(argument: ast.arg) -> bool:
    """Whether an argument may be a collection, which is the API's below."""
    return (
        argument.annotation is not None and re.search(r"\bCollection\b", ast.unparse(argument.annotation)) is not None
    )


def _stream(node: ast.FunctionDef, arguments: str, returns: str, doc: str) -> str:
    name = node.name
    if name == "__iter__":
        return (
            f"    def __aiter__(self) -> {returns}:\n{doc}\n"
            "        return self._runner.stream(lambda: iter(self._inner))\n"
        )
    if "overload" in {ast.unparse(each) for each in node.decorator_list}:
        return f"    @overload\n    def {name}({arguments}) -> {returns}: ...\n"
    given = _forwarded(node.args)
    value = (
        f"self._runner.stream(lambda: self._inner.{name}({given}))"
        if given
        else f"self._runner.stream(self._inner.{name})"
    )
    if name == "watch":
        value = f"self._runner.watch(self._inner, {given})"
    return f"    def {name}({arguments}) -> {returns}:\n{doc}\n        return {value}\n"


def _manager(name: str) -> str:
    if name == "__enter__":
        return "    async def __aenter__(self) -> Self:\n        return self\n"
    return (
        "    async def __aexit__(\n"
        "        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None\n"
        "    ) -> None:\n"
        "        await self._runner.call(self._inner.__exit__, kind, error, trace)\n"
    )
