"""worm node remove: take an id from a process that should not have it."""

from __future__ import annotations

import click

from wormdb.api.database import connect
from wormdb.cli.input.place import AS_JSON, URL, YES, is_confirmed
from wormdb.cli.show.text import camel, print_json
from wormdb.cli.verbs import Verb
from wormdb.engine.log.peers import Peers
from wormdb.jobs.node.claim import remove_node
from wormdb.settings import Settings
from wormdb.system.clock import SystemClock

__all__ = ["command"]


@click.command("remove", cls=Verb, examples=("worm node remove 3 --yes",))
@click.argument("node", type=click.IntRange(0, 255))
@URL
@YES
@AS_JSON
def command(url: str, node: int, *, yes: bool, as_json: bool) -> None:
    """Take an id from the node that holds it.

    Its process stops at its next heartbeat, however long it was suspended, and can never beat again. The id is free
    at once. Stop a node that you can reach by SIGTERM instead.
    """
    if not is_confirmed(f"Remove node {node}?", yes=yes):
        return
    with connect(url, settings=Settings(forward="manual")) as database:
        removed = remove_node(database.store, Peers(database.store, SystemClock()), node)
    if as_json:
        print_json(camel(removed))
    else:
        click.echo(f"node {node} is removed; it was {removed.name}, incarnation {removed.incarnation[:8]}")
