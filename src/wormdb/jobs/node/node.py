"""One service: holds a node id, takes turns with the others, and looks after every collection of a database."""

from __future__ import annotations

import logging
import os
import socket
import threading
from typing import TYPE_CHECKING

from wormdb.engine.log.peers import Peers
from wormdb.errors import ClosedError, ConflictError, InvalidRequestError, WormError
from wormdb.jobs.node.caretaker import Caretaker
from wormdb.jobs.node.claim import Claim, Claimant
from wormdb.jobs.node.pace import Pace, StoreClock
from wormdb.jobs.node.rounds import Round, Rounds, turn_of, window_of
from wormdb.settings import NODE_INTERVALS_LIVE, NODE_STOP_SECONDS, STORE_SILENCE_SECONDS
from wormdb.storage.conditions import ensure_conditions
from wormdb.system.clock import Chance, Clock, SystemChance, SystemClock
from wormdb.system.deadline import Deadline, within

if TYPE_CHECKING:
    from wormdb.api.database import Database
    from wormdb.format.heartbeat import NodeState
    from wormdb.jobs.node.watchlist import Watchlist

__all__ = ["Node"]

log = logging.getLogger(__name__)

_MOMENT = 0.001
"""The shortest wait, in seconds."""


class Node:
    """A service of one database. `run` until it is told to stop, or `run_once`; not both.

    `beat` and `work` are what `run` does in two threads: each does what is due, and says in how many seconds it has to
    be called again.
    """

    def __init__(
        self,
        database: Database,
        *,
        node: int | None = None,
        pace: Pace | None = None,
        address: str = "",
        clock: Clock | None = None,
        chance: Chance | None = None,
    ) -> None:
        """`node` is an id from 0 to 255, or the lowest that is free. No requests. `clock`, `chance` are for tests.

        `address` is where this process serves clients, if it does.
        """
        self.address = address
        self.pace = pace or Pace()
        self.database = database
        self.beats = 0
        """Heartbeats that were written."""
        self.missed = 0
        """Heartbeats that could not be written."""
        self.ended = threading.Event()
        """Set it, and `run` comes to its end after the step that it is in."""
        self.lost: ConflictError | None = None
        """Why this process lost the id; None while it holds it."""
        self._clock = clock or SystemClock()
        self._chance = chance or SystemChance()
        self.time = StoreClock(self._clock)
        self._wanted = node
        self._claim: Claim | None = None
        self._beaten = 0.0
        self._shown: frozenset[tuple[str, int]] = frozenset()
        """The removed collections that the last heartbeat showed."""
        self._interval_ms = self.pace.interval_ms
        self._peers = Peers(database.store, self._clock)
        self._looked = self._followed = self._follows = 0.0
        self._working: Deadline | None = None
        self._beating: Deadline | None = None
        caretaker = Caretaker(database, self.time, lambda: self.beats)
        self._workload = Rounds(caretaker, self, self.pace, self._clock)

    @property
    def id(self) -> int | None:
        """The node id; None before `start`."""
        return None if self._claim is None else self._claim.node

    @property
    def incarnation(self) -> str | None:
        """The incarnation of this process; None before `start`."""
        return None if self._claim is None else self._claim.incarnation

    @property
    def watchlist(self) -> Watchlist:
        """What is known of each collection."""
        return self._workload.watchlist

    @property
    def silence(self) -> float:
        """Seconds since the last heartbeat."""
        return self._clock.monotonic() - self._beaten

    @property
    def is_well(self) -> bool:
        """Whether this node holds its id and others believe that it lives. No requests."""
        is_mine = self._claim is not None and self.lost is None
        return is_mine and self.silence < NODE_INTERVALS_LIVE * self._interval_ms / 1000

    @property
    def store_silence(self) -> float:
        """For how many seconds the store was asked and has answered nothing. No requests."""
        return self.database._metered.silence  # noqa: SLF001 - this package is a part of the database

    def end(self) -> None:
        """Let `run` come to its end after the step that it is in; it waits NODE_STOP_SECONDS for an answer at most.

        May be called by a handler of signals.
        """
        self.ended.set()
        for deadline in (self._working, self._beating):
            if deadline is not None:
                deadline.hasten(NODE_STOP_SECONDS)

    def ring(self) -> tuple[int, ...]:
        """The ids of all nodes that live, as far as this one knows. No requests."""
        assert self._claim is not None, "it was started"
        return tuple(sorted({*self._peers.live(), self._claim.node}))

    def servers(self) -> dict[int, str]:
        """The addresses of all live nodes that serve clients, by id, this one included. No requests; for any thread."""
        known = self._peers.known()
        found = {node: known[node].heartbeat for node in self._peers.live() if node in known}
        addresses = {node: beat.address for node, beat in found.items() if beat is not None and beat.address}
        addresses.pop(-1 if self.id is None else self.id, None)
        if self.address and self.id is not None:
            addresses[self.id] = self.address
        return dict(sorted(addresses.items()))

    def has_turn(self, collection: str) -> bool:
        """Whether it is for this node to look after a collection now. No requests."""
        window = window_of(self.time.now_ms(), self.pace.interval_ms)
        return self.is_well and turn_of(collection, self.ring(), window) == self.id

    def start(self) -> None:
        """Claim the id. Costs as `Claimant.claim`; raises what that raises, and UnsupportedStoreError."""
        if self._claim is not None:
            raise InvalidRequestError("start of a node", reason="it was started before", fix="make a new Node")
        store, misc = self.database.store, self.database._ledgers.misc  # noqa: SLF001 - this package is a part of the database
        ensure_conditions(store, self._chance)
        name = f"process {os.getpid()} on {socket.gethostname()}"
        claimant = Claimant(store, self._clock, self._chance, misc, name, self.address)
        # Before the claim, which may watch an id for a while and does not look at the others meanwhile.
        self._looked = self._followed = self._clock.monotonic()
        self._follows = self._followed + self.pace.interval
        claim = claimant.claim(self._peers, self._wanted, self.pace.interval_ms)
        misc.become(claim.node)
        self.time.observe(claim.time)
        self._beaten = self._clock.monotonic()
        self._claim = claim

    def beat(self) -> float:
        """Write a heartbeat if one is due; in how many seconds to look again. Costs as `Claim.beat`.

        Raises ConflictError if the id is another's now: then this node must stop.
        """
        is_busy = self.watchlist.is_busy(self._clock.monotonic())
        wanted_ms = self.pace.interval_ms * (1 if is_busy else self.pace.idle_factor)
        rest = min(wanted_ms, self._interval_ms) / 1000 - self.silence
        # A purge waits until all nodes show that the collection was removed.
        if rest < _MOMENT or not self.watchlist.removed() <= self._shown:
            self._write("running", wanted_ms)
            rest = self.pace.interval
        return min(rest, self.pace.interval)

    def work(self) -> float:
        """Do what is due for all collections, for about one interval; in how many seconds there may be more.

        An error of one collection is kept with it, and stops no other.
        """
        self._look_at_peers()
        self._workload.discover()
        self._workload.look_after_all(self.ended.is_set)
        looks = self._looked + self.pace.look_seconds
        self._follows = self._followed + self._interval_ms / 1000 if len(self.ring()) > 1 else looks
        now = self._clock.monotonic()
        return max(min(looks - now, self._follows - now, self._workload.rest()), _MOMENT)

    def run_once(self) -> list[Round]:
        """Claim an id, do one round for every collection, out of turn too, and stop. For cron."""
        self.start()
        try:
            self._workload.discover()
            watched = list(self.watchlist.known.values())
            return [self._workload.round(each, with_upkeep=True) for each in watched]
        finally:
            self.stop()

    def run(self) -> None:
        """Claim an id, unless `start` did, and look after the database until `ended` is set.

        Heartbeats go on in a thread of their own. Raises ConflictError when the id is another's.
        """
        if self._claim is None:
            self.start()
        beating = threading.Thread(target=self._keep_beating, name="wormdb-heartbeat", daemon=True)
        beating.start()
        try:
            while not self.ended.is_set():
                self._working = self._silent()
                with within(self._working):
                    rest = self.work()
                self.ended.wait(rest)
        finally:
            self.ended.set()
            beating.join()
            self.stop()
        if self.lost is not None:
            raise self.lost

    def stop(self) -> None:
        """Mark the heartbeat as stopped, so that others need not wait for its end. 1 PUT, in NODE_STOP_SECONDS."""
        if self._claim is None or self.lost is not None or self.store_silence >= STORE_SILENCE_SECONDS:
            return
        try:
            with within(Deadline(self._clock, NODE_STOP_SECONDS, "stopping")):
                self._write("stopped", self.pace.interval_ms)
        except (ConflictError, ClosedError) as error:
            log.warning("%s", error)

    def _silent(self) -> Deadline:
        """For work that ends when the store does not answer."""
        settings = self.database._settings  # noqa: SLF001 - this package is a part of the database
        return Deadline(self._clock, settings.read_seconds, "read_seconds", "work")

    def _keep_beating(self) -> None:
        try:
            while not self.ended.is_set():
                self._beating = self._silent()
                with within(self._beating):
                    rest = self.beat()
                self.ended.wait(rest)
        except (ConflictError, ClosedError) as error:
            log.warning("%s", error)
        finally:
            self.ended.set()  # a node whose heartbeats do not arrive, for any reason, must stop

    def _write(self, state: NodeState, interval_ms: int) -> None:
        assert self._claim is not None, "it was started"
        began, shown = self._clock.monotonic(), self.watchlist.removed()
        try:
            self._claim.beat(interval_ms, self.watchlist.written(began), state)
        except ConflictError as error:
            self.lost = error
            self.ended.set()
            raise
        except ClosedError:
            self.ended.set()
            raise
        except WormError as error:
            self.missed += 1
            log.warning("node %d: %s", self._claim.node, error)
            return
        self.beats += 1
        # Others count from when it was written, which was after this.
        self._beaten, self._interval_ms, self._shown = began, interval_ms, shown
        self.time.observe(self._claim.time)

    def _look_at_peers(self) -> None:
        now = self._clock.monotonic()
        # Others seem dead to a node that was asleep or too busy to look, and only those that live are followed.
        is_late = now >= self._follows + self.pace.interval
        try:
            if is_late or now - self._looked >= self.pace.look_seconds:
                self._looked = self._followed = now
                self._peers.look(but=self.id)
            elif now >= self._follows:
                self._followed = now
                self._peers.follow(self._interval_ms / 1000 + self.pace.interval, but=self.id)
        except ClosedError:
            raise
        except WormError as error:
            log.warning("node %s: the other nodes are not seen: %s", self.id, error)
        for node in self._peers.live():
            peer = self._peers.get(node)
            if node != self.id and peer is not None and peer.heartbeat is not None:
                self.watchlist.heard(peer.heartbeat.written, now)
