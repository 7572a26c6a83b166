"""worm table list: what it prints, in the shape that the seeds show."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.cli.printed import worm

if TYPE_CHECKING:
    from pathlib import Path


def test_list_looks_as_in_the_seed(shop: str) -> None:
    printed = worm("table", "list", "--url", shop)
    assert printed.code == 0
    assert printed.timeless == (
        "Model              Count  Manifest    Indexes               Last Updated\n"
        "--------------  --------  ----------  --------------------  ----------------------\n"
        "Customer           1,423  fresh       status, email, tags   2026-02-24T14:30:00Z\n"
        "Invoice               40  n/a         --                    2026-02-24T14:30:00Z\n"
        "OrgSettings            0  n/a         --                    2026-02-24T14:30:00Z\n"
        "notes                  2  n/a         --                    2026-02-24T14:30:00Z\n"
        "org/acme/users         1  n/a         --                    2026-02-24T14:30:00Z\n"
    )


def test_list_for_programs(shop: str) -> None:
    customer, *others = json.loads(worm("table", "list", "--url", shop, "--json").text)
    assert (customer["model"], customer["count"], customer["lagEntries"]) == ("Customer", 1423, 0)
    assert customer["indexes"][1] == {"name": "byEmail", "fields": ["email"], "unique": True, "state": "ready"}
    assert [each["model"] for each in others] == ["Invoice", "OrgSettings", "notes", "org/acme/users"]


def test_nothing_to_list(tmp_path: Path) -> None:
    assert worm("table", "list", "--url", str(tmp_path)).text == "no collections\n"
