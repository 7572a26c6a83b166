"""Commands about servers: where writers of a bucket meet, and which servers and nodes there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.log.peers import Peers
from wormdb.errors import ConflictError
from wormdb.jobs.node.claim import remove_node
from wormdb.server.commands import Command, refuse_bare
from wormdb.server.peers import read_server_address
from wormdb.server.replies import OK, ErrorReply

if TYPE_CHECKING:
    from wormdb.engine.log.peers import Peer
    from wormdb.server.session import ClientSession

__all__ = ["CLUSTER_COMMANDS"]

_STATES: Final = {"running": "RUNNING", "stopped": "STOPPED", "removed": "STOPPED"}


def locate(session: ClientSession, words: list[bytes]) -> Any:
    """BUCKET.LOCATE bucket."""
    bucket = session.bucket(words[1])
    bucket.check_there()
    service = session.service
    routes = service.router.routes(bucket.prefix, service.shards(bucket), service.address)
    return [part for each in routes for part in (each.shard, each.primary, each.standbys)]


# --- members ---


def _admin(session: ClientSession) -> None:
    if not session.account.is_admin:
        raise ErrorReply("this user has no permissions to run 'kr.admin'", "NOPERM")


def _peers(session: ClientSession) -> Peers:
    _admin(session)
    peers = Peers(session.service.database.store, session.service.clock)
    peers.look()
    return peers


def _member(peer: Peer, *, is_live: bool) -> dict[str, Any]:
    heartbeat = peer.heartbeat
    if heartbeat is None:
        return {"status": "UNKNOWN"}
    host, port = read_server_address(heartbeat.address)[:2] if heartbeat.address else ("", 0)
    status = _STATES[heartbeat.state]
    return {
        "status": "UNAVAILABLE" if status == "RUNNING" and not is_live else status,
        "process_id": heartbeat.incarnation,
        "external_host": host,
        "external_port": port,
        "internal_host": host,
        "internal_port": port,
        "latest_heartbeat": heartbeat.sequence,
    }


def list_members(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN LIST-MEMBERS."""
    peers = _peers(session)
    live = peers.live()
    return {str(node): _member(peer, is_live=node in live) for node, peer in peers.known().items()}


def _found(session: ClientSession, word: bytes) -> tuple[Peers, int]:
    text = word.decode("utf-8", "replace")
    if not text.isdigit() or len(text) > 3:
        _admin(session)
        raise ErrorReply(f"Invalid memberId: {text}")
    peers = _peers(session)
    if int(text) not in peers.known():
        raise ErrorReply(f"Member: {text} not registered")
    return peers, int(text)


def find_member(session: ClientSession, words: list[bytes]) -> Any:
    """KR.ADMIN FIND-MEMBER id."""
    peers, node = _found(session, words[2])
    return {"member_id": str(node), **_member(peers.known()[node], is_live=node in peers.live())}


def describe_member(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN DESCRIBE-MEMBER."""
    node = session.service.router.id
    if node is None:
        _admin(session)
        raise ErrorReply("this server is no member: it was started with --routing off")
    peers = _peers(session)
    peer = peers.get(node)
    if peer is None:
        raise ErrorReply(f"Member: {node} not registered")
    return {"member_id": str(node), **_member(peer, is_live=node in peers.live())}


def remove_member(session: ClientSession, words: list[bytes]) -> Any:
    """KR.ADMIN REMOVE-MEMBER id."""
    peers, node = _found(session, words[2])
    if node in peers.live():
        raise ErrorReply("Member in RUNNING status cannot be removed")
    try:
        remove_node(session.service.database.store, peers, node)
    except ConflictError as error:
        raise ErrorReply("Member in RUNNING status cannot be removed") from error
    return OK


def refuse_route(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN ROUTE …, SET-SHARD-STATUS …."""
    _admin(session)
    raise ErrorReply("routes follow from the servers that live: start, stop or remove a server instead")


def _sub(name: str, syntax: str, summary: str, run: Any, least: int = 0, most: int | None = 0) -> Command:
    return Command(name, syntax, summary, run, least=least, most=most, place="thread", group="server")


CLUSTER_COMMANDS: Final = (
    Command(
        "BUCKET.LOCATE",
        "bucket",
        "The shard of a bucket, the server where its writers meet, and those that stand by.",
        locate,
        least=1,
        most=1,
        place="thread",
        bucket_at=1,
        group="bucket",
    ),
    Command(
        "KR.ADMIN",
        "LIST-MEMBERS|FIND-MEMBER|DESCRIBE-MEMBER|REMOVE-MEMBER …",
        "Servers and nodes of the database.",
        refuse_bare,
        least=1,
        group="server",
        subcommands=(
            _sub("LIST-MEMBERS", "", "All servers and nodes.", list_members),
            _sub("FIND-MEMBER", "id", "One of them.", find_member, 1, 1),
            _sub("DESCRIBE-MEMBER", "", "This server.", describe_member),
            _sub("REMOVE-MEMBER", "id", "Forget one that is dead.", remove_member, 1, 1),
            _sub("ROUTE", "…", "Refused: routes follow from live servers.", refuse_route, 0, None),
            _sub("SET-SHARD-STATUS", "…", "Refused, as ROUTE.", refuse_route, 0, None),
        ),
    ),
)
