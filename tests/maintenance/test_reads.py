"""A flipped bit anywhere is noticed by whoever reads it: an error that names the object, never a wrong answer."""

from __future__ import annotations

from functools import cache

import pytest

from tests.maintenance.damage import damage
from tests.maintenance.wreck import PATHS, Answers, answers, kind_of, named, objects_by_kind, root_of, whole_world
from wormdb.errors import CorruptionError, UnsupportedFormatError
from wormdb.system.clock import SeededChance
from wormdb.system.types import LogNumber

POSITIONS = 8


def read_is_right_or_refused(key: str, at: float, mask: int) -> bool:
    """Flip a bit and read everything; whether that was refused."""
    world = whole_world()
    damage(world, key, "flip", at=at, mask=mask)
    try:
        found = answers(world)
    except (CorruptionError, UnsupportedFormatError) as error:
        return error.key == key
    assert found == right(), (key, at)
    return False


@cache
def right() -> Answers:
    return answers(whole_world())


@pytest.mark.parametrize("kind", sorted(objects_by_kind(whole_world())))
def test_bits_all_over_one_object_of_each_kind(kind: str) -> None:
    chance = SeededChance(len(kind))
    key = objects_by_kind(whole_world())[kind]
    refused = [
        read_is_right_or_refused(key, min(place / (POSITIONS - 1), 0.999), 1 << int(chance.fraction() * 8))
        for place in range(POSITIONS)
    ]
    # Lists of retired objects are not read; an applied entry neither. A look-up reads no column but `_doc`.
    if kind not in {"data retired", "applied entry"}:
        assert any(refused)
    if key == PATHS.root or "top" in kind or "page" in kind or "filter" in kind:
        assert all(refused)


def test_one_bit_of_every_object() -> None:
    chance = SeededChance(4)
    applied = PATHS.entry(LogNumber(root_of(whole_world()).applied))
    for key in named(whole_world()):
        if key.startswith(PATHS.entries) and key <= applied:
            continue  # nobody reads it again
        refused = read_is_right_or_refused(key, chance.fraction(), 1 << int(chance.fraction() * 8))
        assert refused or kind_of(key) not in {"indexes", "root", "history list", "data list"}
