"""A mistake as a change of a few words in one file, and the tests that must notice it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["REPOSITORY", "SOURCE", "Mutant"]

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "src" / "wormdb"


@dataclass(frozen=True)
class Mutant:
    """`old` stands once in `file` and becomes `new`; one of `tests` must then fail.

    A mutant that no test can notice has a `reason` instead: what makes it equivalent.
    """

    file: str
    """Below src/wormdb."""
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Files, or single tests, below tests/."""
    reason: str = ""

    @property
    def name(self) -> str:
        """For people: where, and what is different."""
        return f"{self.file}: {' '.join(self.old.split())} → {' '.join(self.new.split()) or 'nothing'}"

    def problem(self) -> str:
        """Why it can no longer be applied; empty if it can."""
        path = SOURCE / self.file
        if not path.exists():
            return f"{self.name}: there is no such file"
        found = path.read_text().count(self.old)
        return "" if found == 1 else f"{self.name}: the text is there {found} times: the mutant must follow the code"

    def apply(self, source: Path) -> None:
        """Change the file in a copy of the package."""
        path = source / self.file
        path.write_text(path.read_text().replace(self.old, self.new))
