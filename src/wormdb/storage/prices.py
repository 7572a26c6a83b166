"""What requests cost, in US dollars: a table to estimate with, not a bill."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["FREE", "S3_EXPRESS", "S3_STANDARD", "Prices", "RequestKind", "prices_of"]

MILLION = 1_000_000
GIGABYTE = 1_000_000_000


class RequestKind(StrEnum):
    """What stores bill by."""

    GET = "get"
    HEAD = "head"
    LIST = "list"
    PUT = "put"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars for a million requests of each kind, and for a gigabyte where bytes cost."""

    name: str
    get: float = 0.0
    head: float = 0.0
    list: float = 0.0
    put: float = 0.0
    delete: float = 0.0
    gigabyte_up: float = 0.0
    gigabyte_down: float = 0.0

    def of_requests(self, kind: RequestKind, count: int) -> float:
        """Dollars for `count` requests of one kind."""
        by_kind = {
            RequestKind.GET: self.get,
            RequestKind.HEAD: self.head,
            RequestKind.LIST: self.list,
            RequestKind.PUT: self.put,
            RequestKind.DELETE: self.delete,
        }
        return by_kind[kind] * count / MILLION

    def of_bytes(self, up: int, down: int) -> float:
        """Dollars for bytes written and read."""
        return (self.gigabyte_up * up + self.gigabyte_down * down) / GIGABYTE


S3_STANDARD = Prices("Amazon S3 Standard, us-east-1", get=0.40, head=0.40, list=5.00, put=5.00)
S3_EXPRESS = Prices(
    "Amazon S3 Express One Zone, us-east-1",
    get=0.03,
    head=0.03,
    list=1.13,
    put=1.13,
    gigabyte_up=0.0032,
    gigabyte_down=0.0006,
)
FREE = Prices("this machine")


def prices_of(name: str) -> Prices:
    """The table for a store's name: free on this machine, else S3 Standard as an estimate.

    Other clouds are in the same range; give `MeteredStore` a table of your own to be exact.
    """
    return FREE if name.startswith(("file://", "memory://")) else S3_STANDARD
