"""What the endpoint answers over HTTP: a request's head in, a response or an open door out.

Decisions are made in `core/access.py`; this module gathers what it has to know from the socket and writes
the responses. Nothing is spawned here. Read `server.py` next.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from importlib.metadata import version

from websockets.asyncio.server import ServerConnection
from websockets.datastructures import Headers
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from .core.access import Circumstances, Grant, Refusal, RequestHead, Route, Rules, decide
from .options import TransportOptions

__all__ = ["Doorkeeper"]

logger = logging.getLogger(__name__)


class Doorkeeper:
    """Answers every request of one server, before the 101."""

    def __init__(
        self,
        rules: Rules,
        options: TransportOptions,
        circumstances: Callable[[ServerConnection], Circumstances],
    ) -> None:
        """`circumstances` tells what holds for a connection at this moment."""
        self._rules = rules
        self._options = options
        self._circumstances = circumstances
        self._grants: dict[ServerConnection, Grant] = {}
        self.remote_cwd: str | None = None
        self.supported_agent_families: Sequence[str] = ()

    def process_request(self, connection: ServerConnection, request: Request) -> Response | None:
        """The hook of `websockets.serve`: None lets the opening handshake go on."""
        head = RequestHead.of(request.method, request.path, request.headers.raw_items())
        decision = decide(head, self._rules, self._circumstances(connection))
        if isinstance(decision, Refusal):
            logger.info("refused %s: %d %s", connection.remote_address, decision.status, decision.reason)
            return _response(decision.status, decision.reason + "\n", headers=decision.headers, head=head)
        if decision.route is Route.LINK:
            self._grants[connection] = decision
            return None
        return self._serve(decision, head)

    def select_subprotocol(
        self, connection: ServerConnection, offered: Sequence[Subprotocol]
    ) -> Subprotocol | None:
        """The hook of `websockets.serve`: what `core/access.py` has chosen."""
        grant = self._grants[connection]
        return None if grant.subprotocol is None else Subprotocol(grant.subprotocol)

    def process_response(self, connection: ServerConnection, request: Request, response: Response) -> None:
        """The hook of `websockets.serve`: names the connection in the 101."""
        self._grants.pop(connection, None)
        if response.status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            response.headers["Acp-Connection-Id"] = secrets.token_urlsafe(18)

    def _serve(self, grant: Grant, head: RequestHead) -> Response:
        if grant.route is Route.HEALTH:
            return _response(200, "ok", head=head)
        metadata = json.dumps(self._metadata(grant))
        return _response(200, metadata, content_type="application/json", head=head)

    def _metadata(self, grant: Grant) -> dict[str, object]:
        rules, options = self._rules, self._options
        return {
            "transport_kind": "websocket",
            "transport_version": 1,
            "package_version": version("acpremote"),
            "auth_required": rules.token is not None,
            "supported_auth_modes": [] if rules.token is None else ["bearer"],
            "max_size": options.max_size,
            "max_queue": 16,
            "compression": options.compression,
            "health_path": "/healthz",
            "metadata_path": rules.mount_path,
            "websocket_path": rules.websocket_path,
            "supported_agent_families": list(self.supported_agent_families),
            "remote_cwd": self.remote_cwd if grant.authorized else None,
        }


def _response(
    status: int,
    text: str,
    *,
    head: RequestHead,
    content_type: str = "text/plain; charset=utf-8",
    headers: Sequence[tuple[str, str]] = (),
) -> Response:
    body = text.encode()
    fields = Headers(
        [
            ("Content-Type", content_type),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            *headers,
        ]
    )
    return Response(status, HTTPStatus(status).phrase, fields, b"" if head.method == "HEAD" else body)
