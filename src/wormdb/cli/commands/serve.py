"""worm serve: a database behind Redis's protocol, in the foreground."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wormdb.api.database import connect
from wormdb.cli.verbs import Verb
from wormdb.errors import PermissionDeniedError
from wormdb.server.accounts import Accounts, hash_password
from wormdb.server.fellow import ServerNode, server_pace
from wormdb.server.host import Server, new_loop, read_address
from wormdb.server.parts import ServerOptions
from wormdb.server.peers import PeerAccess, PeerWires
from wormdb.server.routing import WriteRouter
from wormdb.server.service import Service, open_served
from wormdb.settings import NODE_WINDOW_MS, Settings
from wormdb.system.clock import SystemChance, SystemClock

if TYPE_CHECKING:
    from wormdb.server.parts import ServerParts
    from wormdb.server.routing import RoutingMode

__all__ = ["command"]

EXAMPLES = (
    "worm serve ./data --json",
    "worm serve s3://bucket/prefix --resp 127.0.0.1:5484 --port 9464",
    "worm serve s3://bucket/prefix --resp 0.0.0.0:5484 --users users.json --cert server.pem --key server.key",
    "worm serve s3://bucket/prefix --resp 0.0.0.0:5484 --advertise db1:5484 --users users.json --peer-user servers",
    "worm serve --hash-password",
)
_SPARE_FILES = 500
"""Open files of a server beside its connections: of the store, and of other servers."""
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("serve", cls=Verb, examples=EXAMPLES)
@click.argument("url", envvar="WORM_URL", required=False)
@click.option("--resp", default="127.0.0.1:5484", show_default=True, metavar="HOST:PORT", help="Where to listen.")
@click.option("--json", "is_json", is_flag=True, help="Sessions begin with JSON and ids as text, instead of BSON.")
@click.option("--users", type=_FILE, help="Users with hashed passwords and rights by namespace, as JSON.")
@click.option("--cert", type=_FILE, help="The certificate of the server, for TLS.")
@click.option("--key", type=_FILE, help="Its key.")
@click.option("--connections", type=click.IntRange(1), default=10_000, show_default=True, help="At most at once.")
@click.option(
    "--idle", type=float, default=0.0, metavar="SECONDS", help="Close connections idle for so long. [0: never]"
)
@click.option("--port", type=int, help="Serve /health and /metrics on loopback; 0 takes a free port and prints it.")
@click.option(
    "--routing",
    type=click.Choice(["off", "prefer", "strict"]),
    default="prefer",
    show_default=True,
    help="Hand writes to the server where writers of a bucket meet, refuse them there, or neither.",
)
@click.option("--advertise", metavar="HOST:PORT", help="Where other servers reach this one. [default: as --resp]")
@click.option("--peer-user", help="The user, with admin rights, by which servers hand writes to each other.")
@click.option(
    "--peer-password", envvar="WORM_PEER_PASSWORD", help="Its password; give it as WORM_PEER_PASSWORD, not here."
)
@click.option("--peer-ca", type=_FILE, help="Certificates that other servers are trusted by. [default: the system's]")
@click.option("--id", "node", type=int, metavar="N", help="The node id, 0 to 255. [default: the lowest free one]")
@click.option(
    "--interval", type=int, default=NODE_WINDOW_MS, show_default=True, metavar="MS", help="As of worm node run."
)
@click.option("--hash-password", "hashes", is_flag=True, help="Only ask for a password, and print its hash.")
def command(  # noqa: PLR0913 - one argument for each option
    *,
    url: str | None,
    resp: str,
    is_json: bool,
    users: Path | None,
    cert: Path | None,
    key: Path | None,
    connections: int,
    idle: float,
    port: int | None,
    routing: RoutingMode,
    advertise: str | None,
    peer_user: str | None,
    peer_password: str | None,
    peer_ca: Path | None,
    node: int | None,
    interval: int,
    hashes: bool,
) -> int:
    """Serve a database to clients of Redis's protocol, by Kronotop's commands.

    Whatever speaks RESP2 or RESP3 (redis-cli, redis-py, ioredis, node-redis, go-redis) finds collections as buckets and
    folders as namespaces. Without --users the server listens on this machine only. SIGTERM and SIGINT end it after the
    commands that are at work; killing it at any moment loses nothing that was acknowledged.

    Several servers of one database are equals: each is a node too, finds the others by their heartbeats, and hands
    writes of a bucket to one of them, so that they share entries of the log. With --routing off a server has no node.
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
    _allow_files(connections + _SPARE_FILES)
    clock, chance = SystemClock(), SystemChance()
    with open_served(url, settings=Settings(), clock=clock, chance=chance) as database:
        service = Service(database, accounts=accounts, clock=clock, chance=chance, is_json=is_json)
        server = Server(service, options)
        fellow = None
        if routing != "off":
            access = PeerAccess(peer_user, peer_password, peer_ca)
            fellow = _Fellow(url, routing, access, advertise, node, interval)
        loop = new_loop()
        try:
            loop.run_until_complete(_run(server, service, port, fellow))
        finally:
            loop.close()
    click.echo("the server has stopped")
    return 0


@dataclass(frozen=True, slots=True)
class _Fellow:
    """How a server joins others."""

    url: str
    routing: RoutingMode
    access: PeerAccess
    advertised: str | None
    node: int | None
    interval: int

    def join(self, service: Service, stack: ExitStack, *, is_encrypted: bool) -> None:
        """Claim a node id, and route writes from now on; a process that may only read serves alone.

        Costs as `Node.start`.
        """
        place = self.advertised or _reachable(service.address)
        host, port = read_address(place)
        shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        database = stack.enter_context(connect(self.url, settings=Settings(forward="manual")))
        address = f"{'resps' if is_encrypted else 'resp'}://{shown}"
        pace = server_pace(self.interval)
        fellow = ServerNode(database, address, service.clock, node=self.node, pace=pace)
        try:
            live = stack.enter_context(fellow)
        except PermissionDeniedError as error:
            logging.getLogger(__name__).warning("without a heartbeat other servers do not know this one: %s", error)
            return
        wires = PeerWires(self.access)
        service.router = WriteRouter(self.routing, live, wires, clock=service.clock, chance=service.chance)
        service.router.later = service.later


def _allow_files(wanted: int) -> None:
    """Have the system allow as many open files, which connections are; it says so if it does not."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    if most < wanted:
        logging.getLogger(__name__).warning(
            "the system allows %d open files: raise `ulimit -n` to %d for as many connections", most, wanted
        )


def _reachable(address: str) -> str:
    """An address that others can use, of one that a server listens on."""
    host, port = read_address(address)
    return f"{socket.gethostname()}:{port}" if host in ("0.0.0.0", "::") else address  # noqa: S104 - it is compared


async def _run(server: Server, service: Service, port: int | None, fellow: _Fellow | None) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    host, listening = await server.start()
    # Each query makes and drops some hundred objects, and few of them in circles: looking for those seldom is enough.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    with ExitStack() as stack:
        if fellow is not None:
            join = partial(fellow.join, service, stack, is_encrypted=server.is_encrypted)
            await loop.run_in_executor(None, join)
        node = "" if service.router.id is None else f" as node {service.router.id}"
        click.echo(f"serving {service.database.url}{node} on {host}:{listening}")
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
