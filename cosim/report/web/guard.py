"""Keeps strangers out: who may ask, from which page, and what a page of ours may do.

A page from anywhere in the browser must not talk to a dashboard on loopback. DNS rebinding makes
such a page look local, so the name in the `Host` header is checked: names must be known, addresses
in numbers cannot be rebound. Requests that change something, and WebSockets, must come from a page
of the same origin. With a password every request needs it, or the cookie that the first one with
it was given: browsers send passwords (RFC 7617) with pages, but not all of them with WebSockets.
"""

from __future__ import annotations

import base64
import ipaddress
import secrets
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cosim.talk.control import same_token

POLICY = "; ".join((
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data: blob:",
    "connect-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
))  # fmt: skip
COOKIE = "cosim-login"
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "geolocation=(), camera=(), microphone=()",
    "cache-control": "no-cache",
}


class WebGuard:
    """ASGI middleware: refuses unknown hosts, foreign origins and strangers, and adds `HEADERS`."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), password: str = "") -> None:
        self._app, self._password = app, password
        self._login = secrets.token_urlsafe() if password else ""
        self._hosts = {"localhost", socket.gethostname().lower(), *(host.lower() for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        foreign = origin is not None and urlsplit(origin).netloc.lower() != host.lower()
        if not self.knows(host) or (changes and foreign):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await PlainTextResponse("this address is not served here", 403, HEADERS)(scope, receive, send)
            return
        if self._password and not self._admitted(headers):
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                asks = {**HEADERS, "www-authenticate": 'Basic realm="cosim", charset="UTF-8"'}
                await PlainTextResponse("this dashboard needs its password", 401, asks)(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
                if self._login:
                    cookie = f"{COOKIE}={self._login}; HttpOnly; SameSite=Strict; Path=/"
                    MutableHeaders(scope=message).append("set-cookie", cookie)
            await send(message)

        await self._app(scope, receive, guarded)

    def _admitted(self, headers: Headers) -> bool:
        """Whether a request has the password, with any name, or the cookie."""
        for part in headers.get("cookie", "").split(";"):
            name, _, value = part.strip().partition("=")
            if name == COOKIE and same_token(value, self._login):
                return True
        kind, _, given = headers.get("authorization", "").partition(" ")
        try:
            _, _, word = base64.b64decode(given, validate=True).decode("utf-8").partition(":")
        except ValueError:
            return False
        return kind.lower() == "basic" and same_token(word, self._password)

    def knows(self, host: str) -> bool:
        """Whether `host`, as in a Host header, is one that we answer to."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
