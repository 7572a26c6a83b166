"""What a caller may give to open a database or a collection, checked before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import Settings
from wormdb.storage.store import Store, check_key
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from wormdb.engine.forward.keeper import ForwardMode

__all__ = ["bucket_of", "check_options", "folder_of", "forward_mode"]


def bucket_of(url: str) -> str:
    """The name of the bucket or folder that a database is in, without secrets and prefixes."""
    scheme, _, rest = url.partition("://")
    names = [name for name in rest.split("?")[0].split("/") if name]
    if not names:
        return scheme
    return names[-1] if scheme == "file" else names[0]


def folder_of(name: str) -> str:
    """The folder of a collection without a schema; raises InvalidRequestError."""
    if not isinstance(name, str):
        raise InvalidRequestError(f"collection {name!r}", reason="a name is text", fix="use db.model(…) for a class")
    if not all(part and not part.startswith(".") for part in name.split("/")):
        raise InvalidRequestError(
            f"collection {name!r}",
            reason="a name is one or more parts joined by /, none of them empty or beginning with a dot",
        )
    try:
        check_key(EnginePaths.of_collection(f"{name}/").entry(LogNumber(1)))
    except InvalidRequestError as error:
        is_long = isinstance(error, LimitExceededError)
        fix = "use a shorter name" if is_long else "use letters, digits, -, _ and /"
        raise type(error)(f"collection {name[:100]!r}", reason=error.reason, fix=fix) from error
    return f"{name}/"


def check_options(url: object, settings: object, hook: object) -> None:
    """Refuse what a missing environment variable or a wrong type would quietly turn into something else."""
    if not isinstance(url, str | Path | Store):
        raise InvalidRequestError(
            f"connect({url!r})",
            reason=f"the place of a database is text, a Path or a Store, not {type(url).__name__}",
            fix='name a folder, or a URL such as "s3://bucket/prefix"',
        )
    if settings is not None and not isinstance(settings, Settings):
        raise InvalidRequestError(
            f"settings of type {type(settings).__name__}", reason="they are no Settings", fix="give wormdb.Settings(…)"
        )
    if hook is not None and not callable(hook):
        raise InvalidRequestError(f"hook {hook!r}", reason="it cannot be called", fix="give a function of one argument")


def forward_mode(settings: Settings, *, is_distant: bool) -> ForwardMode:
    """Who forwards: a process that is alone does it where it costs nobody a wait."""
    if settings.forward != "auto":
        return settings.forward
    return "background" if is_distant else "inline"
