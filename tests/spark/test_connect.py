"""Spark Connect: one line says what is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkRuntimeError

from tests.cli.printed import fill, worm
from wormdb.errors import MissingExtraError, UnavailableError
from wormdb.spark import session
from wormdb.spark import session as opening

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def without(patch: pytest.MonkeyPatch, package: str) -> None:
    """As if a package were not installed."""
    for name in [name for name in sys.modules if name.split(".")[0] == package or "pyspark.sql.connect" in name]:
        patch.delitem(sys.modules, name)
    patch.setitem(sys.modules, package, None)


def test_without_its_packages_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch, "grpc")
    with pytest.raises(
        MissingExtraError, match=r"Spark Connect needs packages.*grpcio.*pip install 'wormdb\[connect\]'"
    ):
        session("sc://127.0.0.1:1")
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    fill("memory://connect", 5)
    done = worm(
        "pipeline", "aggregate", "Invoice", "--count", "--master", "sc://127.0.0.1:1", "--url", "memory://connect"
    )
    assert done.code == 1
    assert done.errors.splitlines()[-1].startswith("worm: Spark Connect needs packages that are not installed: ")


class Builder:
    """A builder whose server does not answer."""

    def getOrCreate(self) -> SparkSession:  # noqa: N802 - as Spark calls it
        raise PySparkRuntimeError("no answer\nand a long story")


def test_a_server_that_does_not_answer_is_named() -> None:
    module: Any = sys.modules[opening.__module__]
    with pytest.raises(UnavailableError, match=r"Spark Connect at sc://here: no answer \(check that its server runs"):
        module._reached(Builder(), "sc://here")
