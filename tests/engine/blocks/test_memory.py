"""The allocator of a process is changed while something large is written, and is then what it was."""

from __future__ import annotations

import pyarrow as pa

from wormdb.engine.blocks.memory import plain_memory


def test_the_pool_is_set_back_by_the_last_of_several() -> None:
    before = pa.default_memory_pool().backend_name
    first, second = plain_memory(), plain_memory()
    first.__enter__()
    second.__enter__()
    assert pa.default_memory_pool().backend_name == "system"
    first.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == "system"
    second.__exit__(None, None, None)
    assert pa.default_memory_pool().backend_name == before
