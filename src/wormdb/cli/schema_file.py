"""Where commands find the schema of a project."""

from __future__ import annotations

from pathlib import Path

from wormdb.errors import InvalidRequestError

__all__ = ["DEFAULTS", "schema_file"]

DEFAULTS = (Path(".worm") / "schema.json", Path("schema.json"))


def schema_file(given: Path | None, *, fix: str) -> Path:
    """The file that was named, or else the first of the usual ones; raises InvalidRequestError. No requests."""
    found = given or next((path for path in DEFAULTS if path.is_file()), None)
    if found is None:
        raise InvalidRequestError(
            "there is no schema", reason=f"neither {DEFAULTS[0]} nor {DEFAULTS[1]} is here", fix=fix
        )
    return found
