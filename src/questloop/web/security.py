"""Security headers of every reply, and the check of the token that allows writing."""

from __future__ import annotations

import hmac

from fastapi import HTTPException, Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class SecureHeaders:
    """ASGI middleware; plain ASGI, since Starlette's base class buffers event streams."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)


def check_token(request: Request, token: str | None) -> None:
    """Raise 403 where nothing may be written, 401 where the request does not bear the token."""
    if token is None:
        raise HTTPException(403, "read-only: start the dashboard with DASHBOARD_TOKEN set to write")
    given = request.headers.get("authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise HTTPException(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
