"""A store that does not honour preconditions is refused for writing, once and for all."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Literal

import pytest

from wormdb.errors import (
    ConflictError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
)
from wormdb.storage.conditions import ensure_conditions, forget_conditions
from wormdb.storage.memory import MemoryStore
from wormdb.storage.open import open_store
from wormdb.storage.store import OCTETS, Always, IfAbsent, IfMatch, Precondition, PutResult, StoredObject
from wormdb.system.clock import SeededChance
from wormdb.system.types import Version
from wormdb.testing.fault_store import Fault, FaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Lie = Literal[
    "nothing",
    "ignores if-none-match",
    "ignores if-match",
    "refuses if-match",
    "refuses if-none-match",
    "writes and says it lost",
    "repeats versions",
    "loses answers",
    "forbids delete",
]


class LyingStore(MemoryStore):
    """A store with one fault, and a count of its requests."""

    def __init__(self, lie: Lie, name: str = "lies") -> None:
        super().__init__()
        self.lie = lie
        self.requests: Counter[str] = Counter()
        self._name = f"s3://{name}/prefix"

    def put(
        self, key: str, body: bytes, precondition: Precondition | None = None, *, content_type: str = OCTETS
    ) -> PutResult:
        self.requests["put"] += 1
        match self.lie, precondition:
            case ("ignores if-none-match", IfAbsent()) | ("ignores if-match", IfMatch()):
                return super().put(key, body, Always())
            case ("refuses if-match", IfMatch()) | ("refuses if-none-match", IfAbsent()):
                raise ConflictError("refused")
            case ("loses answers", _):
                super().put(key, body, precondition)
                raise OutcomeUnknownError("put", reason="no answer")
            case ("writes and says it lost", IfMatch()) if body.endswith(b"old version"):
                super().put(key, body, Always())
                raise ConflictError("it says")
        result = super().put(key, body, precondition)
        return PutResult(Version("same"), None) if self.lie == "repeats versions" else result

    def _judge(self, key: str, entry: object, precondition: Precondition) -> None:  # type: ignore[override] # memory's own entry type is private
        if self.lie == "repeats versions" and isinstance(precondition, IfMatch):
            return
        super()._judge(key, entry, precondition)  # type: ignore[arg-type] # see above

    def get(self, key: str) -> StoredObject:
        self.requests["get"] += 1
        return super().get(key)

    def delete(self, key: str) -> None:
        self.requests["delete"] += 1
        if self.lie == "forbids delete":
            raise PermissionDeniedError("delete")
        super().delete(key)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    forget_conditions()
    yield
    forget_conditions()


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        ("ignores if-none-match", "If-None-Match is ignored"),
        ("ignores if-match", "If-Match is ignored"),
        ("refuses if-match", "If-Match fails"),
        ("refuses if-none-match", "refused to create"),
        ("writes and says it lost", "a write that it refused"),
        ("repeats versions", "same version"),
    ],
)
def test_a_lying_store_is_refused_every_time(lie: Lie, reason: str) -> None:
    store = LyingStore(lie)
    for _ in range(2):
        with pytest.raises(UnsupportedStoreError, match=reason) as caught:
            ensure_conditions(store, SeededChance(1))
        assert "doctor" in caught.value.fix
    assert [page.objects for page in store.list()] == [()]


def test_an_honest_store_is_asked_once_and_left_clean() -> None:
    store = LyingStore("nothing")
    for _ in range(3):
        ensure_conditions(store, SeededChance(1))
    assert store.requests == {"put": 4, "get": 1, "delete": 1}
    assert [page.objects for page in store.list()] == [()]


def test_the_answer_is_kept_for_the_bucket() -> None:
    ensure_conditions(LyingStore("nothing", "one"), SeededChance(1))
    same = LyingStore("ignores if-match", "one")
    same._name = "s3://one/another/prefix"
    ensure_conditions(same, SeededChance(1))
    assert same.requests == {}
    other = LyingStore("ignores if-match", "two")
    with pytest.raises(UnsupportedStoreError):
        ensure_conditions(other, SeededChance(1))


def test_a_lost_answer_decides_nothing() -> None:
    store = LyingStore("loses answers")
    with pytest.raises(UnavailableError, match="preconditions"):
        ensure_conditions(store, SeededChance(1))
    assert [page.objects for page in store.list()] == [()]


@pytest.mark.parametrize("lost", [1, 2, 3, 4])
def test_one_lost_answer_is_asked_for_again(lost: int) -> None:
    """A commit survives a lost answer, so the question before the first one must too."""
    with MemoryStore() as inner:
        store = FaultStore(inner, {lost: Fault.ANSWER_LOST})
        ensure_conditions(store, SeededChance(1))
        assert [page.objects for page in inner.list()] == [()]


def test_a_writer_without_the_right_to_delete_may_write() -> None:
    ensure_conditions(LyingStore("forbids delete"), SeededChance(1))


def test_a_name_that_is_no_url_is_its_own_place() -> None:
    store = LyingStore("nothing")
    store._name = "my own store"
    ensure_conditions(store, SeededChance(1))
    ensure_conditions(store, SeededChance(1))
    assert store.requests["put"] == 4


def test_a_folder_keeps_its_word(tmp_path: Path) -> None:
    with open_store(str(tmp_path)) as store:
        ensure_conditions(store, SeededChance(1))
        assert [page.objects for page in store.list()] == [()]


@pytest.mark.s3
def test_the_s3_server_keeps_its_word(s3_url: str) -> None:
    with open_store(s3_url) as store:
        ensure_conditions(store, SeededChance(1))
        assert [page.objects for page in store.list()] == [()]
