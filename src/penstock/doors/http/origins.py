"""Decides which host names and web origins the HTTP door accepts. See docs/adr/0016 for the reasons."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Protocol

from penstock.node.connections.addresses import is_wildcard
from penstock.wire.http.request import Request

LOOPBACK_NAME = "localhost"
ANY = "*"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods without side effects need no origin check: a browser does not show the response to a foreign page."""

_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%A-Za-z]+)\]|(?P<name>[^:\[\]/@\s,]+))(?::[0-9]*)?")


class WebSettings(Protocol):
    """The node settings that this door uses."""

    @property
    def host(self) -> str: ...

    @property
    def advertised_host(self) -> str: ...

    @property
    def http_allowed_hosts(self) -> str: ...

    @property
    def http_cors_origins(self) -> str: ...


class Hosts:
    """The host names by which clients may address this door.

    A web page can point its own name at this machine (DNS rebinding) and is then same-origin with the broker. That
    requires a name, so every IP address is accepted, but only names known to be this broker's.
    """

    def __init__(self, settings: WebSettings) -> None:
        names = {LOOPBACK_NAME, settings.host, settings.advertised_host}
        if is_wildcard(settings.host):
            names.add(socket.gethostname())
        listed = _listed(settings.http_allowed_hosts)
        self._names = {_plain(name) for name in (*names, *listed) if name}
        self._suffixes = tuple(name for name in self._names if name.startswith("."))

    def allows(self, request: Request) -> bool:
        """Whether every authority in the request is one of ours. HTTP/1.0 requests may have none."""
        named = [request.headers["host"]] if "host" in request.headers else []
        if request.authority:
            named.append(request.authority)
        return ANY in self._names or all(map(self._allows, named))

    def _allows(self, authority: str) -> bool:
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        name = _plain(match["v6"] or match["name"])
        if _is_address(name):
            return True
        return name in self._names or any(
            name.endswith(suffix) or name == suffix[1:] for suffix in self._suffixes
        )


class Origins:
    """The web origins that may use this door from a browser: those of the settings, and this door's own."""

    def __init__(self, settings: WebSettings) -> None:
        self._allowed = frozenset(_listed(settings.http_cors_origins))

    def allows(self, origin: str) -> bool:
        return ANY in self._allowed or origin in self._allowed

    def is_foreign(self, request: Request) -> bool:
        """Whether a page of another site sent this. Browsers send Origin with every unsafe request and every
        WebSocket, and let any page send those: the server must reject them."""
        origin = request.headers.get("origin")
        if origin is None or self.allows(origin):
            return False
        scheme, _, authority = origin.partition("://")
        return scheme not in ("http", "https") or authority.lower() != request.headers.get("host", "").lower()

    def headers(self, request: Request) -> list[tuple[str, str]]:
        """Headers that allow the requesting page to read the response."""
        origin = request.headers.get("origin")
        if origin is None or not self._allowed:
            return []
        if not self.allows(origin):
            return [("Vary", "Origin")]
        return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]

    def preflight(self, request: Request, methods: str) -> list[tuple[str, str]]:
        """Headers of a preflight response that allow the request."""
        if "access-control-request-method" not in request.headers or not self.headers(request):
            return []
        return [
            ("Access-Control-Allow-Methods", methods),
            ("Access-Control-Allow-Headers", "Content-Type, Content-Encoding"),
            ("Access-Control-Max-Age", "600"),
        ]


def _listed(setting: str) -> list[str]:
    return setting.replace(",", " ").split()


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
