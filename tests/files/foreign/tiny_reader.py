"""Readable files by somebody who knows only the S3WORM pages: the standard library, and no more than a page of code."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wormdb.storage.store import Store


class TinyReader:
    """Entities, the manifest and an index of one collection."""

    def __init__(self, store: Store, folder: str, file: str) -> None:
        self.store, self.folder, self.file = store, folder, file

    def entities(self) -> list[dict[str, Any]]:
        """Every entity, without what is only a file's: by a listing."""
        keys = [info.key for page in self.store.list(self.folder) for info in page.objects]
        parts = [(key, key[len(self.folder) :].split("/")) for key in keys]
        chosen = [key for key, part in parts if len(part) == 2 and part[1] == self.file and not part[0].startswith(".")]
        return sorted((self._plain(self._json(key)) for key in chosen), key=lambda each: each["id"])

    def rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the manifest, in one file or in several; checksums are right and nothing is missing."""
        meta = self._maybe(".worm.manifest/_meta.json")
        if meta is None:
            return self._checked(self._json(f"{self.folder}.worm.manifest.json"))
        names = [f"{self.folder}.worm.manifest/partition-{number}.json" for number in range(meta["partitionCount"])]
        found = {one: row for name in names for one, row in self._checked(self._json(name)).items()}
        assert len(found) == meta["totalCount"]
        return found

    def ids(self, field: str, value: str) -> list[str]:
        """The ids that an index has for a text."""
        meta = self._maybe(f".worm.index/{field}/_meta.json")
        names = [f".worm.index/{field}.json"]
        if meta is not None:
            names = [f".worm.index/{field}/partition-{number}.json" for number in range(meta["partitionCount"])]
        found = [self._json(self.folder + name)["entries"].get(value, []) for name in names]
        return sorted(one for ids in found for one in ([ids] if isinstance(ids, str) else ids))

    def _checked(self, file: dict[str, Any]) -> dict[str, dict[str, Any]]:
        text = json.dumps(file["entities"], sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert file["checksum"] == f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
        assert file["count"] == len(file["entities"])
        rows: dict[str, dict[str, Any]] = file["entities"]
        return rows

    def _maybe(self, name: str) -> Any:
        return None if self.store.probe(self.folder + name).found is None else self._json(self.folder + name)

    def _json(self, key: str) -> Any:
        return json.loads(self.store.get(key).body)

    def _plain(self, entity: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in entity.items() if name != "_rev"}
