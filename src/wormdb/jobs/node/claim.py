"""One node id, held by one process: claimed and kept by compare-and-set of its heartbeat.

No process deletes a heartbeat, and after the claim each heartbeat replaces the one before it. So a process that lost
the id, because another one took it over or an operator removed the node, can never write its incarnation again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import msgspec

from wormdb.engine.log.clock import NODE_MAX
from wormdb.engine.log.paths import node_key
from wormdb.errors import ConflictError, CorruptionError, InvalidRequestError, OutcomeUnknownError, UnavailableError
from wormdb.format.heartbeat import CollectionActivity, Heartbeat, NodeState, decode_heartbeat, encode_heartbeat
from wormdb.storage.readback import Landed, Lost, NothingThere, Unknown, put_classified
from wormdb.storage.store import IfAbsent, IfMatch, Store
from wormdb.system.clock import Chance, Clock, new_write_id
from wormdb.system.installed import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.engine.ledger import MiscClock
    from wormdb.engine.log.peers import Peer, Peers
    from wormdb.system.types import StoreTime, Version, WriteId

__all__ = ["Claim", "Claimant", "remove_node"]

log = logging.getLogger(__name__)

_ATTEMPTS_MAX = 32
"""How often a claim is tried, while others are faster or the store does not answer."""
_WATCH_SECONDS = 1.0


class Claim:
    """A node id that this process holds, until it hears otherwise. For one thread."""

    def __init__(self, claimant: Claimant, node: int) -> None:
        """No heartbeat has been written."""
        self.node = node
        self.incarnation: WriteId = new_write_id(claimant.chance)
        self.sequence = 0
        self.time: StoreTime | None = None
        """The store's time in the last answer."""
        self._claimant = claimant
        self._version: Version | None = None

    def take(self, replaced: Version | None, interval_ms: int) -> bool:
        """Write the first heartbeat, where nothing is or in place of one; whether it is there. 1 PUT.

        Raises UnavailableError, OutcomeUnknownError.
        """
        self._version = replaced
        try:
            self.beat(interval_ms)
        except ConflictError:
            return False
        return True

    def beat(self, interval_ms: int, written: Sequence[CollectionActivity] = (), state: NodeState = "running") -> None:
        """Write the next heartbeat. 1 PUT, and 1 or 2 GETs if the answer is no clean success.

        Raises ConflictError if the id is another's now, UnavailableError or OutcomeUnknownError if it may be tried
        again.
        """
        key = node_key(self.node)
        for _ in range(2):
            self.sequence += 1
            body = encode_heartbeat(self._heartbeat(interval_ms, tuple(written), state))
            precondition = IfAbsent() if self._version is None else IfMatch(self._version)
            outcome = put_classified(self._claimant.store, key, body, precondition, content_type="application/json")
            match outcome:
                case Landed(version=version, time=time):
                    self._version, self.time = version, time
                    return
                case Lost():
                    self._look()
                case NothingThere(cause=UnavailableError() as refusal):
                    raise refusal
                case NothingThere(cause=cause) | Unknown(cause=cause):
                    raise OutcomeUnknownError(f"heartbeat of node {self.node}", reason=str(cause), key=key) from cause
                case _:
                    assert_never(outcome)
        raise UnavailableError(f"heartbeat of node {self.node}", reason="it changes all the time", key=key)

    def _heartbeat(self, interval_ms: int, written: tuple[CollectionActivity, ...], state: NodeState) -> Heartbeat:
        return Heartbeat(
            node=self.node,
            incarnation=self.incarnation,
            sequence=self.sequence,
            misc=self._claimant.misc.next(),
            interval_ms=interval_ms,
            version=__version__,
            name=self._claimant.name,
            address=self._claimant.address,
            state=state,
            written=written,
        )

    def _look(self) -> None:
        """Find out whose heartbeat is there, where one of ours was refused. 1 GET; raises ConflictError.

        One of ours whose answer was lost may have landed before: then its version is what the next one replaces.
        """
        key = node_key(self.node)
        probe = self._claimant.store.probe(key)
        found = probe.found
        if found is None:
            if self._version is None:
                return
            raise _removed(self.node, "its heartbeat is gone")
        try:
            heartbeat = decode_heartbeat(found.body, name=key, node=self.node)
        except CorruptionError as error:
            raise _in_use(self.node, "an unreadable heartbeat", key) from error
        if heartbeat.incarnation != self.incarnation:
            raise _in_use(self.node, _told(heartbeat), key)
        if heartbeat.state == "removed":
            raise _removed(self.node, "by worm node remove")
        self._version = found.version


