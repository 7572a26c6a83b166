"""The root after another one: a revision and a write id of its own, and what it no longer names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from wormdb.engine.log.objects import NewObject
from wormdb.engine.state.moments import following_dates
from wormdb.engine.state.trim import is_held, with_mark
from wormdb.format.root import ObjectRef, RetiredList, RetiredObject, encode_retired
from wormdb.settings import RETIRED_INLINE_MAX
from wormdb.system.clock import new_write_id
from wormdb.system.types import Misc

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.log.objects import ObjectWriter
    from wormdb.engine.log.paths import EnginePaths
    from wormdb.engine.log.root import RootState
    from wormdb.format.entry import Entry
    from wormdb.format.root import Root

__all__ = ["following_root"]


def following_root(
    current: RootState,
    root: Root,
    retired: Sequence[str] | Mapping[str, int],
    writer: ObjectWriter,
    paths: EnginePaths,
    entries: Sequence[Entry] = (),
) -> Root:
    """`root` as what follows the one that was read; `retired` are whole keys, `entries` those that it applies more.

    1 PUT if too many are retired.

    As a mapping they come with the entry that needs each until it is trimmed, or 0. Raises UnavailableError.
    """
    revision = root.revision + 1
    needed = retired if isinstance(retired, Mapping) else dict.fromkeys(retired, 0)
    listed = root.retired + tuple(
        RetiredObject(name=key.removeprefix(paths.folder), revision=revision, log=number)
        for key, number in needed.items()
    )
    older = root.retired_older
    if len(listed) > RETIRED_INLINE_MAX:
        name = writer.new_name()
        body = encode_retired(RetiredList(retired=listed, older=older), identity=name)
        writer.put(NewObject(paths.retired(name), body))
        older, listed = ObjectRef.of(name, body), ()
    writer.misc.observe(Misc(root.misc))
    misc = writer.misc.next()
    return msgspec.structs.replace(
        root,
        revision=revision,
        write_id=new_write_id(writer.chance),
        misc=misc,
        dated=following_dates(current.root, entries, root.applied, misc),
        entered=entries[-1].misc if entries else root.entered,
        marks=with_mark(current.root, current.time),
        removed_at=root.removed_at if is_held(root, current.time) else None,
        retired=listed,
        retired_older=older,
    )
