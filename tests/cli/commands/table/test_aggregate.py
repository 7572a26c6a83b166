"""worm table aggregate: the same sums in parts and in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.printed import fill, worm

if TYPE_CHECKING:
    from tests.cli.printed import Printed


@pytest.fixture(scope="module")
def shop() -> str:
    fill("memory://jobs", 200)
    return "memory://jobs"


def table(shop: str, *arguments: str) -> Printed:
    done = worm("table", *arguments, "--url", shop)
    assert done.code == 0, done.errors
    return done


def test_an_aggregation_in_parts_is_that_of_one_go(shop: str) -> None:
    for more in ([], ["--json"], ["--format", "csv"]):
        asked = ["aggregate", "Invoice", "--group-by", "status", "--count", "--sum", "total", "--avg", "total", *more]
        in_parts = table(shop, *asked, "--tasks", "3", "--progress")
        assert (in_parts.data, '"job":"aggregate"' in in_parts.errors) == (table(shop, *asked).data, True)
