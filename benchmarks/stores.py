"""Our S3 store against bare obstore and boto3, on one SeaweedFS server in one run."""

from __future__ import annotations

import itertools
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.measure import Row, compare
from wormdb.settings import POOL_THREADS
from wormdb.storage.open import open_store
from wormdb.storage.pool import ThreadPool
from wormdb.storage.store import Always, IfAbsent
from wormdb.testing.s3_server import S3Server

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.store import Store

__all__ = ["TITLE", "run"]

TITLE = "stores: S3 on SeaweedFS, 1 KB objects"
SMALL = 200
MANY = 1_000
BODY = bytes(range(256)) * 4
TYPE = "application/zstd"


def run() -> list[Row]:
    """Start a server, compare, stop it."""
    with S3Server() as server:
        os.environ.update(server.environment)
        with open_store(server.url("bench")) as store:
            return [*_small(store, server), _many(store, server)]


def _obstore(server: S3Server) -> Any:
    from obstore.store import S3Store

    return S3Store(
        server.bucket,
        prefix="bench",
        endpoint=server.endpoint,
        access_key_id=server.access_key,
        secret_access_key=server.secret_key,
        region="us-east-1",
        client_options={"allow_http": True},
    )


def _small(store: Store, server: S3Server) -> list[Row]:
    import obstore

    bare = _obstore(server)
    names = itertools.count()
    store.put("small", BODY, Always(), content_type=TYPE)

    def repeat(call: Callable[[], object]) -> Callable[[], None]:
        def loop() -> None:
            for _ in range(SMALL):
                call()

        return loop

    attributes = {"Content-Type": TYPE}
    return [
        compare(
            "get",
            repeat(lambda: store.get("small").body),
            "obstore.get",
            repeat(lambda: bytes(obstore.get(bare, "small").bytes())),
            count=SMALL,
            at_most=1.3,
        ),
        compare(
            "probe (shows the store's time)",
            repeat(lambda: store.probe("small")),
            "obstore.get",
            repeat(lambda: bytes(obstore.get(bare, "small").bytes())),
            count=SMALL,
            at_most=1.3,
        ),
        compare(
            "put",
            repeat(lambda: store.put(f"p{next(names)}", BODY, Always(), content_type=TYPE)),
            "obstore.put",
            repeat(lambda: obstore.put(bare, f"p{next(names)}", BODY, attributes=attributes, use_multipart=False)),
            count=SMALL,
            at_most=1.3,
        ),
        compare(
            "put if absent (signed, exact status)",
            repeat(lambda: store.put(f"c{next(names)}", BODY, IfAbsent(), content_type=TYPE)),
            "obstore.put mode=create",
            repeat(
                lambda: obstore.put(
                    bare, f"c{next(names)}", BODY, mode="create", attributes=attributes, use_multipart=False
                )
            ),
            count=SMALL,
            at_most=1.3,
        ),
    ]


def _many(store: Store, server: S3Server) -> Row:
    import boto3
    from botocore.config import Config

    keys = [f"many/{number:05d}" for number in range(MANY)]
    for key in keys:
        store.put(key, BODY, Always(), content_type=TYPE)
    client = boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=server.secret_key,
        region_name="us-east-1",
        config=Config(max_pool_connections=POOL_THREADS),
    )
    pool = ThreadPool()
    threads = ThreadPoolExecutor(POOL_THREADS)

    def ours() -> None:
        found = store.get_many(keys, pool)
        assert all(item is not None and item.body == BODY for item in found)

    def theirs() -> None:
        def get(key: str) -> bytes:
            body: bytes = client.get_object(Bucket=server.bucket, Key=f"bench/{key}")["Body"].read()
            return body

        assert all(body == BODY for body in threads.map(get, keys))

    try:
        return compare(
            f"get_many of {MANY:,} keys",
            ours,
            f"boto3, {POOL_THREADS} threads",
            theirs,
            count=MANY,
            at_least=4,
        )
    finally:
        pool.close()
        threads.shutdown()
        client.close()
