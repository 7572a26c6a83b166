"""House rules that no linter checks: sizes, names, exports, words."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.house import shared_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "wormdb"

MODULE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
INIT_LINES_MAX = 70
FILE_BYTES_MAX = 300_000
JUNK_DRAWERS = {"utils", "util", "common", "helpers", "helper", "misc", "base", "core"}
# Left-over marks, machine paths and registry addresses; built from parts so that this file passes itself.
BANNED_WORDS = [
    "TO" + "DO",
    "FIX" + "ME",
    "X" + "XX",
    "/wo" + "rk/",
    "/ro" + "ot/",
    "pypi" + ".org",
    "pythonhosted" + ".org",
    "npmjs" + ".org",
    "breakpoint" + "()",
]


def tracked() -> list[Path]:
    """Every file of the project: what git knows, or what is there when there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode == 0:
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
        return sorted(path for path in paths if path.is_file())
    return sorted(path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts)


def python_files() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def source_modules() -> list[str]:
    paths = [path for path in python_files() if path.is_relative_to(SOURCE)]
    names = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in paths]
    return sorted(name.removesuffix(".__init__") for name in names)


MODULES = frozenset(source_modules())


def own_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is not None:
        docstring = function.body[0]
        assert docstring.end_lineno is not None
        lines -= docstring.end_lineno - docstring.lineno + 1
    return lines


def test_modules_stay_small() -> None:
    too_long = {
        str(path.relative_to(ROOT)): count
        for path in python_files()
        if (count := len(path.read_text().splitlines())) > MODULE_LINES_MAX
    }
    assert too_long == {}


def test_functions_stay_small() -> None:
    too_long = {
        f"{path.relative_to(ROOT)}:{node.name}": own_lines(node)
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and own_lines(node) > FUNCTION_LINES_MAX
    }
    assert too_long == {}


def test_package_files_hold_no_logic() -> None:
    long_inits = [
        str(path.relative_to(ROOT))
        for path in python_files()
        if path.name == "__init__.py" and path != SOURCE / "__init__.py"
        if len(path.read_text().splitlines()) > INIT_LINES_MAX
    ]
    assert long_inits == []


def imported_modules(name: str) -> set[str]:
    """The modules of this package that a module names in its imports."""
    path = SOURCE.parent.joinpath(*name.split("."))
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inside = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES
            found |= inside or {node.module}
    return found & MODULES


def faces_passed(name: str) -> Iterator[tuple[str, str]]:
    """The packages that a module looks into from outside, each with what it imports there, named from that package."""
    for imported in imported_modules(name):
        parts = imported.split(".")
        for depth in range(2, len(parts)):
            package = ".".join(parts[:depth])
            if name != package and not name.startswith(f"{package}."):
                yield package, ".".join(parts[depth:])


def test_packages_are_imported_by_their_face() -> None:
    """A package whose `__init__` has PUBLIC offers these modules to all others; PUBLIC_TO adds some for one package.

    What is listed is used: a face is as small as it can be.
    """
    past, used = [], set()
    for name in sorted(MODULES):
        outside = name.split(".")[1] if "." in name else ""
        for package, module in faces_passed(name):
            face = importlib.import_module(package)
            if outside == "testing" or not hasattr(face, "PUBLIC"):
                continue
            if module in face.PUBLIC:
                used.add((package, "", module))
            elif module in getattr(face, "PUBLIC_TO", {}).get(outside, ()):
                used.add((package, outside, module))
            else:
                past.append(f"{name} imports {package}.{module}")
    assert past == [], "offer it at the face of the package, or move what is needed"
    assert sorted(offered() - used) == [], "nothing outside imports these"


def offered() -> set[tuple[str, str, str]]:
    """What faces list, the test tools aside: the package, to which other one ("" is all), the module."""
    listed = set()
    for name in MODULES - {"wormdb.testing"}:
        face = importlib.import_module(name)
        lists = {"": getattr(face, "PUBLIC", ()), **getattr(face, "PUBLIC_TO", {})}
        listed |= {(name, to, module) for to, modules in lists.items() for module in modules}
    return listed


def test_the_face_of_the_test_tools_names_all_of_them() -> None:
    from wormdb import testing

    shipped = {name.split(".")[2] for name in MODULES if name.startswith("wormdb.testing.")}
    assert set(testing.PUBLIC) == shipped
    past = [name for name in MODULES - {"wormdb.testing"} if "wormdb.testing" in " ".join(imported_modules(name))]
    assert [name for name in past if not name.startswith("wormdb.testing.")] == []


def test_no_module_is_a_junk_drawer() -> None:
    assert [path for path in python_files() if path.stem in JUNK_DRAWERS] == []


def test_no_banned_words() -> None:
    found = []
    for path in tracked():
        if path.suffix in {".parquet", ".bin", ".png"} or path.parent.name == "requirements":
            continue
        text = path.read_text(errors="replace")
        found += [f"{path.relative_to(ROOT)}: {word}" for word in BANNED_WORDS if word in text]
    assert found == []


def test_no_large_files() -> None:
    assert [path for path in tracked() if path.stat().st_size > FILE_BYTES_MAX] == []


@pytest.mark.parametrize("name", source_modules())
def test_exports_are_sorted_and_exist(name: str) -> None:
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", None)
    tree = ast.parse(Path(str(module.__file__)).read_text())
    public = {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    if exported is None:
        assert public == set() or name == "wormdb.cli.main", f"{name} defines {public} and has no __all__"
        return
    # ruff's order: CONSTANTS, Classes, functions, each alphabetical.
    groups = [[n for n in exported if n.isupper()], [n for n in exported if not n.isupper() and n[0].isupper()]]
    groups.append([n for n in exported if n[0].islower() or n.startswith("_")])
    assert list(exported) == [name for group in groups for name in sorted(group)]
    assert [entry for entry in exported if not hasattr(module, entry)] == []


def test_changelog_begins_with_this_version() -> None:
    from wormdb import __version__

    heads = re.findall(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert heads[0] in {"Unreleased", __version__}
    assert __version__ in heads or heads[0] == "Unreleased"


def test_every_ruff_ignore_says_why() -> None:
    """A rule is switched off with its reason beside it, in the configuration and in the code."""
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in python_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"# (noqa|type: ignore)(\[[a-z-]+\])?(: [A-Z0-9, ]+)?\s*$", line)
    ]
    assert bare == []


def test_no_class_name_means_two_things() -> None:
    assert shared_classes() == {}, "python -m tests.house --classes says where"
