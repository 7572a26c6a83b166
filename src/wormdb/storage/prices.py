"""What requests and storage cost, in US dollars: tables to estimate with, not a bill.

List prices of one region each, without discounts and without what leaves the cloud.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["AZURE_HOT", "FREE", "GCS_STANDARD", "S3_EXPRESS", "S3_STANDARD", "Prices", "RequestKind", "prices_of"]

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
    gigabyte_month: float = 0.0
    """For keeping a gigabyte for a month."""

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

    def of_storage(self, size: float) -> float:
        """Dollars a month for keeping `size` bytes."""
        return self.gigabyte_month * size / GIGABYTE


S3_STANDARD = Prices("Amazon S3 Standard, us-east-1", get=0.40, head=0.40, list=5.00, put=5.00, gigabyte_month=0.023)
S3_EXPRESS = Prices(
    "Amazon S3 Express One Zone, us-east-1",
    get=0.03,
    head=0.03,
    list=1.13,
    put=1.13,
    gigabyte_up=0.0032,
    gigabyte_down=0.0006,
    gigabyte_month=0.11,
)
GCS_STANDARD = Prices(
    "Google Cloud Storage Standard, us-east1", get=0.40, head=0.40, list=5.00, put=5.00, gigabyte_month=0.020
)
AZURE_HOT = Prices("Azure Blob hot, LRS, East US", get=0.50, head=0.50, list=6.50, put=6.50, gigabyte_month=0.018)
FREE = Prices("this machine")


def prices_of(name: str) -> Prices:
    """The table for a store's name: free on this machine, else S3 Standard as an estimate.

    Other clouds are in the same range; give `MeteredStore` a table of your own to be exact.
    """
    return FREE if name.startswith(("file://", "memory://")) else S3_STANDARD
