"""LanceDB and Delta with the same cities on the same server: each operation as its users would write it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

__all__ = ["DeltaTables", "LanceTables", "PeerTables", "Server"]

RETRIES = 500


@dataclass(frozen=True)
class Server:
    """Where an S3 server is; plain, so that other processes can be told."""

    endpoint: str
    key: str
    secret: str


class PeerTables(Protocol):
    """One table of cities."""

    def load(self, cities: Sequence[dict[str, Any]]) -> None:
        """Make the table."""

    def open(self) -> None:
        """Know nothing of before, and open it."""

    def get(self, identity: str) -> list[dict[str, Any]]:
        """A city by its id."""
        ...

    def equal(self, name: str) -> list[dict[str, Any]]:
        """Cities of one name."""
        ...

    def largest(self, low: int, high: int, first: int) -> list[dict[str, Any]]:
        """Of the cities in a range of population the largest."""
        ...

    def groups(self) -> dict[str, tuple[int, int]]:
        """The count and the population of each country."""
        ...

    def update(self, identity: str, population: int) -> None:
        """Change one field of one city."""

    def insert(self, city: dict[str, Any]) -> None:
        """One more; tried again for as long as others are in the way."""

    def ids(self) -> list[str]:
        """All ids."""
        ...


def _groups(table: pa.Table) -> dict[str, tuple[int, int]]:
    found = table.group_by("countrycode").aggregate([("population", "count"), ("population", "sum")])
    names = ("countrycode", "population_count", "population_sum")
    return {row[0]: (row[1], row[2]) for row in zip(*(found[name].to_pylist() for name in names), strict=True)}


def _largest(table: pa.Table, first: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (
        table.sort_by([("population", "descending"), ("id", "ascending")]).slice(0, first).to_pylist()
    )
    return rows


class LanceTables:
    """LanceDB; with a scalar index on `id` and `name`, as it advises."""

    def __init__(self, url: str, server: Server) -> None:
        """Nothing is opened yet."""
        self._url = url
        self._options = {
            "endpoint": server.endpoint,
            "aws_access_key_id": server.key,
            "aws_secret_access_key": server.secret,
            "region": "us-east-1",
            "allow_http": "true",
        }
        self._table: Any = None

    def load(self, cities: Sequence[dict[str, Any]]) -> None:
        """As `PeerTables`."""
        import pyarrow as pa

        self._table = self._connect().create_table("cities", pa.Table.from_pylist(list(cities)))

    def index(self) -> None:
        """Make the indexes."""
        for name in ("id", "name"):
            self._table.create_scalar_index(name)

    def _connect(self) -> Any:
        import lancedb

        return lancedb.connect(self._url, storage_options=self._options)

    def open(self) -> None:
        """As `PeerTables`."""
        self._table = self._connect().open_table("cities")

    def _where(self, condition: str) -> Any:
        # What others wrote counts, as it does for us.
        self._table.checkout_latest()
        return self._table.search().where(condition)

    def get(self, identity: str) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        rows: list[dict[str, Any]] = self._where(f"id = '{identity}'").limit(10).to_list()
        return rows

    def equal(self, name: str) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        quoted = name.replace("'", "''")
        rows: list[dict[str, Any]] = self._where(f"name = '{quoted}'").limit(10_000).to_list()
        return rows

    def largest(self, low: int, high: int, first: int) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        found = self._where(f"population >= {low} AND population < {high}").limit(1_000_000)
        return _largest(found.select(["id", "name", "population"]).to_arrow(), first)

    def groups(self) -> dict[str, tuple[int, int]]:
        """As `PeerTables`."""
        self._table.checkout_latest()
        return _groups(self._table.search().select(["countrycode", "population"]).limit(1_000_000).to_arrow())

    def update(self, identity: str, population: int) -> None:
        """As `PeerTables`."""
        self._table.update(where=f"id = '{identity}'", values={"population": population})

    def insert(self, city: dict[str, Any]) -> None:
        """As `PeerTables`."""
        for _ in range(RETRIES):
            try:
                self._table.add([city])
            except (RuntimeError, OSError, ValueError):
                time.sleep(0.01)
                self._table.checkout_latest()
            else:
                return
        raise AssertionError(city["id"])

    def ids(self) -> list[str]:
        """As `PeerTables`."""
        self._table.checkout_latest()
        found: list[str] = self._table.search().select(["id"]).limit(1_000_000).to_arrow()["id"].to_pylist()
        return found


class DeltaTables:
    """Delta by delta-rs, with conditional writes instead of a lock."""

    def __init__(self, url: str, server: Server) -> None:
        """Nothing is opened yet."""
        self._url = url
        self._options = {
            "AWS_ENDPOINT_URL": server.endpoint,
            "AWS_ACCESS_KEY_ID": server.key,
            "AWS_SECRET_ACCESS_KEY": server.secret,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "aws_conditional_put": "etag",
        }
        self._table: Any = None

    def load(self, cities: Sequence[dict[str, Any]]) -> None:
        """As `PeerTables`."""
        import pyarrow as pa
        from deltalake import write_deltalake

        table = pa.Table.from_pylist(list(cities))
        write_deltalake(self._url, table, storage_options=self._options)
        self.open()

    def open(self) -> None:
        """As `PeerTables`."""
        from deltalake import DeltaTable

        self._table = DeltaTable(self._url, storage_options=self._options)

    def _arrow(self, columns: Sequence[str] | None, filters: list[tuple[str, str, Any]] | None) -> pa.Table:
        self._table.update_incremental()
        return self._table.to_pyarrow_table(columns=columns, filters=filters)

    def get(self, identity: str) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        rows: list[dict[str, Any]] = self._arrow(None, [("id", "=", identity)]).to_pylist()
        return rows

    def equal(self, name: str) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        rows: list[dict[str, Any]] = self._arrow(None, [("name", "=", name)]).to_pylist()
        return rows

    def largest(self, low: int, high: int, first: int) -> list[dict[str, Any]]:
        """As `PeerTables`."""
        filters = [("population", ">=", low), ("population", "<", high)]
        return _largest(self._arrow(["id", "name", "population"], filters), first)

    def groups(self) -> dict[str, tuple[int, int]]:
        """As `PeerTables`."""
        return _groups(self._arrow(["countrycode", "population"], None))

    def update(self, identity: str, population: int) -> None:
        """As `PeerTables`."""
        self._table.update(predicate=f"id = '{identity}'", updates={"population": str(population)})

    def insert(self, city: dict[str, Any]) -> None:
        """As `PeerTables`."""
        import pyarrow as pa
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        for _ in range(RETRIES):
            try:
                write_deltalake(self._url, pa.Table.from_pylist([city]), mode="append", storage_options=self._options)
            except (CommitFailedError, DeltaError, OSError):
                time.sleep(0.01)
            else:
                return
        raise AssertionError(city["id"])

    def ids(self) -> list[str]:
        """As `PeerTables`."""
        found: list[str] = self._arrow(["id"], None)["id"].to_pylist()
        return found
