"""What Spark needs on this machine, said in one line before it fails in fifty."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.errors import MissingExtraError
from wormdb.system.installed import load

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JAVA_MIN", "PYSPARK_MIN", "check_connect", "check_java", "check_pyspark"]

JAVA_MIN = 17
PYSPARK_MIN = (4, 1)

_GET_JAVA = (
    "install Java 17: apt-get install openjdk-17-jre-headless (Debian, Ubuntu), brew install openjdk@17 (macOS), "
    "or set JAVA_HOME to one that is there"
)
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')
_ANSWER_SECONDS = 60
_CONNECT = {"grpc": "grpcio", "grpc_status": "grpcio-status", "google.rpc": "googleapis-common-protos"}
"""What its client imports, beside what Spark needs anyway; by module, the package."""


def check_pyspark() -> None:
    """Raise MissingExtraError unless pyspark can be imported and is new enough."""
    version = str(load("pyspark").__version__)
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < PYSPARK_MIN:
        raise MissingExtraError(
            "wormdb on Spark",
            reason=f"pyspark {version} is too old: it needs {PYSPARK_MIN[0]}.{PYSPARK_MIN[1]} or newer",
            fix="pip install 'wormdb[spark]'",
        )


def check_connect() -> None:
    """Raise MissingExtraError unless a session of Spark Connect can be opened from here. No requests."""
    # Not by importing Spark's own client: where that finds something missing it may end the process.
    for module, package in _CONNECT.items():
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise MissingExtraError(
                "Spark Connect needs packages that are not installed",
                reason=f"{package} cannot be imported",
                fix="pip install 'wormdb[connect]'",
            ) from error


def check_java(environment: Mapping[str, str] = os.environ) -> None:
    """Raise MissingExtraError unless the Java that Spark would start is there and new enough. Starts it once."""
    java = _java(environment)
    if java is None:
        raise MissingExtraError("Spark needs Java 17 or newer", reason=_absence(environment), fix=_GET_JAVA)
    try:
        answer = subprocess.run(  # noqa: S603 - the program that Spark is about to start itself
            [java, "-version"], capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingExtraError(
            "Spark needs Java 17 or newer", reason=f"{java} cannot be run", fix=_GET_JAVA
        ) from error
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is None:
        raise MissingExtraError(
            "Spark needs Java 17 or newer", reason=f"{java} does not tell its version", fix=_GET_JAVA
        )
    # Java 8 calls itself 1.8
    version = int(found[2] or 0) if found[1] == "1" else int(found[1])
    if version < JAVA_MIN:
        raise MissingExtraError("Spark needs Java 17 or newer", reason=f"{java} is Java {version}", fix=_GET_JAVA)


def _java(environment: Mapping[str, str]) -> str | None:
    """The program Spark's launcher would take: of JAVA_HOME if that is set, else of the search path."""
    if home := environment.get("JAVA_HOME"):
        return shutil.which(str(Path(home) / "bin" / "java"))
    return shutil.which("java", path=environment.get("PATH", ""))


def _absence(environment: Mapping[str, str]) -> str:
    home = environment.get("JAVA_HOME")
    return f"there is no java in JAVA_HOME={home}" if home else "there is no java on the search path"
