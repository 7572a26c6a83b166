"""Commands about servers: where writers of a bucket meet, and which servers and nodes there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from wormdb.engine.log.peers import Peers
from wormdb.errors import ConflictError
from wormdb.jobs.node.claim import remove_node
from wormdb.jobs.node.shards import SHARDS, STANDBYS, order_of
from wormdb.server.commands import Command, refuse_bare
from wormdb.server.peers import read_server_address
from wormdb.server.replies import OK, ErrorReply

if TYPE_CHECKING:
    from wormdb.engine.log.peers import Peer
    from wormdb.server.session import ClientSession

__all__ = ["CLUSTER_COMMANDS"]

_METADATA_VERSION: Final = "1.0.0"
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


def list_silent(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN LIST-SILENT-MEMBERS."""
    peers = _peers(session)
    live = peers.live()
    told = {node: _member(peer, is_live=node in live)["status"] for node, peer in peers.known().items()}
    return [str(node) for node, status in told.items() if status == "UNAVAILABLE"]


# --- shards ---


def _shard(shard: int, servers: list[int]) -> dict[str, Any]:
    primary, *standbys = map(str, order_of(shard, servers)) if servers else ("",)
    return {"primary": primary, "standbys": standbys[:STANDBYS], "status": "READWRITE", "linked_volumes": []}


def _servers(session: ClientSession) -> list[int]:
    """The node ids of servers that live, as heartbeats tell: an observer's view, which asks the store."""
    peers = _peers(session)
    return [
        node
        for node in peers.live()
        if (peer := peers.get(node)) is not None and peer.heartbeat is not None and peer.heartbeat.address
    ]


def describe_cluster(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN DESCRIBE-CLUSTER."""
    servers = _servers(session)
    name = session.service.database.url.rstrip("/").rpartition("/")[2]
    shards = {shard: _shard(shard, servers) for shard in range(SHARDS)}
    return {"metadata_version": _METADATA_VERSION, "cluster_name": name, "bucket": shards}


def describe_shard(session: ClientSession, words: list[bytes]) -> Any:
    """KR.ADMIN DESCRIBE-SHARD BUCKET id."""
    _admin(session)
    kind, text = words[2].decode("utf-8", "replace"), words[3].decode("utf-8", "replace")
    if kind.upper() != "BUCKET":
        raise ErrorReply(f"Invalid shard kind: {kind}")
    if not text.isdigit() or len(text) > 3 or int(text) >= SHARDS:
        raise ErrorReply(f"Invalid shard id: {text}")
    return _shard(int(text), _servers(session))


def initialize(session: ClientSession, words: list[bytes]) -> Any:  # noqa: ARG001 - a handler takes the words
    """KR.ADMIN INITIALIZE-CLUSTER: a bucket needs nothing before it is used."""
    _admin(session)
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
        "LIST-MEMBERS|FIND-MEMBER|DESCRIBE-MEMBER|REMOVE-MEMBER|DESCRIBE-CLUSTER|DESCRIBE-SHARD …",
        "Servers and nodes of the database, and where writers of each shard meet.",
        refuse_bare,
        least=1,
        group="server",
        subcommands=(
            _sub("LIST-MEMBERS", "", "All servers and nodes.", list_members),
            _sub("FIND-MEMBER", "id", "One of them.", find_member, 1, 1),
            _sub("DESCRIBE-MEMBER", "", "This server.", describe_member),
            _sub("REMOVE-MEMBER", "id", "Forget one that is dead.", remove_member, 1, 1),
            _sub("LIST-SILENT-MEMBERS", "", "Those whose heartbeat is old, and that were not stopped.", list_silent),
            _sub("DESCRIBE-CLUSTER", "", "All shards, with the servers where writers meet.", describe_cluster),
            _sub("DESCRIBE-SHARD", "BUCKET id", "One of them.", describe_shard, 2, 2),
            _sub("INITIALIZE-CLUSTER", "", "Nothing: a bucket needs no preparation.", initialize),
            _sub("ROUTE", "…", "Refused: routes follow from live servers.", refuse_route, 0, None),
            _sub("SET-SHARD-STATUS", "…", "Refused, as ROUTE.", refuse_route, 0, None),
        ),
    ),
)
