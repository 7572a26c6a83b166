"""Records of transactions and their floor: what was written comes back, and damage is noticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import samples
from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.format.transaction import (
    TransactionRecord,
    decode_floor,
    decode_record,
    encode_floor,
    encode_record,
    floor_at,
    new_transaction_id,
    transaction_began,
)
from wormdb.settings import TRANSACTION_BYTES_MAX
from wormdb.system.clock import SeededChance
from wormdb.system.types import WriteId

IDS = st.binary(min_size=16, max_size=16).map(lambda token: WriteId(token.hex()))


@given(IDS, IDS, st.integers(0, 2**62), st.booleans(), st.lists(st.text(min_size=1, max_size=20), max_size=4))
def test_a_record_comes_back(tx: WriteId, write_id: WriteId, misc: int, committed: bool, folders: list[str]) -> None:
    record = TransactionRecord(tx=tx, write_id=write_id, misc=misc, committed=committed, participants=tuple(folders))
    body = encode_record(record)
    assert decode_record(body, name="r", transaction=tx) == record
    assert len(body) <= TRANSACTION_BYTES_MAX


@pytest.mark.parametrize("place", range(0, 181, 3))
def test_a_flipped_byte_is_noticed(place: int) -> None:
    body = bytearray(encode_record(samples.transaction_record()))
    body[place % len(body)] ^= 1
    with pytest.raises(CorruptionError):
        decode_record(bytes(body), name="r", transaction=samples.transaction_record().tx)


def test_a_record_under_the_name_of_another_transaction_is_noticed() -> None:
    with pytest.raises(CorruptionError):
        decode_record(encode_record(samples.transaction_record()), name="r", transaction="f" * 32)


def test_the_floor_comes_back_and_is_no_record() -> None:
    floor = samples.transaction_floor()
    assert decode_floor(encode_floor(floor), name="f") == floor
    with pytest.raises(CorruptionError):
        decode_floor(encode_record(samples.transaction_record()), name="f")


def test_too_many_collections_are_refused() -> None:
    folders = tuple(f"{number:0500d}/" for number in range(2_000))
    with pytest.raises(LimitExceededError):
        encode_record(TransactionRecord(tx=WriteId("0" * 32), write_id=WriteId("1" * 32), misc=1, participants=folders))


@given(st.integers(0, 2**48 - 1), st.integers(0, 2**48 - 1), st.integers(0, 2**32))
def test_ids_and_floors_sort_by_time(one: int, other: int, seed: int) -> None:
    first = new_transaction_id(one, SeededChance(seed))
    assert transaction_began(first) == one
    assert (first < floor_at(other)) == (one < other)
