"""worm node run: one service, in the foreground."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import URL
from wormdb.cli.show.logs import LOG_FORMATS, log_to_stderr
from wormdb.cli.show.text import camel, counted, print_json
from wormdb.cli.verbs import Verb
from wormdb.errors import InvalidRequestError, WormError
from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import Pace
from wormdb.settings import NODE_KILL_SECONDS, NODE_WINDOW_MS, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from wormdb.jobs.node.rounds import Round

__all__ = ["command"]

log = logging.getLogger(__name__)

EXAMPLES = (
    "worm node run --url s3://bucket/prefix",
    "worm node run --id 3 --port 9464",
    "worm node run --port 9464 --host 0.0.0.0 --log-format json",
    "worm node run --once --json",
)


@click.command("run", cls=Verb, examples=EXAMPLES)
@click.option("--id", "node", type=int, metavar="N", help="The node's id, 0 to 255. [default: the lowest free one]")
@click.option("--once", is_flag=True, help="Do one round for every collection and exit, for cron.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), help="Serve /health and /metrics; 0 takes a free port and prints it."
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Where --port listens: 0.0.0.0 or :: for all networks, without a password.  [default: loopback]",
)
@click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default="text",
    show_default=True,
    help="What standard error has: lines for people, or an object of JSON in each.",
)
@click.option(
    "--interval",
    type=int,
    default=NODE_WINDOW_MS,
    show_default=True,
    metavar="MS",
    help="How long a turn is, and how often a busy node beats; the same for all nodes.",
)
@click.option("--json", "as_json", is_flag=True, help="With --once, print one JSON document.")
@URL
def command(url: str, node: int | None, interval: int, *, once: bool, as_json: bool, **options: Any) -> int:
    """Look after a database until stopped, or for one round.

    The id is held by a heartbeat in the bucket: a second process with it is refused. SIGTERM and SIGINT end the node
    after the step that it is in. Killing it at any moment loses nothing: another node, or a writer, goes on.
    Errors of a collection are logged on standard error, shown by worm node list, and tried again later.
    """
    port, host = options["port"], options["host"]
    if once and port is not None:
        raise InvalidRequestError("--once with --port", reason="one round is over before anybody asks")
    if host is not None and port is None:
        raise InvalidRequestError(f"--host {host}", reason="nothing is served without a port", fix="add --port 9464")
    log_to_stderr(options["log_format"])
    with _Watchdog() as watchdog, connect(url, settings=Settings(forward="manual")) as database:
        service = Node(database, node=node, pace=Pace(interval_ms=interval))
        if once:
            rounds = service.run_once()
            _print_rounds(rounds, as_json=as_json)
            return 1 if any(each.error for each in rounds) else 0
        try:
            _on_signals(lambda *_: _give_up(watchdog))
            service.start()
        except _ForcedStop:
            click.echo("stopped before it had an id")
            return 0
        _on_signals(lambda *_: _end(service, watchdog))
        with ExitStack() as stack:
            click.echo(f"node {service.id} looks after {database.url}")
            if port is not None:
                try:
                    _serve(stack, service, host, port)
                except WormError:
                    service.stop()  # its id is free at once
                    raise
            sys.stdout.flush()
            service.run()
        click.echo(f"node {service.id} has stopped")
    return 0


def _serve(stack: ExitStack, service: Node, host: str | None, port: int) -> None:
    """Serve health and metrics until the stack is left."""
    from wormdb.jobs.node.endpoint import Endpoint, NodeMonitor, is_loopback

    endpoint = stack.enter_context(Endpoint(NodeMonitor(service), port, host))
    if not is_loopback(endpoint.host):
        log.warning(
            "health and metrics are served on %s to any machine that reaches it, without a password: collections and"
            " errors are named there",
            endpoint.host,
        )
    click.echo(f"health and metrics: {endpoint.url}")


class _Watchdog:
    """Ends the process some time after it was told to stop, even if something waits for ever.

    A killed node loses nothing. A node that stops in time leaves the `with` statement before.
    """

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(NODE_KILL_SECONDS, _kill)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _end(service: Node, watchdog: _Watchdog) -> None:
    watchdog.start()
    service.end()


def _kill() -> None:
    sys.stderr.write("the node was stopped while it waited for the store\n")
    sys.stderr.flush()
    os._exit(1)


class _ForcedStop(BaseException):
    """A signal came while the node waited for its id."""


def _give_up(watchdog: _Watchdog) -> None:
    watchdog.start()
    raise _ForcedStop


def _on_signals(act: Callable[..., None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, act)


def _print_rounds(rounds: Sequence[Round], *, as_json: bool) -> None:
    if as_json:
        print_json([camel(each) for each in rounds])
        return
    for each in rounds:
        news = counted(each.entries, "entry", "entries") if each.entries else "nothing new"
        removed = f", {counted(each.purged, 'document', 'documents')} purged" if each.purged else ""
        removed += f", {counted(each.collected, 'object', 'objects')} collected" if each.collected else ""
        failed = f": {each.error}" if each.error else ""
        click.echo(f"{each.collection}: {news}, through {each.through:,}{removed}{failed}")
    if not rounds:
        click.echo("no collections")
