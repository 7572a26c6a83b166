"""The bytes of a heartbeat: plain JSON that people read, and nothing that others write is believed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import CorruptionError, LimitExceededError
from wormdb.format.heartbeat import CollectionActivity, Heartbeat, decode_heartbeat, encode_heartbeat

ID = "0123456789abcdef0123456789abcdef"
STORED = b"""{
  "node": 3,
  "incarnation": "0123456789abcdef0123456789abcdef",
  "sequence": 7,
  "misc": 435200001280000003,
  "intervalMs": 5000,
  "version": "0.1.0",
  "name": "process 1 on host",
  "written": [
    {
      "collection": "org/notes/",
      "number": 12,
      "lag": 2
    }
  ]
}
"""
BEAT = Heartbeat(
    node=3,
    incarnation=ID,  # type: ignore[arg-type] # plain text is what it is in the file
    sequence=7,
    misc=435200001280000003,
    interval_ms=5000,
    version="0.1.0",
    name="process 1 on host",
    written=(CollectionActivity(collection="org/notes/", number=12, lag=2),),
)


def test_the_bytes() -> None:
    assert encode_heartbeat(BEAT) == STORED
    assert decode_heartbeat(STORED, name="k", node=3) == BEAT


def test_a_field_of_a_newer_version_is_ignored() -> None:
    assert decode_heartbeat(STORED.replace(b'"node"', b'"later": [1], "node"'), name="k", node=3) == BEAT


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"node": 3', b'"node": 300', "not a heartbeat"),
        (b'"intervalMs": 5000', b'"intervalMs": 0', "not a heartbeat"),
        (b"0123456789abcdef0123", b"zz23456789abcdef0123", "not a heartbeat"),
        (b'"sequence": 7,', b"", "not a heartbeat"),
        (b'"node": 3', b'"node": 4', "heartbeat of node 4"),
    ],
)
def test_what_cannot_be_is_damage(old: bytes, new: bytes, reason: str) -> None:
    with pytest.raises(CorruptionError, match=reason) as caught:
        decode_heartbeat(STORED.replace(old, new), name=".worm.nodes/3", node=3)
    assert caught.value.key == ".worm.nodes/3"


@given(st.binary(max_size=200))
def test_bytes_of_others_are_damage(body: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_heartbeat(body, name="k", node=3)


def test_a_heartbeat_has_a_largest_size() -> None:
    many = tuple(
        CollectionActivity(collection=f"{'x' * 1000}{number}/", number=1, error="e" * 1000) for number in range(600)
    )
    with pytest.raises(LimitExceededError, match="the heartbeat of node 3"):
        encode_heartbeat(
            Heartbeat(
                node=3, incarnation=BEAT.incarnation, sequence=1, misc=1, interval_ms=1, version="1", written=many
            )
        )
    with pytest.raises(CorruptionError):
        decode_heartbeat(STORED + b" " * 2**20, name="k", node=3)