@dataclass(frozen=True, slots=True)
class Claimant:
    """A process that wants to be a node."""

    store: Store
    clock: Clock
    chance: Chance
    misc: MiscClock
    name: str
    """Which process on which machine, for people."""
    address: str = ""
    """Where it serves clients; empty if it does not."""

    def claim(self, peers: Peers, wanted: int | None, interval_ms: int) -> Claim:
        """Become node `wanted`, or the lowest free one. 1 LIST, 1 GET for each node there ever was, 1 PUT.

        A wanted id whose heartbeat does not tell is watched until it changes or counts as dead. Raises ConflictError
        if it is in use, InvalidRequestError for an id out of range, UnavailableError.
        """
        if wanted is not None and not 0 <= wanted <= NODE_MAX:
            raise InvalidRequestError(f"node id {wanted}", reason=f"it must be an integer between 0 and {NODE_MAX}")
        for _ in range(_ATTEMPTS_MAX):
            peers.look()
            node = self._lowest_free(peers) if wanted is None else wanted
            if wanted is not None:
                self._watch(peers, wanted)
            peer = peers.get(node)
            claim = Claim(self, node)
            try:
                is_taken = claim.take(None if peer is None else peer.version, interval_ms)
            except (UnavailableError, OutcomeUnknownError) as error:
                log.warning("node %d: %s", node, error)
                self.clock.sleep(self.chance.fraction())
                continue
            if is_taken:
                log.info("node %d is %s, incarnation %s", node, self.name, claim.incarnation)
                return claim
        raise UnavailableError("claim of a node id", reason="others were faster every time")

    def _lowest_free(self, peers: Peers) -> int:
        now = self.clock.monotonic()
        for node in range(NODE_MAX + 1):
            peer = peers.get(node)
            if peer is None or (peer.heartbeat is not None and now >= peer.dies_at):
                return node
        raise UnavailableError("claim of a node id", reason=f"all ids from 0 to {NODE_MAX} are in use")

    def _watch(self, peers: Peers, node: int) -> None:
        """Wait until no process can hold an id; raises ConflictError if one does. 1 GET a second."""
        seen = peers.get(node)
        while seen is not None:
            if seen.heartbeat is None:
                raise _in_use(node, "an unreadable heartbeat", node_key(node))
            rest = seen.dies_at - self.clock.monotonic()
            if rest <= 0:
                return
            self.clock.sleep(min(rest, _WATCH_SECONDS))
            now = peers.read(node)
            if now is not None and now.version != seen.version and _is_running(now):
                assert now.heartbeat is not None
                raise _in_use(node, _told(now.heartbeat), node_key(node))
            seen = now


def remove_node(store: Store, peers: Peers, node: int) -> Heartbeat:
    """Take an id from the process that holds it, for good: its process stops at its next heartbeat. 2 GETs and 1 PUT.

    Raises ConflictError if it beats just now, InvalidRequestError if there is no such node.
    """
    peer = peers.read(node)
    if peer is None or peer.heartbeat is None:
        raise InvalidRequestError(f"node {node}", reason="it has no heartbeat", fix="see worm node list")
    marked = msgspec.structs.replace(peer.heartbeat, sequence=peer.heartbeat.sequence + 1, state="removed", written=())
    outcome = put_classified(
        store, node_key(node), encode_heartbeat(marked), IfMatch(peer.version), content_type="application/json"
    )
    if not isinstance(outcome, Landed):
        raise ConflictError(f"node {node}", reason="its heartbeat changed meanwhile", fix="try again")
    return marked


def _is_running(peer: Peer) -> bool:
    return peer.heartbeat is not None and peer.heartbeat.state == "running"


def _told(heartbeat: Heartbeat) -> str:
    process = f"{heartbeat.name}, " if heartbeat.name else ""
    return f"{process}incarnation {heartbeat.incarnation[:8]}"


def _removed(node: int, reason: str) -> ConflictError:
    return ConflictError(f"node {node} was removed", reason=reason, fix="start it again", key=node_key(node))


def _in_use(node: int, holder: str, key: str) -> ConflictError:
    return ConflictError(
        f"node {node} is in use by {holder}", fix="choose another id, or let it choose one by itself", key=key
    )
