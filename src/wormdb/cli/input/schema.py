"""Where commands find the schema of a project."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from wormdb.errors import InvalidRequestError

__all__ = ["DEFAULTS", "folder_of", "model_name", "path_to", "schema_file"]

DEFAULTS = (Path(".worm") / "schema.json", Path("schema.json"))


def schema_file(given: Path | None, *, fix: str) -> Path:
    """The file that was named, or else the first of the usual ones; raises InvalidRequestError. No requests."""
    found = given or next((path for path in DEFAULTS if path.is_file()), None)
    if found is None:
        raise InvalidRequestError(
            "there is no schema", reason=f"neither {DEFAULTS[0]} nor {DEFAULTS[1]} is here", fix=fix
        )
    return found


# --- Names of models, and of the folders that hold their documents.

_WORD: Final = re.compile(r"[A-Za-z0-9]+", re.ASCII)
_PLAIN: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_-])?", re.ASCII)


def model_name(text: str) -> str:
    """The name of one of what a file or folder holds: `order-items` gives OrderItem."""
    words = [word[0].upper() + word[1:] for word in _WORD.findall(text)]
    if not words:
        return "Record"
    return "".join([*words[:-1], _single(words[-1])])


def _single(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 2 else word


def folder_of(model: str) -> str:
    """The folder of the documents of a model: OrderItem gives order-items."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", "-".join(_WORD.findall(model))).lower() or "records"
    if words.endswith("y") and words[-2:-1] not in set("aeiou"):
        return words[:-1] + "ies"
    return words if words.endswith("s") else words + "s"


def path_to(folder: str) -> str | None:
    """The path that leads to a folder, `#org/@people` for `org/people`; None if none can."""
    *outer, last = folder.strip("/").split("/")
    if not all(_PLAIN.fullmatch(part) for part in (*outer, last)):
        return None
    return "/".join([*(f"#{part}" for part in outer), f"@{last}"])
