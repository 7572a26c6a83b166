"""Garbage collection with the times, the listing and the deletes of a real S3 server."""

from __future__ import annotations

import pytest

import wormdb
from wormdb.maintenance.gc import collect as gc
from wormdb.maintenance.gc import jobs as gc_jobs
from wormdb.maintenance.gc import retired as gc_retired
from wormdb.settings import Settings

pytestmark = pytest.mark.s3


def test_what_is_replaced_goes_and_the_rest_stays(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(forward="manual", forward_interval_ms=0, cache_bytes=0)
    with wormdb.connect(s3_url, settings=settings) as database:
        things = database["things"]
        for number in range(9):
            things.insert({"id": f"t{number}", "n": number})
            things.forward()
        first = things.gc()
        assert first.objects == 0
        assert first.waiting > 0
        for module, name in ((gc_retired, "RETIRED_MS"), (gc, "ORPHAN_MS"), (gc_jobs, "ORPHAN_MS")):
            monkeypatch.setattr(module, name, 0)
        found = things.gc()
        assert found.objects + found.waiting == first.waiting
        assert found.bytes > 0
        for _ in range(2):  # the list of what was retired is retired itself
            things.gc()
        assert (things.gc().objects, things.gc().waiting) == (0, 0)
    with wormdb.connect(s3_url, settings=settings) as database:
        assert [one["n"] for one in database["things"].find_all(sort="n")] == list(range(9))
        (verified,) = database.verify(["things"], unreferenced=True)
        assert verified.findings == ()
