"""The heartbeat of a service: one small JSON object a node, replaced by compare-and-set while it lives.

It is advice for other nodes, clients and people. No two have equal bytes: an incarnation never repeats, and its
sequence only grows.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from wormdb.errors import LimitExceededError
from wormdb.format.frame import Count, Id, Name, corrupt
from wormdb.settings import HEARTBEAT_BYTES_MAX

__all__ = ["CollectionActivity", "Heartbeat", "NodeId", "NodeState", "decode_heartbeat", "encode_heartbeat"]

NodeId = Annotated[int, Meta(ge=0, le=255)]
NodeState = Literal["running", "stopped", "removed"]
ADDRESS_CHARS_MAX: Final = 300


class CollectionActivity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A collection that a node has seen written, or cannot look after."""

    collection: Name
    """Its folder, ending with /."""
    number: Count
    """The newest log number that the node knows of."""
    lag: Count = 0
    """Entries that it knows of and that were not brought forward yet."""
    error: Annotated[str, Meta(max_length=1000)] = ""
    """Why its last round failed; empty if it did not."""
    removed: bool = False
    """Whether the entry of that number removed it."""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What a node says of itself."""

    node: NodeId
    incarnation: Id
    """Of one process that holds this id; never used again."""
    sequence: Count
    """Counts the heartbeats of an incarnation."""
    misc: Count
    interval_ms: Annotated[int, Meta(ge=1, le=3_600_000)]
    """The next one comes within this time; after three of them without one the node counts as dead."""
    version: str
    """Of wormdb."""
    name: str = ""
    """Which process on which machine, for people."""
    address: Annotated[str, Meta(max_length=ADDRESS_CHARS_MAX)] = ""
    """Where it serves clients of Redis's protocol, as `resp://host:port`, or `resps://` with TLS; empty if it does not.

    Readers of before pass over it: to them it is a node like any other, which it is.
    """
    state: NodeState = "running"
    written: tuple[CollectionActivity, ...] = ()


_DECODER: Final = msgspec.json.Decoder(Heartbeat)


def encode_heartbeat(heartbeat: Heartbeat) -> bytes:
    """Indented JSON, for people. No requests; raises LimitExceededError."""
    body = msgspec.json.format(msgspec.json.encode(heartbeat), indent=2) + b"\n"
    if len(body) > HEARTBEAT_BYTES_MAX:
        raise LimitExceededError(
            f"the heartbeat of node {heartbeat.node}", reason=f"it has {len(body)} bytes of {HEARTBEAT_BYTES_MAX}"
        )
    return body


def decode_heartbeat(body: bytes, *, name: str, node: int) -> Heartbeat:
    """The heartbeat of `node`, stored as object `name`. No requests; raises CorruptionError."""
    if len(body) > HEARTBEAT_BYTES_MAX:
        corrupt(name, f"it has {len(body)} bytes")
    try:
        heartbeat = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        corrupt(name, f"it is not a heartbeat: {error}")
    if heartbeat.node != node:
        corrupt(name, f"it is the heartbeat of node {heartbeat.node}")
    return heartbeat
