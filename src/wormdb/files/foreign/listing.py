"""The files of documents that are there, by a listing of the whole collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.format.key import encode_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.files.foreign.site import Site

__all__ = ["Entity", "Listing", "list_entities"]


@dataclass(frozen=True, slots=True)
class Entity:
    """The file of one document: the id that its key stands for, and the key."""

    id: Any
    key: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing found."""

    keys: Mapping[bytes, Entity]
    """By the keys of ids, in their order."""
    twins: tuple[str, ...]
    """Files whose keys stand for an id that another file has too."""
    modified: int
    """When the newest of the files was written, in milliseconds; 0 for none."""
    pages: int
    """Requests that it took."""


def list_entities(site: Site) -> Listing:
    """Every file of a document; other keys are passed over. 1 LIST for each 1,000 keys of the collection."""
    found: dict[bytes, Entity] = {}
    twins: list[str] = []
    modified = pages = 0
    for page in site.store.list(site.collection):
        pages += 1
        for info in page.objects:
            identity = site.identity_of(info.key)
            if identity is None:
                continue
            key = encode_key(identity)
            if key in found:
                twins.append(info.key)
                continue
            found[key] = Entity(identity, info.key)
            modified = max(modified, info.modified)
    return Listing(dict(sorted(found.items())), tuple(twins), modified, max(pages, 1))
