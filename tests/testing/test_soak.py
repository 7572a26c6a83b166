"""The soak itself: it runs what there is, and tells what failed with the command that shows it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests import soak
from tests.soak import PROPERTIES, REPOSITORY, Command, Part, Soak, parts

if TYPE_CHECKING:
    import pytest


def test_every_part_names_what_exists() -> None:
    words = [word for part in parts() for word in part.command(5).words] + [
        path for each in PROPERTIES for path in each
    ]
    for path in {word.partition("::")[0] for word in words if word.startswith("tests/")}:
        assert (REPOSITORY / path).exists(), path
    for path, _, test in {word.partition("::") for word in words if "::" in word}:
        assert f"def {test}(" in (REPOSITORY / path).read_text()


def test_a_failure_is_told_with_its_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fine = Part("fine", "runs", 1, lambda seed: Command(("-c", "pass")))
    bad = Part("bad", "seeds", 3, lambda seed: Command(("-c", f"raise SystemExit('no: {seed}')"), {"A": "1"}))
    monkeypatch.setattr(soak, "parts", lambda: [fine, bad])

    def lane(run: Soak) -> None:
        run.take(fine)
        run.take(bad)

    monkeypatch.setattr(Soak, "lane", lane)
    assert soak.main(["--minutes", "1", "--lanes", "1"]) == 1
    told = capsys.readouterr().out
    assert "fine: 1 runs in" in told
    assert "bad: 3 seeds in" in told
    assert "again: A=1 python -c raise SystemExit" in told
    assert "no: " in told
