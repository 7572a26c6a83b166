"""Errors, settings, calls and faults that pages name exist, under the names of today."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING

import pytest

import wormdb
from tests.docs.pages import PAGES, ROOT, named, prose
from wormdb import errors
from wormdb.testing.fault_store import Fault

if TYPE_CHECKING:
    from pathlib import Path

# What changed names the old with the new.
CURRENT = [page for page in PAGES if page.name != "CHANGELOG.md"]
SETTINGS = {field.name for field in fields(wormdb.Settings)}
CALLS = re.compile(r"`(?:wormdb\.)?(Collection|Database|Query|Settings)\.(\w+)")


@pytest.mark.parametrize("page", CURRENT, ids=named)
def test_errors_exist(page: Path) -> None:
    told = set(re.findall(r"`(?:wormdb\.)?([A-Z]\w+Error)\b", prose(page)))
    assert sorted(name for name in told if not hasattr(errors, name)) == []


@pytest.mark.parametrize("page", CURRENT, ids=named)
def test_calls_and_settings_exist(page: Path) -> None:
    told = set(CALLS.findall(prose(page)))
    assert sorted((kind, name) for kind, name in told if name not in {*dir(getattr(wormdb, kind)), *SETTINGS}) == []


@pytest.mark.parametrize("page", CURRENT, ids=named)
@pytest.mark.filterwarnings("error::DeprecationWarning")
def test_no_page_uses_an_old_name(page: Path) -> None:
    for name in set(re.findall(r"`wormdb\.([A-Z]\w+)", prose(page))):
        assert hasattr(wormdb, name)


def test_every_fault_is_described() -> None:
    told = re.findall(r"`([A-Z]+_[A-Z0-9_]+)`", prose(ROOT / "docs" / "how-to" / "test-with-faults.md"))
    assert {*told} == {*Fault.__members__}
