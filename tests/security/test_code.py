"""No code comes out of data: the product neither unpickles nor evaluates anything, and starts no shell."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "wormdb"
MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "marshal",
    "shelve",
    "yaml",
    "jsonpickle",
    "code",
    "pty",
}
BUILTINS = {"eval", "exec", "compile", "__import__"}
CALLS = {"os.system", "os.popen", "np.load", "numpy.load", "pa.deserialize", "pandas.read_pickle", "pd.read_pickle"}
# Only a module that has one of the words is parsed: most have none.
WORDS = re.compile(
    r"\b(" + "|".join(sorted(MODULES | BUILTINS - {"compile"} | CALLS)) + r"|shell|allow_pickle)\b|(?<![.\w])compile\("
)


def files() -> list[Path]:
    found = [path for path in SOURCE.rglob("*.py") if "testing" not in path.relative_to(SOURCE).parts]
    assert len(found) > 300
    return found


def faults(tree: ast.AST) -> list[str]:
    """What stands in a module that could turn data into code."""
    found = []
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        found += [f"import of {name}" for name in names if name.partition(".")[0] in MODULES]
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called in BUILTINS | CALLS:
            found.append(f"line {node.lineno}: {called}()")
        if any(word.arg == "shell" and not _is_false(word.value) for word in node.keywords):
            found.append(f"line {node.lineno}: a shell")
        if any(word.arg == "allow_pickle" and not _is_false(word.value) for word in node.keywords):
            found.append(f"line {node.lineno}: allow_pickle")
    return found


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def test_nothing_in_the_product_turns_data_into_code() -> None:
    wrong = {}
    for path in files():
        text = path.read_text()
        if WORDS.search(text) and (found := faults(ast.parse(text))):
            wrong[str(path.relative_to(SOURCE))] = found
    assert wrong == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import a.b, marshal",
        "eval(x)",
        "exec('1')",
        "np.load(x, allow_pickle=True)",
        "subprocess.run(x, shell=True)",
        "os.system(x)",
        "def f():\n    import yaml",
    ],
)
def test_the_search_finds_what_it_looks_for(text: str) -> None:
    assert WORDS.search(text)
    assert faults(ast.parse(text))


def test_the_search_leaves_the_rest_alone() -> None:
    assert faults(ast.parse("re.compile(x)\nsubprocess.run(x, shell=False)\nself.compile(x)\nimport json")) == []
