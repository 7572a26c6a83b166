"""Who makes a change, and why: kept with every change, in the feed and in history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.settings import ACTOR_BYTES_MAX, METADATA_BYTES_MAX

__all__ = ["Author"]


@dataclass(frozen=True, slots=True)
class Author:
    """An actor, and metadata of any kind that documents can hold. A value; checked when it is made."""

    actor: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, actor: str | None, metadata: Mapping[str, Any] | None = None) -> Author:
        """Raises InvalidRequestError for a bad actor or bad metadata. No requests."""
        return cls(_checked_actor(actor), _checked_metadata(metadata))

    def but(self, actor: str | None, metadata: Mapping[str, Any] | None) -> Author:
        """Another actor if one is given, and more metadata; what is given wins. Raises as `of`. No requests."""
        if actor is None and metadata is None:
            return self
        given = Author.of(actor, metadata)
        return Author(given.actor or self.actor, _within_limit({**self.metadata, **given.metadata}))

    def noting(self, **facts: Any) -> Author:
        """With more metadata, of ours, which wins. No requests."""
        return Author(self.actor, {**self.metadata, **facts})

    @property
    def meta(self) -> bytes | None:
        """The metadata as extended JSON; None if there is none."""
        return _encoded(dict(self.metadata)) if self.metadata else None


def _checked_actor(actor: str | None) -> str | None:
    if actor is None:
        return None
    fix = "give a name, or none"
    try:
        size = len(actor.encode())
    except (AttributeError, UnicodeEncodeError) as error:
        raise InvalidRequestError(f"actor {actor!r}", reason="it must be a string", fix=fix) from error
    if size == 0:
        raise InvalidRequestError("actor ''", reason="it is empty", fix=fix)
    if size > ACTOR_BYTES_MAX:
        raise LimitExceededError(
            f"actor of {size:,} bytes", reason=f"it may have {ACTOR_BYTES_MAX:,}", fix="give a shorter name"
        )
    return actor


def _checked_metadata(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise InvalidRequestError(
            f"metadata of type {type(metadata).__name__}", reason="it must be a mapping", fix="give a dict, or none"
        )
    from wormdb.format.values import normalize_document  # few callers give any

    return _within_limit(normalize_document(metadata))


def _within_limit(metadata: dict[str, Any]) -> dict[str, Any]:
    size = len(_encoded(metadata))
    if size > METADATA_BYTES_MAX:
        raise LimitExceededError(
            f"metadata of {size:,} bytes",
            reason=f"it is kept with every change, and may have {METADATA_BYTES_MAX:,}",
            fix="put it into a document, and name that",
        )
    return metadata


def _encoded(metadata: dict[str, Any]) -> bytes:
    from wormdb.format import json  # few callers give metadata

    return json.encode_document(metadata)
