"""What it is like to find one's way here, in figures: python -m tests.house.

Prints how the tree is cut (entries, modules, lines that only import), which modules and functions a warm `save` and
cached `find`s go through, which class names mean two things, and which words of the old dialect are left.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import wormdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

REPOSITORY = Path(__file__).parents[1]
SOURCE = REPOSITORY / "src" / "wormdb"
MODULE_LINES_MAX = 600
DIALECT = ("nobody", "whoever", "so many", "it is no ")
"""Words that a plain sentence does without."""


@dataclass(frozen=True)
class Walk:
    """Where one call went."""

    modules: tuple[str, ...]
    """In the order in which they were first entered."""
    functions: int

    @classmethod
    def of(cls, call: Callable[[], object]) -> Walk:
        """Follow a call in this thread."""
        modules: dict[str, None] = {}
        functions: set[tuple[str, str]] = set()

        def look(frame: FrameType, event: str, _: object) -> None:
            file = frame.f_code.co_filename
            if event == "call" and file.startswith(str(SOURCE)):
                modules[file.removeprefix(f"{SOURCE}/")] = None
                functions.add((file, frame.f_code.co_qualname))

        sys.setprofile(look)
        try:
            call()
        finally:
            sys.setprofile(None)
        return cls(tuple(modules), len(functions))


def saved() -> Walk:
    """A warm save of a document that was read: no schema, in memory."""
    with wormdb.connect("memory://house-save", settings=wormdb.Settings(forward="manual")) as db:
        things = db["things"]
        things.insert({"id": "a", "n": 0})
        walks = []
        for number in (1, 2):
            document = things.find_by_id("a")
            assert document is not None
            document["n"] = number
            walks.append(Walk.of(partial(things.save, document)))
    return walks[-1]


def found(count: int) -> Walk:
    """A `find` by an indexed field, its plan known and everything kept from the times before.

    Of few documents the planner scans the column, of many it uses the index.
    """
    with wormdb.connect(f"memory://house-find-{count}", settings=wormdb.Settings(forward="manual")) as db:
        things = db["things"]
        things.create_index("n")
        things.insert_many([{"id": str(number), "n": number} for number in range(count)])
        db.forward()
        walks = [Walk.of(lambda: list(things.find({"n": 7}))) for _ in range(5)]  # until nothing more is kept
    return walks[-1]


def fewest(modules: Iterable[str]) -> int:
    """How many modules hold the lines of these, if none is over 600 lines and none has lines of two packages."""
    lines: Counter[str] = Counter()
    for module in modules:
        lines[str(Path(module).parent)] += len((SOURCE / module).read_text().splitlines())
    return sum(-(-count // MODULE_LINES_MAX) for count in lines.values())


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Every module of the package."""
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text())


def import_share() -> tuple[int, int]:
    """Lines that only import, and lines of code: neither blank, nor a comment, nor a docstring."""
    imports = code = 0
    for path, tree in trees():
        lines = path.read_text().splitlines()
        left_out = {number for number, line in enumerate(lines, 1) if not line.strip() or line.strip().startswith("#")}
        mine: set[int] = set()
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                left_out.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
            if isinstance(node, ast.Import | ast.ImportFrom):
                mine.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        code += len(lines) - len(left_out)
        imports += len(mine - left_out)
    return imports, code


def shared_classes() -> dict[str, list[str]]:
    """Class names that several modules give to different things."""
    by_name: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                by_name[node.name].append(str(path.relative_to(SOURCE)))
    return {name: places for name, places in sorted(by_name.items()) if len(places) > 1}


def dialect() -> Counter[str]:
    """How often each of its words stands in code and docs."""
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    texts += [path.read_text() for path in (REPOSITORY / "docs").rglob("*.md")]
    texts += [path.read_text() for path in REPOSITORY.glob("*.md")]
    return Counter(
        {word: sum(len(re.findall(rf"\b{word}", text, re.IGNORECASE)) for text in texts) for word in DIALECT}
    )


def figures(*, walks: bool, classes: bool) -> Iterator[str]:
    """All of it, line by line."""
    entries = [path for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()]
    modules = [path for path, _ in trees() if path.name != "__init__.py"]
    imports, code = import_share()
    yield f"entries at the root: {len(entries)}; modules: {len(modules)}; lines of code: {code:,}"
    yield f"imports: {imports / code:.1%} of code lines"
    yield f"modules under 60 lines: {sum(len(path.read_text().splitlines()) < 60 for path in modules)}"
    walked = (
        ("a warm save", saved()),
        ("a cached find of 200, by columns", found(200)),
        ("a cached find of 20,000, by the index", found(20_000)),
    )
    for name, walk in walked:
        yield f"{name}: {len(walk.modules)} modules, {walk.functions} functions"
        if walks:
            yield from (f"    {module}" for module in walk.modules)
        yield f"    at least {fewest(walk.modules)}, if each package packed its lines into modules of 600"
    shared = shared_classes()
    yield f"class names that are used twice: {len(shared)}, by {sum(map(len, shared.values()))} classes"
    if classes:
        yield from (f"    {name}: {', '.join(places)}" for name, places in shared.items())
    yield "words of the dialect: " + ", ".join(f"{word.strip()} {count}" for word, count in dialect().items())


def main() -> None:
    """Print all of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--walks", action="store_true", help="name the modules of all walks, in order")
    options.add_argument("--classes", action="store_true", help="name the classes that share a name")
    chosen = options.parse_args()
    lines = list(figures(walks=chosen.walks, classes=chosen.classes))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
