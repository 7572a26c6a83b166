"""The tables of commands and replies, through sockets, in both protocols."""

from __future__ import annotations

import pytest

from tests.server.casefile import FOLDER, CaseGroup, differences, read_groups

FILES = sorted(FOLDER.glob("*.txt"))
GROUPS = {group.name: group for path in FILES for group in read_groups(path)}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", sorted(GROUPS))
def test_every_reply_is_as_the_table_says(name: str, version: int) -> None:
    assert differences(GROUPS[name], GROUPS, version) == []


def test_the_tables_are_whole() -> None:
    groups: list[CaseGroup] = [group for path in FILES for group in read_groups(path)]
    assert len({group.name for group in groups}) == len(groups), "each group has a name of its own"
    cases = [case for group in groups for case in group.cases]
    assert [case.command for case in cases if set(case.replies) != {2, 3}] == []
    assert len(cases) >= 300
