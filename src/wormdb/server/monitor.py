"""What a server tells monitoring systems: its health, and figures. No requests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.jobs.node.endpoint import write_metrics
from wormdb.settings import STORE_SILENCE_SECONDS
from wormdb.system.installed import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.jobs.node.endpoint import MetricFamily
    from wormdb.server.parts import ServerParts

__all__ = ["ServerMonitor"]


@dataclass(frozen=True, slots=True)
class ServerMonitor:
    """What an endpoint shows of a server that was started."""

    parts: Callable[[], ServerParts]

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether it is well: the store answers what it is asked."""
        parts = self.parts()
        silence = _silence(parts)
        is_well = silence < STORE_SILENCE_SECONDS
        return is_well, {
            "status": "ok" if is_well else "failing",
            "storeAnswers": is_well,
            "storeSilenceSeconds": round(silence, 3),
            "address": parts.service.address,
            "connections": len(parts.connections),
            "waiting": parts.threads.waiting,
        }

    def metrics(self) -> str:
        """All figures."""
        parts = self.parts()
        figures, usage = parts.service.figures, parts.service.database.cost()
        requests = {"get": usage.gets, "head": usage.heads, "list": usage.lists, "put": usage.puts}
        requests["delete"] = usage.deletes
        places = {"loop": figures.in_loop, "threads": figures.in_threads}
        router = parts.service.router
        routed = {"handed": router.handed, "here": router.kept, "unknown": router.unknown}
        servers = max(1, len(router.servers()))
        one: Mapping[str, str] = {}
        families: list[MetricFamily] = [
            ("worm_server_info", "gauge", "Which server this is.", [({"version": __version__}, 1)]),
            ("worm_server_connections", "gauge", "Connections open.", [(one, len(parts.connections))]),
            ("worm_server_connections_total", "counter", "Connections accepted.", [(one, figures.connections)]),
            ("worm_server_connections_refused_total", "counter", "Those over the limit.", [(one, figures.refused)]),
            ("worm_server_connections_dropped_total", "counter", "Those ended by us.", [(one, figures.dropped)]),
            ("worm_server_commands_total", "counter", "Commands received.", [(one, figures.commands)]),
            (
                "worm_server_run_total",
                "counter",
                "Commands on buckets, by where they ran.",
                [({"place": place}, number) for place, number in places.items()],
            ),
            (
                "worm_server_routed_total",
                "counter",
                "Writes of buckets whose writers meet at another server, by what became of them.",
                [({"outcome": outcome}, number) for outcome, number in routed.items()],
            ),
            ("worm_server_servers", "gauge", "Servers that live, this one included.", [(one, servers)]),
            ("worm_server_probes_total", "counter", "Probes of logs for readers.", [(one, parts.gate.probes)]),
            ("worm_server_waiting", "gauge", "Commands that wait for a thread.", [(one, parts.threads.waiting)]),
            ("worm_server_running", "gauge", "Commands that threads work on.", [(one, parts.threads.running)]),
            (
                "worm_server_errors_total",
                "counter",
                "Error replies, by prefix.",
                [({"prefix": prefix}, number) for prefix, number in sorted(figures.faults.copy().items())],
            ),
            ("worm_server_received_bytes_total", "counter", "Bytes received.", [(one, figures.bytes_in)]),
            ("worm_server_sent_bytes_total", "counter", "Bytes sent.", [(one, figures.bytes_out)]),
            ("worm_store_silence_seconds", "gauge", "Time without an answer of the store.", [(one, _silence(parts))]),
            ("worm_requests_total", "counter", "Requests sent.", [({"kind": kind}, n) for kind, n in requests.items()]),
            ("worm_request_dollars_total", "counter", "Their price.", [(one, usage.dollars)]),
        ]
        return write_metrics(families)


def _silence(parts: ServerParts) -> float:
    return parts.service.database._metered.silence  # noqa: SLF001 - this package is a part of the database
