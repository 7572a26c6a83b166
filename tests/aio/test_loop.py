"""Calls that are not awaited do little: what they need is imported before, in a thread."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from wormdb import aio

async def run():
    async with aio.connect("memory://") as db:
        before = set(sys.modules)
        things = db["things"]
        calls = {
            "db[name]": lambda: db["other"],
            "find": lambda: db["things"].find({"a": {"$gt": 1}}, sort="a", limit=2, select=["a"]),
            "query": lambda: things.query().eq("a", 1).sort("-a"),
            "with_options": lambda: things.with_options(stale_ms=5),
            "batch": things.batch,
            "watch": things.watch,
            "scan": things.scan,
            "transaction": db.transaction,
            "as_actor": lambda: db.as_actor("ada"),
        }
        for name, call in calls.items():
            call()
            print(name, sorted(module for module in set(sys.modules) - before if module.startswith("wormdb")))

asyncio.run(run())
"""


def test_a_call_that_is_not_awaited_imports_nothing() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 9
    assert [line for line in lines if not line.endswith(" []")] == []
