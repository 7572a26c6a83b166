from __future__ import annotations

from hashlib import sha256
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden import later_samples, list_samples, samples
from wormdb.errors import CorruptionError, LimitExceededError, UnsupportedFormatError
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange, decode_entry, encode_entry, entry_hash
from wormdb.format.event import EVENT_KINDS, FilesSwitched, Nothing
from wormdb.format.frame import FrameKind, decode_frame, encode_frame
from wormdb.settings import ENTRY_BYTES_MAX, INT_MAX
from wormdb.system.types import WriteId

ids = st.binary(min_size=16, max_size=16).map(lambda raw: WriteId(raw.hex()))
documents = st.binary(max_size=60)
changes = st.one_of(
    st.builds(LoggedChange, id=documents, seq=st.integers(1, INT_MAX), after=documents, before=st.none() | documents),
    st.builds(LoggedChange, id=documents, seq=st.integers(1, INT_MAX), after=st.none(), before=documents),
)
batches = st.builds(
    LoggedBatch,
    id=ids,
    actor=st.none() | st.text(max_size=10),
    meta=st.none() | documents,
    changes=st.lists(changes, max_size=3).map(tuple),
)
entries = st.builds(
    Entry,
    number=st.integers(1, INT_MAX),
    write_id=ids,
    misc=st.integers(0, INT_MAX),
    node=st.integers(0, 255),
    previous=st.binary(min_size=32, max_size=32),
    batches=st.lists(batches, min_size=1, max_size=3).map(tuple),
    events=st.lists(st.sampled_from(samples.entry().events), max_size=3).map(tuple),
)


def decode(data: bytes, number: int = 7) -> Entry:
    return decode_entry(data, name="committed/7", number=number, collection=samples.COLLECTION)


def crafted(message: object, number: int = 7) -> bytes:
    """An entry with any payload, in a right frame."""
    return encode_frame(
        FrameKind.ENTRY,
        version=1,
        identity=f"{samples.COLLECTION}/{number}",
        payload=msgspec.msgpack.encode(message),
    )


def plain(entry: Entry) -> dict[str, Any]:
    value = msgspec.msgpack.decode(msgspec.msgpack.encode(entry))
    assert isinstance(value, dict)
    return value


@given(entries)
def test_entries_come_back(entry: Entry) -> None:
    data = encode_entry(entry, collection="log")
    back = decode_entry(data, name="x", number=entry.number, collection="log")
    assert back == entry
    assert encode_entry(back, collection="log") == data


def test_every_kind_of_event_comes_back() -> None:
    entry = samples.entry()
    assert decode(encode_entry(entry, collection=samples.COLLECTION)) == entry
    streamed = samples.streamed_entry()
    assert decode(encode_entry(streamed, collection=samples.COLLECTION), number=streamed.number) == streamed
    function = samples.function_entry()
    assert decode(encode_entry(function, collection=samples.COLLECTION), number=function.number) == function
    transactions = samples.transaction_entry()
    assert decode(encode_entry(transactions, collection=samples.COLLECTION), number=11) == transactions
    lists = list_samples.list_entry()
    assert decode(encode_entry(lists, collection=samples.COLLECTION), number=12) == lists
    erasing = samples.erasing_entry()
    assert decode(encode_entry(erasing, collection=samples.COLLECTION), number=12) == erasing
    expiry = samples.expiry_entry()
    assert decode(encode_entry(expiry, collection=samples.COLLECTION), number=11) == expiry
    retaining = later_samples.retaining_entry()
    assert decode(encode_entry(retaining, collection=samples.COLLECTION), number=11) == retaining
    known = (*entry.events, *streamed.events, *function.events, *transactions.events)
    seen = (*known, *lists.events, *erasing.events, *expiry.events, *retaining.events)
    assert {event.__struct_config__.tag for event in seen} == EVENT_KINDS


def test_names_on_the_wire_are_stable() -> None:
    message = plain(samples.entry())
    assert set(message) == {"n", "w", "t", "o", "p", "b", "e"}
    assert set(message["b"][0]) == {"i", "a", "m", "c"}
    assert ["".join(change) for change in message["b"][0]["c"]] == ["isa", "isbap", "isbt", "isao", "iso", "isb"]


def test_equal_entries_give_equal_bytes() -> None:
    one, other = samples.entry(), samples.entry()
    assert one is not other
    assert encode_entry(one, collection="c") == encode_entry(other, collection="c")
    assert encode_entry(one, collection="c") != encode_entry(one, collection="d")


