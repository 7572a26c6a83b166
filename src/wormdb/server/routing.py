"""Writes that arrive at one server and are committed by another: the first one of the collection's shard.

The owner only makes writers meet, so that they share entries of the log; compare-and-set is the safety. So a write is
handed on once at most, and committed here whenever the owner is known not to have begun it. When its answer is lost, or
does not come, it may have been committed, or may be yet. Then the log is asked, and closed to it
(`wormdb.server.withdrawal`): it is told as done if it landed, and written here if it did not.

An owner that does not answer is not waited for: while an answer is late, a PING on another connection tells whether the
owner lives, because the loop of a server answers those whatever its commits wait for. One that failed is handed nothing
until it answers a PING again.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from wormdb.errors import OutcomeUnknownError, WormError
from wormdb.format import json
from wormdb.jobs.node.shards import STANDBYS, order_of, shard_of
from wormdb.server.peers import LostReplyError, UnreachableServerError, read_server_address
from wormdb.server.replies import ErrorReply
from wormdb.server.withdrawal import MARK, withdraw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from wormdb.server.buckets import ServedBucket
    from wormdb.server.peers import PeerWires
    from wormdb.system.clock import Chance, Clock

    CommitHere = Callable[[Mapping[str, Any] | None], list[Any]]
    """Commits a write in this process, with metadata; the ids of what it wrote."""

__all__ = ["HAND_SECONDS", "NOT_BEGUN", "HandedWrite", "RoutingMode", "ServerRoute", "WriteRouter"]

log = logging.getLogger(__name__)

RoutingMode = Literal["off", "prefer", "strict"]
NOT_BEGUN: Final = "NOTBEGUN"
"""The prefix of a refusal by a server that has done nothing about a handed write."""
HAND_SECONDS: Final = 10.0
"""In which the owner commits, or says that it could not."""
GRACE_SECONDS: Final = 3.0
"""That its answer may take beyond that."""
SUSPECT_SECONDS: Final = 5.0
"""For which a server that could not be reached, or did not answer, is not asked whether it lives again."""
NUMBERS_MAX: Final = 10_000
WORDS_MAX: Final = 50_000
BYTES_MAX: Final = 32 << 20
"""Of a write that is handed on; a larger one gains nothing by it."""
_REFUSALS: Final = frozenset({NOT_BEGUN, "NOAUTH", "WRONGPASS", "NOPERM"})
_UNKNOWN: Final = "COMMIT_UNKNOWN_RESULT"


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
        """By node id of a server that failed, when it is asked again."""
        self._numbers: dict[str, int] = {}
        """By folder a log number that an owner told: what this server itself has read may be older."""
        self.later: Callable[[str, Callable[[], object]], None] | None = None
        """Does something in the background, for a lane; without it a write asks whether a suspect lives."""
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
            if node not in self._suspects or self._lives(node, servers[node], now):
                return node, servers[node]
        return None

    def _lives(self, node: int, address: str, now: float) -> bool:
        """Whether a suspect is well again; asked by one thread at a time, and not by a write if others can ask."""
        with self._lock:
            due = self._suspects.get(node)
            if due is None or due > now:
                return due is None
            self._suspects[node] = now + SUSPECT_SECONDS
        if self.later is None:
            return self._ask_suspect(node, address)
        self.later(f"suspect {node}", lambda: self._ask_suspect(node, address))
        return False

    def _ask_suspect(self, node: int, address: str) -> bool:
        lives = self._wires is not None and self._wires.answers(address)
        with self._lock:
            if lives:
                self._suspects.pop(node, None)
        return lives

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

        Raises what `here` raises; OutcomeUnknownError with a mark if the owner's answer was lost, and the log does not
        tell what became of the write.
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
        number = max(bucket.number, self._numbers.get(bucket.prefix, 0))
        place = bucket.prefix.encode()
        request = [b"WORM.WRITE", mark.encode(), b"%d" % number, b"%d" % (HAND_SECONDS * 1000), place, *words]
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
            if reply.prefix == _UNKNOWN or reply.message.startswith("internal error"):
                return self._recover(bucket, number, mark, handed, here, str(reply))
            raise reply
        number, ids = json.decode(reply, name="reply to a handed write")
        with self._lock:
            self.handed += 1
            if len(self._numbers) >= NUMBERS_MAX:
                self._numbers.clear()
            self._numbers[bucket.prefix] = max(number, self._numbers.get(bucket.prefix, 0))
        return list(ids)

    def _keep(self, here: CommitHere) -> list[Any]:
        with self._lock:
            self.kept += 1
        return here(None)

    def _recover(
        self, bucket: ServedBucket, number: int, mark: str, handed: HandedWrite, here: CommitHere, reason: str
    ) -> list[Any]:
        try:
            found = withdraw(bucket.collection, mark, number)
        except WormError as error:
            log.warning("what became of a handed write is not known: %s", error)
            reason = f"{reason}; {error}"
        else:
            if found is None:
                return self._keep(here)
            if found or handed.ids is not None:
                return handed.ids or found
            reason = f"{reason}; it was committed, by blocks, which do not tell its ids"
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
