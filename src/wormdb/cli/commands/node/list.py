"""worm node list: the services of a database."""

from __future__ import annotations

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, URL
from wormdb.cli.show.text import TextColumn, camel, print_json, print_ruled
from wormdb.cli.verbs import Verb
from wormdb.jobs.node.overview import CollectionTurn, NodeStatus, overview_of
from wormdb.settings import NODE_WINDOW_MS, Settings

__all__ = ["command"]

NODES = (
    TextColumn("Node", 0, is_right=True),
    TextColumn("State", 0),
    TextColumn("Beat", 0, is_right=True),
    TextColumn("Incarnation", 0),
    TextColumn("Version", 0),
    TextColumn("Process", 0),
    TextColumn("Serves", 0),
    TextColumn("Shards", 0),
)
COLLECTIONS = (
    TextColumn("Collection", 0),
    TextColumn("Turn", 0, is_right=True),
    TextColumn("Log", 0, is_right=True),
    TextColumn("Lag", 0, is_right=True),
    TextColumn("Bytes", 0, is_right=True),
    TextColumn("Shard", 0, is_right=True),
    TextColumn("Server", 0, is_right=True),
    TextColumn("Errors", 0),
)


@click.command("list", cls=Verb, examples=("worm node list", "worm node list --json"))
@click.option(
    "--interval",
    type=click.IntRange(1),
    default=NODE_WINDOW_MS,
    show_default=True,
    metavar="MS",
    help="As of the nodes.",
)
@URL
@AS_JSON
def command(url: str, interval: int, *, as_json: bool) -> None:
    """Show nodes and servers, whose turn it is, and how far each collection is behind its log.

    Beat is the time since a node's heartbeat changed, by the store's clock: after three of its intervals it counts as
    dead. Serves is where clients of worm serve connect; such a node is the first of the shards behind it, whose writers
    meet there. Lag is the number of log entries that are not brought forward. Writes nothing.
    """
    with connect(url, settings=Settings(forward="manual")) as database:
        found = overview_of(database, window_ms=interval)
    if as_json:
        nodes, collections = ([camel(each) for each in part] for part in (found.nodes, found.collections))
        print_json({"nodes": nodes, "collections": collections})
        return
    if found.nodes:
        print_ruled(NODES, [_node_row(each) for each in found.nodes])
    else:
        click.echo("no nodes: writers bring the log forward")
    if found.collections:
        click.echo("")
        print_ruled(COLLECTIONS, [_collection_row(each) for each in found.collections])


def _node_row(node: NodeStatus) -> tuple[str, ...]:
    beat = f"{node.age_seconds:,.0f} s"
    told = (node.incarnation[:8], node.version, node.name, node.address, " ".join(map(str, node.shards)))
    return (str(node.node), node.state, beat, *(each or "--" for each in told))


def _collection_row(each: CollectionTurn) -> tuple[str, ...]:
    errors = "; ".join(f"node {node}: {error}" for node, error in each.errors.items())
    turn = "--" if each.turn is None else str(each.turn)
    server = "--" if each.server is None else str(each.server)
    lag = (f"{each.number:,}", f"{each.lag_entries:,}", f"{each.lag_bytes:,}")
    return (each.collection, turn, *lag, str(each.shard), server, errors)
