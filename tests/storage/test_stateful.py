"""Memory and local folder against a plain dict, step by step."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from wormdb.errors import AlreadyExistsError, ConflictError, NotFoundError, WormError
from wormdb.storage.folder.store import LocalStore
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import Always, ByteRange, IfAbsent, IfMatch
from wormdb.system.clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Precondition, Store
    from wormdb.system.types import Version

# No key is another's folder: a folder on disk cannot be both.
KEYS = st.sampled_from(["a-b", "a/b", "a/c/d", "a/c/e", "a0", "b/é", "b/z", ".worm", "c d/%2F"])
NAMES = st.sampled_from(["", "a", "a-b", "a/", "a/b", "a/c", "a/c/", "a/c/d", "b/é", "b/😀", "zz", "c d/%"])
PREFIXES = st.sampled_from(["", "a/", "a/c/", "b/", "none/"])
BODIES = st.binary(max_size=20)


class StoreMachine(RuleBasedStateMachine):
    """Both stores must answer as the dict does; the versions each gave are remembered for IfMatch."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.mkdtemp()
        self.stores: tuple[Store, ...] = (MemoryStore(), LocalStore(self.folder, clock=ManualClock()))
        self.model: dict[str, tuple[bytes, int]] = {}
        self.writes = 0
        self.versions: dict[int, tuple[Version, ...]] = {}

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

    def both(self, call: Callable[[Store, int], Any]) -> list[Any]:
        """What both stores return, or the class of the error."""
        results: list[Any] = []
        for index, store in enumerate(self.stores):
            try:
                results.append(call(store, index))
            except WormError as error:
                results.append(type(error))
        return results

    def write(self, key: str, body: bytes, make: Callable[[int], Precondition], expected: type | None) -> None:
        results = self.both(lambda store, index: store.put(key, body, make(index)).version)
        if expected is not None:
            assert results == [expected, expected]
            return
        assert all(isinstance(version, str) for version in results)
        known = {version for versions in self.versions.values() for version in versions}
        assert not known & set(results), "a version came back"
        self.writes += 1
        self.versions[self.writes] = tuple(results)
        self.model[key] = (body, self.writes)

    @rule(key=KEYS, body=BODIES)
    def put_always(self, key: str, body: bytes) -> None:
        self.write(key, body, lambda _: Always(), None)

    @rule(key=KEYS, body=BODIES)
    def put_if_absent(self, key: str, body: bytes) -> None:
        self.write(key, body, lambda _: IfAbsent(), AlreadyExistsError if key in self.model else None)

    @rule(key=KEYS, body=BODIES)
    def put_if_match_current(self, key: str, body: bytes) -> None:
        if key in self.model:
            current = self.versions[self.model[key][1]]
            self.write(key, body, lambda index: IfMatch(current[index]), None)

    @rule(key=KEYS, body=BODIES, back=st.integers(0, 30))
    def put_if_match_any(self, key: str, body: bytes, back: int) -> None:
        number = self.writes - back
        if number in self.versions:
            is_current = key in self.model and self.model[key][1] == number
            versions = self.versions[number]
            self.write(key, body, lambda index: IfMatch(versions[index]), None if is_current else ConflictError)

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        assert self.both(lambda store, _: store.delete(key)) == [None, None]
        self.model.pop(key, None)

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete_many(self, keys: list[str]) -> None:
        assert self.both(lambda store, _: store.delete_many(keys)) == [None, None]
        for key in keys:
            self.model.pop(key, None)

    @rule(key=KEYS, start=st.integers(0, 25), length=st.integers(0, 25))
    def read(self, key: str, start: int, length: int) -> None:
        found = self.both(lambda store, _: store.get(key).body)
        ranged = self.both(lambda store, _: store.get_range(key, ByteRange(start, length)))
        sizes = self.both(lambda store, _: store.head(key).size)
        if key not in self.model:
            assert found == ranged == sizes == [NotFoundError, NotFoundError]
            return
        body, number = self.model[key]
        assert found == [body, body]
        assert ranged == [body[start : start + length]] * 2
        assert sizes == [len(body)] * 2
        assert tuple(self.both(lambda store, _: store.get(key).version)) == self.versions[number]

    @rule(prefix=PREFIXES, after=NAMES, delimiter=st.sampled_from([None, "/"]))
    def list_some(self, prefix: str, after: str, delimiter: Literal["/"] | None) -> None:
        below = [key for key in self.model if key.startswith(prefix)]
        names = below
        if delimiter:
            names = [prefix + key[len(prefix) :].split("/")[0] + "/" * ("/" in key[len(prefix) :]) for key in below]
        expected = sorted({name for name in names if name.encode() > after.encode()}, key=str.encode)
        for store in self.stores:
            pages = list(store.list(prefix, after=after, delimiter=delimiter))
            objects = [info.key for page in pages for info in page.objects]
            prefixes = [name for page in pages for name in page.prefixes]
            assert objects == [name for name in expected if not name.endswith("/")]
            assert prefixes == [name for name in expected if name.endswith("/")]

    @invariant()
    def the_same_objects_are_listed(self) -> None:
        expected = [(key, len(self.model[key][0])) for key in sorted(self.model, key=str.encode)]
        for store in self.stores:
            assert [(info.key, info.size) for page in store.list() for info in page.objects] == expected


StoreMachine.TestCase.settings = settings(stateful_step_count=25)
TestStores = StoreMachine.TestCase
