"""What every store promises of objects that are written in parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from wormdb.settings import UPLOAD_PART_BYTES
from wormdb.storage.store import ByteRange, Store

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["GeneratedBytes", "UploadContract"]


@dataclass(slots=True)
class GeneratedBytes:
    """Bytes that are made when they are asked for, no two KiB of them alike."""

    size: int
    part: int = UPLOAD_PART_BYTES
    breaks_at: int | None = None
    """Before which part an error comes."""

    def parts(self) -> Iterator[bytes]:
        """All of them, from the beginning."""
        for number, start in enumerate(range(0, self.size, self.part)):
            if number == self.breaks_at:
                raise BrokenPipeError
            yield self.between(start, min(start + self.part, self.size))

    def between(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`."""
        first = start // 1024
        body = b"".join(number.to_bytes(8, "big") * 128 for number in range(first, -(-stop // 1024)))
        return body[start - first * 1024 : stop - first * 1024]


class UploadContract:
    """Objects in parts."""

    @pytest.mark.parametrize("size", [0, 5, UPLOAD_PART_BYTES, 2 * UPLOAD_PART_BYTES + 7])
    def test_an_upload_is_the_object(self, store: Store, other_handle: Store, size: int) -> None:
        """Nothing, less than a part, exactly one, and several with a short last one."""
        source = GeneratedBytes(size)
        store.upload("in/parts", source, content_type="image/png")
        assert other_handle.head("in/parts").size == size
        assert other_handle.get_range("in/parts", ByteRange(max(size - 9, 0), 100)) == source.between(
            max(size - 9, 0), size
        )
        if size > UPLOAD_PART_BYTES:
            around = ByteRange(UPLOAD_PART_BYTES - 5, 10)
            assert other_handle.get_range("in/parts", around) == source.between(around.start, around.stop)

    def test_an_upload_replaces(self, store: Store, other_handle: Store) -> None:
        """It is unconditional."""
        store.put("twice", b"a longer first one")
        store.upload("twice", GeneratedBytes(5))
        assert other_handle.get("twice").body == GeneratedBytes(5).between(0, 5)

    def test_an_upload_that_breaks_off_leaves_nothing(self, store: Store, other_handle: Store) -> None:
        """What was there stays."""
        store.put("kept", b"before")
        with pytest.raises(Exception):  # noqa: B017 - each store tells it in its own way
            store.upload("kept", GeneratedBytes(2 * UPLOAD_PART_BYTES, breaks_at=1))
        assert other_handle.get("kept").body == b"before"