def test_the_hash_is_of_the_stored_bytes() -> None:
    data = encode_entry(samples.small_entry(), collection="c")
    assert entry_hash(data) == sha256(data).digest()


def test_an_entry_of_another_slot_or_log_is_noticed() -> None:
    data = encode_entry(samples.entry(), collection=samples.COLLECTION)
    with pytest.raises(CorruptionError, match="should be") as caught:
        decode(data, number=8)
    assert caught.value.key == "committed/7"
    with pytest.raises(CorruptionError, match="should be"):
        decode_entry(data, name="x", number=7, collection="another")


def test_fields_of_a_newer_minor_are_ignored() -> None:
    message = plain(samples.entry())
    message["zz"] = {"anything": [1, 2]}
    message["b"][0]["zz"] = 5
    message["e"][0]["zz"] = 5
    assert decode(crafted(message)) == samples.entry()


def test_an_unknown_event_is_never_left_out() -> None:
    message = plain(samples.entry())
    message["e"].append({"k": "blob.melt", "x": 1})
    with pytest.raises(UnsupportedFormatError, match=r"blob\.melt") as caught:
        decode(crafted(message))
    assert caught.value.key == "committed/7"


@pytest.mark.parametrize(
    "damage",
    [
        {"n": 8},
        {"n": 0},
        {"n": -7},
        {"n": "7"},
        {"w": "short"},
        {"w": "G" * 32},
        {"o": 256},
        {"t": -1},
        {"t": 2**63},
        {"p": b"short"},
        {"b": 5},
        {"b": [{"i": "0" * 32, "c": [{"i": b"x", "s": 1}]}]},
        {"b": [{"i": "0" * 32, "c": [{"i": b"x", "s": 0, "a": b""}]}]},
        {"e": [{"k": "mode"}]},
        {"e": [{"k": 5}]},
        {"e": [5]},
        {"e": [{}]},
        {"b": [], "e": []},
    ],
)
def test_values_out_of_range_are_corruption(damage: dict[str, Any]) -> None:
    with pytest.raises(CorruptionError) as caught:
        decode(crafted({**plain(samples.entry()), **damage}))
    assert caught.value.key == "committed/7"


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x81\xa1n", b"\x91" * 3000, b"\x81\xa1w\xa2\xff\xfe", b"\x80"])
def test_a_payload_that_is_no_message_is_corruption(payload: bytes) -> None:
    data = encode_frame(FrameKind.ENTRY, version=1, identity=f"{samples.COLLECTION}/7", payload=payload)
    with pytest.raises(CorruptionError):
        decode(data)


def test_a_newer_version_says_so() -> None:
    frame = decode_frame(
        encode_entry(samples.entry(), collection=samples.COLLECTION),
        FrameKind.ENTRY,
        name="x",
        version_max=1,
        bytes_max=1 << 20,
    )
    newer = encode_frame(FrameKind.ENTRY, version=2, identity=frame.identity, payload=frame.payload)
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        decode(newer)


def test_too_large_an_entry_is_refused() -> None:
    half = bytes(ENTRY_BYTES_MAX // 2)
    change = LoggedChange(id=b"1", seq=1, before=half, after=half)
    entry = msgspec.structs.replace(
        samples.small_entry(), batches=(LoggedBatch(id=samples.write_id(1), changes=(change,)),)
    )
    with pytest.raises(LimitExceededError, match="log entry 1"):
        encode_entry(entry, collection="c")


def test_our_own_mistakes_are_caught_before_writing() -> None:
    empty = msgspec.structs.replace(samples.small_entry(), events=())
    with pytest.raises(AssertionError):
        encode_entry(empty, collection="c")
    change = LoggedBatch(id=samples.write_id(1), changes=(LoggedChange(id=b"1", seq=1),))
    with pytest.raises(AssertionError):
        encode_entry(msgspec.structs.replace(empty, batches=(change,)), collection="c")
    with pytest.raises(AttributeError):
        empty.number = 5  # type: ignore[misc] # frozen: that is the point


def test_settling_an_empty_slot_is_an_entry() -> None:
    entry = samples.small_entry()
    data = encode_entry(entry, collection="c")
    assert decode_entry(data, name="x", number=1, collection="c").events == (Nothing(write_id=samples.write_id(4)),)


def test_an_event_that_nobody_could_read_is_never_written() -> None:
    wrong = FilesSwitched(enabled=True, oplog=cast("Any", "elsewhere"))
    entry = Entry(number=1, write_id=WriteId("0" * 32), misc=1, node=0, previous=bytes(32), events=(wrong,))
    with pytest.raises(AssertionError, match="no version can read"):
        encode_entry(entry, collection="things/")
