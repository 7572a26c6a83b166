"""Transfers between documents of two buckets, over redis-py, while servers are killed and the store restarts.

Each client moves money from an account of one bucket to one of the other, and inserts a receipt into a third bucket, in
one transaction. The sum never changes; a transfer that was acknowledged has its receipt, one that was refused has none,
and of one whose outcome is unknown the receipt tells. Balances follow from the receipts.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import bson
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ACCOUNTS", "FIRST", "Bank", "TransferOutcomes", "check"]

ACCOUNTS = 8
"""In each bucket."""
FIRST = 1_000
BUCKETS = ("left", "right")
REST_SECONDS = 0.1
"""After a transfer that failed: clients that ask on at once leave no processor to a store that restarts."""


def identity(number: int) -> bson.ObjectId:
    return bson.ObjectId(f"{number:024x}")


@dataclass
class TransferOutcomes:
    """What clients were told, by the ids of receipts."""

    acknowledged: dict[bson.ObjectId, tuple[int, int, int]] = field(default_factory=dict)
    unknown: set[bson.ObjectId] = field(default_factory=set)
    refused: set[bson.ObjectId] = field(default_factory=set)


class Bank:
    """Clients of several servers; each tries the next one when its own is gone."""

    def __init__(self, ports: Callable[[], list[int]]) -> None:
        self._ports = ports
        self.outcomes = TransferOutcomes()
        self._changed = threading.Condition()
        self.ended = threading.Event()

    def fill(self, client: Any) -> None:
        for bucket in BUCKETS:
            client.execute_command("BUCKET.CREATE", bucket)
            documents = [bson.encode({"_id": identity(n), "balance": FIRST}) for n in range(ACCOUNTS)]
            client.execute_command("BUCKET.INSERT", bucket, "DOCS", *documents)
        client.execute_command("BUCKET.CREATE", "receipts")

    def work(self, seed: int) -> None:
        """Make transfers until the end."""
        chance = SeededChance(seed)
        tried = 0
        while not self.ended.is_set():
            tried += 1
            receipt = bson.ObjectId(f"{seed:08x}{tried:016x}")
            ports = self._ports()
            told = self._transfer(ports[(seed + tried // 4) % len(ports)], receipt, chance)
            if told != "acknowledged":
                self.ended.wait(REST_SECONDS)

    def await_more(self, moves: int) -> None:
        """Until some more transfers are acknowledged."""
        with self._changed:
            wanted = len(self.outcomes.acknowledged) + moves
            self._changed.wait_for(lambda: len(self.outcomes.acknowledged) >= wanted)

    def _transfer(self, port: int, receipt: bson.ObjectId, chance: SeededChance) -> str:
        here, there, amount = (int.from_bytes(chance.token(2), "big") for _ in range(3))
        told, move = "refused", (here % ACCOUNTS, there % ACCOUNTS, 1 + amount % 50)
        try:
            made: Any = redis.Redis(
                port=port, socket_timeout=60, single_connection_client=True, retry=Retry(NoBackoff(), 0)
            )
            with made as client:
                client.execute_command("BEGIN")
                self._move(client, receipt, move)
                told = "unknown"
                client.execute_command("COMMIT")
                told = "acknowledged"
        except redis.ResponseError as error:
            if not str(error).startswith("COMMIT_UNKNOWN_RESULT"):
                told = "refused"
        except redis.RedisError:
            pass  # the connection broke: before COMMIT was sent nothing happened
        with self._changed:
            self._changed.notify_all()
            match told:
                case "acknowledged":
                    self.outcomes.acknowledged[receipt] = move
                case "unknown":
                    self.outcomes.unknown.add(receipt)
                case _:
                    self.outcomes.refused.add(receipt)
        return told

    def _move(self, client: Any, receipt: bson.ObjectId, move: tuple[int, int, int]) -> None:
        here, there, amount = move
        for bucket, number, change in (("left", here, -amount), ("right", there, amount)):
            reply = client.execute_command("BUCKET.QUERY", bucket, bson.encode({"_id": identity(number)}))
            balance = bson.decode(reply[b"entries"][0])["balance"]
            update = bson.encode({"$set": {"balance": balance + change}})
            client.execute_command("BUCKET.UPDATE", bucket, bson.encode({"_id": identity(number)}), update)
        row = {"_id": receipt, "from": here, "to": there, "amount": amount}
        client.execute_command("BUCKET.INSERT", "receipts", "DOCS", bson.encode(row))


def check(outcomes: TransferOutcomes, rows: Callable[[str], list[dict[str, Any]]]) -> None:
    """Assert that what the buckets hold is what clients were told."""
    balances = {bucket: {row["_id"]: row["balance"] for row in rows(bucket)} for bucket in BUCKETS}
    receipts = {row["_id"]: (row["from"], row["to"], row["amount"]) for row in rows("receipts")}
    assert sum(sum(each.values()) for each in balances.values()) == 2 * ACCOUNTS * FIRST
    for receipt, move in outcomes.acknowledged.items():
        assert receipts.get(receipt) == move, "nothing acknowledged is lost"
    assert set(receipts) - set(outcomes.acknowledged) <= outcomes.unknown
    assert not outcomes.refused & set(receipts)
    expected = {bucket: dict.fromkeys(map(identity, range(ACCOUNTS)), FIRST) for bucket in BUCKETS}
    for here, there, amount in receipts.values():
        expected["left"][identity(here)] -= amount
        expected["right"][identity(there)] += amount
    assert balances == expected, "each transfer is in both buckets, once"
