"""What is installed: the version, and optional packages with a clear error without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wormdb.errors import MissingExtraError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["EXTRAS", "Extra", "is_installed", "load"]


@dataclass(frozen=True, slots=True)
class Extra:
    """One optional part of wormdb."""

    name: str
    feature: str
    modules: tuple[str, ...]


EXTRAS: tuple[Extra, ...] = (
    Extra("connect", "Spark Connect: sc://… as a master", ("grpc", "grpc_status")),
    Extra("otel", "spans of OpenTelemetry for calls and requests", ("opentelemetry",)),
    Extra("regex", "$regex that no pattern can slow down", ("re2",)),
    Extra("server", "passwords of worm serve, and a faster loop", ("argon2", "uvloop")),
    Extra("spark", "the data pipeline on Apache Spark", ("pyspark",)),
    Extra("text", "text indexes, with the stems of a language", ("Stemmer", "numpy")),
    Extra("vector", "indexes of vectors", ("numpy", "numkong")),
)


def is_installed(extra: Extra) -> bool:
    """Whether every module of the extra can be imported; imports nothing."""
    import importlib.util

    return all(importlib.util.find_spec(module) is not None for module in extra.modules)


def load(module: str, name: str | None = None) -> ModuleType:
    """Import a module of an extra, or raise MissingExtraError naming the extra to install, any or that `name`."""
    import importlib

    extra = next(extra for extra in EXTRAS if module in extra.modules and name in {None, extra.name})
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{extra.feature} needs the package {module}",
            reason="it is not installed",
            fix=f"pip install 'wormdb[{extra.name}]'",
        ) from error


# --- The version, in one place.

__version__ = "0.1.0"
