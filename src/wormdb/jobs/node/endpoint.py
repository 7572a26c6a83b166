"""A small HTTP server on loopback: /health and /metrics of a node, for nobody outside this machine."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import msgspec

from wormdb.errors import InvalidRequestError
from wormdb.service.metrics import health_of, metrics_of

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from wormdb.jobs.node.node import Node

__all__ = ["Endpoint"]

_LOOPBACK = "127.0.0.1"
_SECONDS = 10.0


class Endpoint:
    """Serves a node's health and metrics while a `with` statement lasts. The node was started."""

    def __init__(self, node: Node, port: int = 0) -> None:
        """Port 0 is any that is free. Raises InvalidRequestError if it is taken or not allowed."""

        class Handler(_Handler):
            served = node

        try:
            self._server = ThreadingHTTPServer((_LOOPBACK, port), Handler)
        except (OSError, OverflowError) as error:
            raise InvalidRequestError(f"port {port}", reason=str(error), fix="choose another, or 0 for any") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="wormdb-health", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: Node
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer one request."""
        match self.path.partition("?")[0]:
            case "/health":
                is_well, facts = health_of(self.served)
                status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
                self._answer(status, "application/json", msgspec.json.encode(facts))
            case "/metrics":
                self._answer(HTTPStatus.OK, "text/plain; version=0.0.4", metrics_of(self.served).encode())
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
