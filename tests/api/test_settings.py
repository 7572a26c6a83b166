from __future__ import annotations

from typing import Any

import pytest

from wormdb.errors import InvalidRequestError
from wormdb.settings import LOG_RETENTION_MS_MIN, Settings


def test_the_defaults_are_allowed() -> None:
    assert Settings() == Settings(staleness_ms=0)


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "1", None, True])
@pytest.mark.parametrize("name", ["staleness_ms", "commit_seconds", "pool_threads", "cache_bytes", "modify_attempts"])
def test_every_setting_is_a_number_from_0_on(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequestError, match=f"setting {name}"):
        Settings(**{name: value})


@pytest.mark.parametrize("name", ["pool_threads", "tail_entries_max", "forward_entries", "block_bytes"])
def test_some_must_be_at_least_1(name: str) -> None:
    least: Any = {name: 0}
    with pytest.raises(InvalidRequestError, match="at least 1"):
        Settings(**least)


@pytest.mark.parametrize("choice", ["sometimes", "", None, 1])
def test_who_forwards_is_one_of_a_few(choice: Any) -> None:
    with pytest.raises(InvalidRequestError, match="auto, inline, background, manual"):
        Settings(forward=choice)


def test_the_log_stays_for_an_hour_at_least() -> None:
    assert Settings(log_retention_ms=LOG_RETENTION_MS_MIN).log_retention_ms == LOG_RETENTION_MS_MIN
    with pytest.raises(InvalidRequestError, match="a slow writer may still need them"):
        Settings(log_retention_ms=LOG_RETENTION_MS_MIN - 1)
