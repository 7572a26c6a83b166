"""Writes that arrive at one server and are committed by another: the first one of the collection's shard.

The owner only makes writers meet, so that they share entries of the log; compare-and-set is the safety. So a write is
handed on once at most, and committed here whenever the owner is known not to have begun it. When its answer is lost it
may have been committed, or may be yet:

    the log has it        every handed write carries a mark in its metadata: it is looked for, and told as done
    all ids are ours      the same insert again is harmless, here: whichever comes second finds the ids taken
    anything else         told as unknown, with the mark; it is never written a second time
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wormdb.errors import AlreadyExistsError, OutcomeUnknownError, UniqueViolationError, WormError
from wormdb.format import json
from wormdb.jobs.node.shards import STANDBYS, order_of, shard_of
from wormdb.server.peers import LostReplyError, UnreachableServerError, read_server_address
from wormdb.server.replies import ErrorReply

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wormdb.server.buckets import ServedBucket
    from wormdb.server.peers import PeerWires
    from wormdb.system.clock import Chance, Clock

    CommitHere = Callable[[Mapping[str, Any] | None], list[Any]]
    """Commits a write in this process, with metadata; the ids of what it wrote."""

__all__ = ["HAND_SECONDS", "MARK", "NOT_BEGUN", "HandedWrite", "RoutingMode", "ServerRoute", "WriteRouter"]

log = logging.getLogger(__name__)

RoutingMode = Literal["off", "prefer", "strict"]
MARK: Final = "handed"
"""Of metadata: names a write that was handed from one server to another."""
NOT_BEGUN: Final = "NOTBEGUN"
"""The prefix of a refusal by a server that has done nothing about a handed write."""
HAND_SECONDS: Final = 10.0
"""In which the owner commits, or says that it could not."""
GRACE_SECONDS: Final = 3.0
"""That its answer may take beyond that."""
SUSPECT_SECONDS: Final = 5.0
"""For which a server that could not be reached, or did not answer, is handed nothing."""
WORDS_MAX: Final = 50_000
BYTES_MAX: Final = 32 << 20
"""Of a write that is handed on; a larger one gains nothing by it."""
_REFUSALS: Final = frozenset({NOT_BEGUN, "NOAUTH", "WRONGPASS", "NOPERM"})


class LiveServers(Protocol):
    """What knows which servers there are."""

    @property
    def id(self) -> int | None:
        """The node id of this server; None while it has none."""
        ...

    def servers(self) -> dict[int, str]:
        """The addresses of all live servers, by node id."""
        ...

    def tell_removed(self, collection: str, number: int) -> None:
        """Have the next heartbeat show that an entry removed a collection."""
        ...


@dataclass(frozen=True, slots=True)
class ServerRoute:
    """Where writers of one shard meet."""

    shard: int
    primary: str
    """Host and port."""
    standbys: list[str]


@dataclass(frozen=True, slots=True)
class HandedWrite:
    """A write in words that another server understands (`wormdb.server.handed`)."""

    words: Callable[[], Sequence[bytes]]
    """Made only if there is another server."""
    ids: list[Any] | None = None
    """Of what it inserts, in order; None if they follow from the commit."""
    is_repeatable: bool = False
    """Whether the same write again, here, is harmless: all that it inserts has ids that this server made."""


class WriteRouter:
    """Decides where writes are committed. Thread-safe."""

    def __init__(
        self, mode: RoutingMode, live: LiveServers | None, wires: PeerWires | None, *, clock: Clock, chance: Chance
    ) -> None:
        """Without `live` this server is alone. No requests."""
        self.mode = mode
        self._live = live
        self._wires = wires
        self._clock = clock
        self._chance = chance
        self._lock = threading.Lock()
        self._suspects: dict[int, float] = {}
        self.handed = 0
        """Writes that others committed."""
        self.kept = 0
        """Writes that should have been handed on, and were committed here."""
        self.unknown = 0

    # --- where ---

    def servers(self) -> dict[int, str]:
        """The addresses of all live servers, by node id. No requests."""
        return {} if self._live is None else self._live.servers()

    @property
    def id(self) -> int | None:
        """The node id of this server; None if it has none."""
        return None if self._live is None else self._live.id

    def routes(self, collection: str, shards: Sequence[int], here: str) -> list[ServerRoute]:
        """The servers of a collection's shards; `here` is this one, if it is alone. No requests."""
        servers = self.servers()
        found = []
        for shard in shards or (shard_of(collection),):
            order = [_place(servers[node]) for node in order_of(shard, servers)] or [here]
            found.append(ServerRoute(shard, order[0], order[1 : 1 + STANDBYS]))
        return found

    def owner(self, collection: str, shards: Sequence[int] = ()) -> tuple[int, str] | None:
        """The server that commits writes to a collection: node id and address; None if it is this one. No requests."""
        if self._live is None or self.mode == "off":
            return None
        servers, mine = self._live.servers(), self._live.id
        shard = shards[0] if shards else shard_of(collection)
        now = self._clock.monotonic()
        for node in order_of(shard, servers):
            if node == mine:
                return None
            if self._suspects.get(node, 0.0) <= now:
                return node, servers[node]
        return None

    def _suspect(self, node: int, reason: object) -> None:
        log.info("node %d is handed nothing for %g s: %s", node, SUSPECT_SECONDS, reason)
        with self._lock:
            self._suspects[node] = self._clock.monotonic() + SUSPECT_SECONDS

    def tell_removed(self, collection: str, number: int) -> None:
        """Have other servers hear that an entry removed a collection. No requests."""
        if self._live is not None:
            self._live.tell_removed(collection, number)

    # --- writes ---

    def write(self, bucket: ServedBucket, shards: Sequence[int], handed: HandedWrite, here: CommitHere) -> list[Any]:
        """Commit a write where it should be, or here; the ids of what it wrote. An ErrorReply as the owner raised it.

        Raises what `here` raises; OutcomeUnknownError with a mark if the owner's answer was lost.
        """
        owner = self.owner(bucket.prefix, shards)
        if owner is None or self._wires is None:
            return here(None)
        node, address = owner
        if self.mode == "strict":
            shard = shards[0] if shards else shard_of(bucket.prefix)
            raise ErrorReply(f"{shard} {_place(address)}", "REJECT")
        words = handed.words()
        if len(words) > WORDS_MAX or sum(map(len, words)) > BYTES_MAX:
            return here(None)
        mark = self._chance.token(16).hex()
        number = bucket.number
        request = [b"WORM.WRITE", mark.encode(), b"%d" % (HAND_SECONDS * 1000), bucket.prefix.encode(), *words]
        try:
            reply = self._wires.ask(address, request, HAND_SECONDS + GRACE_SECONDS)
        except UnreachableServerError as error:
            self._suspect(node, error)
            return self._keep(here)
        except LostReplyError as error:
            self._suspect(node, error)
            return self._recover(bucket, number, mark, handed, here, str(error))
        if isinstance(reply, ErrorReply):
            if reply.prefix in _REFUSALS or reply.message.startswith("unknown command"):
                self._suspect(node, reply)
                return self._keep(here)
            raise reply
        with self._lock:
            self.handed += 1
        ids: list[Any] = json.decode(reply, name="ids of a handed write")
        return ids

    def _keep(self, here: CommitHere) -> list[Any]:
        with self._lock:
            self.kept += 1
        return here(None)

    def _recover(
        self, bucket: ServedBucket, number: int, mark: str, handed: HandedWrite, here: CommitHere, reason: str
    ) -> list[Any]:
        found = _written(bucket, number, mark)
        if found is not None:
            return handed.ids or found
        if handed.is_repeatable:
            try:
                return here({MARK: mark})
            except (AlreadyExistsError, UniqueViolationError):
                found = _written(bucket, number, mark)
                if found is None:
                    raise
                return handed.ids or found
        with self._lock:
            self.unknown += 1
        raise OutcomeUnknownError(
            f"write to {bucket.prefix.rstrip('/')}, handed to another server",
            reason=f"its answer was lost: {reason}",
            fix=f"look for metadata {MARK}={mark} in the history before retrying: it may have committed, or may yet",
            commit_id=f"{MARK}-{mark}",
        )

    def close(self) -> None:
        """Close connections to other servers."""
        if self._wires is not None:
            self._wires.close()


def _place(address: str) -> str:
    host, port, _ = read_server_address(address)
    return f"{host}:{port}"


def _written(bucket: ServedBucket, number: int, mark: str) -> list[Any] | None:
    """The ids of a handed write that the log has behind a number; None if it has none, or cannot be asked."""
    try:
        changes = [
            change.id
            for change in bucket.collection.watch(after=number)
            if isinstance(change.metadata, dict) and change.metadata.get(MARK) == mark
        ]
    except WormError as error:
        log.warning("a handed write is not looked for: %s", error)
        return None
    return changes or None
