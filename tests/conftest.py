"""Fixtures for every test: hypothesis profiles here; the S3 server in tests/s3_server.py."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.s3_server import s3_server, s3_url

__all__ = ["s3_server", "s3_url"]

# Tests start many processes: where nobody may keep bytecode, each of them would compile the whole package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Fast by default; WORMDB_HYPOTHESIS=long searches for minutes, as the nightly run does.
settings.register_profile(
    "fast", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("WORMDB_HYPOTHESIS", "fast"))
