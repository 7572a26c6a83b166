"""A small HTTP server: /health and /metrics of a process, for this machine unless another address is told."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from wormdb.errors import InvalidRequestError
from wormdb.settings import STORE_SILENCE_SECONDS
from wormdb.system.installed import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType

    from wormdb.jobs.node.node import Node

__all__ = [
    "Endpoint",
    "MetricFamily",
    "Monitored",
    "NodeMonitor",
    "health_of",
    "is_loopback",
    "metrics_of",
    "write_metrics",
]


# --- What a node tells monitoring systems: its health, and figures in the text format of Prometheus. No requests.

_Sample = tuple["Mapping[str, str]", float]
MetricFamily = tuple[str, str, str, "Iterable[_Sample]"]
"""Name, kind, text, and samples: labels with a value."""


class Monitored(Protocol):
    """What an endpoint shows."""

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether the process is well, and what there is to know about that. No requests."""
        ...

    def metrics(self) -> str:
        """All figures, in the text format of Prometheus. No requests."""
        ...


@dataclass(frozen=True, slots=True)
class NodeMonitor:
    """What an endpoint shows of a node."""

    node: Node

    def health(self) -> tuple[bool, dict[str, Any]]:
        """As `health_of`."""
        return health_of(self.node)

    def metrics(self) -> str:
        """As `metrics_of`."""
        return metrics_of(self.node)


def health_of(node: Node) -> tuple[bool, dict[str, Any]]:
    """Whether a node is well, and what there is to know about that.

    It is not if it lost its id, its heartbeats do not get through, or the store has not answered for a while.
    Collections that fail are named, and leave it well: others go on.
    """
    failing = {each.prefix: each.error for each in node.watchlist.known.values() if each.error}
    is_well = node.is_well and node.store_silence < STORE_SILENCE_SECONDS
    return is_well, {
        "status": "ok" if is_well else "failing",
        "storeAnswers": node.store_silence < STORE_SILENCE_SECONDS,
        "storeSilenceSeconds": round(node.store_silence, 3),
        "node": node.id,
        "incarnation": node.incarnation,
        "silenceSeconds": round(node.silence, 3),
        "collections": len(node.watchlist.known),
        "failing": failing,
        "lost": None if node.lost is None else str(node.lost),
    }


def metrics_of(node: Node) -> str:
    """All figures of a node."""
    usage, watched = node.database.cost(), list(node.watchlist.known.values())
    requests = {"get": usage.gets, "head": usage.heads, "list": usage.lists, "put": usage.puts, "delete": usage.deletes}
    about = {"node": str(node.id), "incarnation": str(node.incarnation), "version": __version__}
    one: Mapping[str, str] = {}
    families: list[MetricFamily] = [
        ("worm_node_info", "gauge", "Which node this is.", [(about, 1)]),
        ("worm_node_up", "gauge", "Whether the node holds its id and is heard.", [(one, node.is_well)]),
        ("worm_node_silence_seconds", "gauge", "Time since the last heartbeat.", [(one, node.silence)]),
        ("worm_store_silence_seconds", "gauge", "Time without an answer of the store.", [(one, node.store_silence)]),
        ("worm_node_heartbeats_total", "counter", "Heartbeats written.", [(one, node.beats)]),
        ("worm_node_heartbeats_missed_total", "counter", "Heartbeats that failed.", [(one, node.missed)]),
        ("worm_node_ring_size", "gauge", "Nodes that live.", [(one, len(node.ring()))]),
        ("worm_node_clock_offset_seconds", "gauge", "Wall clock less store's.", [(one, node.time.offset_ms / 1000)]),
        ("worm_requests_total", "counter", "Requests sent.", [({"kind": kind}, n) for kind, n in requests.items()]),
        ("worm_request_dollars_total", "counter", "Their price.", [(one, usage.dollars)]),
    ]
    figures = {
        "log_number": ("gauge", "Newest log number known."),
        "lag_entries": ("gauge", "Log entries known and not brought forward."),
        "rounds_total": ("counter", "Rounds done."),
        "round_seconds_total": ("counter", "Time that they took."),
        "entries_total": ("counter", "Log entries brought forward."),
        "errors_total": ("counter", "Rounds that failed."),
    }
    values = [(each.number, each.lag, each.rounds, each.seconds, each.entries, each.errors) for each in watched]
    for place, (name, (kind, text)) in enumerate(figures.items()):
        samples = [({"collection": each.prefix}, row[place]) for each, row in zip(watched, values, strict=True)]
        families.append((f"worm_collection_{name}", kind, text, samples))
    return write_metrics(families)


def write_metrics(families: Iterable[MetricFamily]) -> str:
    """Figures in the text format of Prometheus."""
    return "".join(_family(*family) for family in families)


def _family(name: str, kind: str, text: str, samples: Iterable[_Sample]) -> str:
    lines = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        lines.append(f"{name}{{{shown}}} {float(value):.15g}" if shown else f"{name} {float(value):.15g}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_LOOPBACK = "127.0.0.1"
_SECONDS = 10.0


class Endpoint:
    """Serves health and metrics while a `with` statement lasts. A node that is monitored was started."""

    def __init__(self, monitored: Monitored, port: int = 0, host: str | None = None) -> None:
        """Port 0 is any that is free, and without a host it is loopback alone.

        Raises InvalidRequestError if the port is taken or not allowed, or the host is not an address of this machine.
        """

        class Handler(_Handler):
            served = monitored

        self.host = _LOOPBACK if host is None else host
        try:
            server = _ServerOfSix if ":" in self.host else ThreadingHTTPServer
            self._server = server((self.host, port), Handler)
        except (OSError, OverflowError) as error:
            what = f"port {port}" if host is None else f"port {port} of {host}"
            raise InvalidRequestError(what, reason=str(error), fix="choose another, or 0 for any") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="wormdb-health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """Where it can be asked."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address. No requests."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _ServerOfSix(ThreadingHTTPServer):
    """For addresses of IPv6."""

    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    served: Monitored
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer one request."""
        match self.path.partition("?")[0]:
            case "/health":
                is_well, facts = self.served.health()
                status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, "application/json", msgspec.json.encode(facts))
            case "/metrics":
                self._answer(HTTPStatus.OK, "text/plain; version=0.0.4", self.served.metrics().encode())
            case _:
                self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/health and /metrics are here\n")

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the signature of http.server
        """Say nothing of each request."""
