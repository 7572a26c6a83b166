"""worm serve: a database behind Redis's protocol, in the foreground."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wormdb.cli.verbs import Verb
from wormdb.server.accounts import Accounts, hash_password
from wormdb.server.host import Server, new_loop, read_address
from wormdb.server.parts import ServerOptions
from wormdb.server.service import Service, open_served
from wormdb.settings import Settings
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from wormdb.server.parts import ServerParts

__all__ = ["command"]

EXAMPLES = (
    "worm serve ./data",
    "worm serve s3://bucket/prefix --resp 127.0.0.1:5484 --port 9464",
    "worm serve s3://bucket/prefix --resp 0.0.0.0:5484 --users users.json --cert server.pem --key server.key",
    "worm serve --hash-password",
)
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("serve", cls=Verb, examples=EXAMPLES)
@click.argument("url", envvar="WORM_URL", required=False)
@click.option("--resp", default="127.0.0.1:5484", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--users", type=_FILE, help="Users with hashed passwords and rights by namespace, as JSON.")
@click.option("--cert", type=_FILE, help="The certificate of the server, for TLS.")
@click.option("--key", type=_FILE, help="Its key.")
@click.option("--connections", type=click.IntRange(1), default=10_000, show_default=True, help="At most at once.")
@click.option(
    "--idle", type=float, default=0.0, metavar="SECONDS", help="Close connections idle for so long. [0: never]"
)
@click.option("--port", type=int, help="Serve /health and /metrics on loopback; 0 takes a free port and prints it.")
@click.option("--hash-password", "hashes", is_flag=True, help="Only ask for a password, and print its hash.")
def command(  # noqa: PLR0913 - one argument for each option
    *,
    url: str | None,
    resp: str,
    users: Path | None,
    cert: Path | None,
    key: Path | None,
    connections: int,
    idle: float,
    port: int | None,
    hashes: bool,
) -> int:
    """Serve a database to clients of Redis's protocol, by Kronotop's commands.

    Whatever speaks RESP2 or RESP3 (redis-cli, redis-py, ioredis, node-redis, go-redis) finds collections as buckets and
    folders as namespaces. Without --users the server listens on this machine only. SIGTERM and SIGINT end it after the
    commands that are at work; killing it at any moment loses nothing that was acknowledged.
    """
    if hashes:
        click.echo(hash_password(click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)))
        return 0
    if url is None:
        raise click.UsageError("Missing argument 'URL'.")
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    host, number = read_address(resp)
    options = ServerOptions(host, number, cert, key, connections=connections, idle_seconds=idle)
    accounts = None if users is None else Accounts.read(users)
    options.check(has_accounts=accounts is not None)
    clock, chance = SystemClock(), SystemChance()
    with open_served(url, settings=Settings(), clock=clock, chance=chance) as database:
        server = Server(Service(database, accounts=accounts, clock=clock, chance=chance), options)
        loop = new_loop()
        try:
            loop.run_until_complete(_run(server, port, database.url))
        finally:
            loop.close()
    click.echo("the server has stopped")
    return 0


async def _run(server: Server, port: int | None, name: str) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    host, listening = await server.start()
    # Each query makes and drops some hundred objects, and few of them in circles: looking for those seldom is enough.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with ExitStack() as stack:
        click.echo(f"serving {name} on {host}:{listening}")
        if port is not None:
            from wormdb.jobs.node.endpoint import Endpoint
            from wormdb.server.monitor import ServerMonitor

            endpoint = stack.enter_context(Endpoint(ServerMonitor(lambda: _parts(server)), port))
            click.echo(f"health and metrics: http://127.0.0.1:{endpoint.port}")
        sys.stdout.flush()
        await ended.wait()
        await server.stop()


def _parts(server: Server) -> ServerParts:
    assert server.parts is not None, "it was started"
    return server.parts
