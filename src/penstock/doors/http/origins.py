"""Which host names and which web pages the HTTP door accepts. Decides; never answers. docs/adr/0016 says why."""

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
"""These change nothing, so they need no check of the page: a browser does not show it the answer."""

_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%A-Za-z]+)\]|(?P<name>[^:\[\]/@\s,]+))(?::[0-9]*)?")


class WebSettings(Protocol):
    """The settings of a node that this door goes by."""

    @property
    def host(self) -> str: ...

    @property
    def advertised_host(self) -> str: ...

    @property
    def http_allowed_hosts(self) -> str: ...

    @property
    def http_cors_origins(self) -> str: ...


class Hosts:
    """The names by which clients may address this door.

    A page can point its own name at this machine (DNS rebinding) and is then same-origin with the broker. It needs a
    name for that, so every IP address is accepted, and of names only those that are known to be this broker's.
    """

    def __init__(self, settings: WebSettings) -> None:
        names = {LOOPBACK_NAME, settings.host, settings.advertised_host}
        if is_wildcard(settings.host):
            names.add(socket.gethostname())
        listed = _listed(settings.http_allowed_hosts)
        self._names = {_plain(name) for name in (*names, *listed) if name}
        self._suffixes = tuple(name for name in self._names if name.startswith("."))

    def allows(self, request: Request) -> bool:
        """Whether every authority that the request names is one of ours. HTTP/1.0 may name none."""
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
    """The web pages that may use this door from a browser: those of the settings, and those of this door itself."""

    def __init__(self, settings: WebSettings) -> None:
        self._allowed = frozenset(_listed(settings.http_cors_origins))

    def allows(self, origin: str) -> bool:
        return ANY in self._allowed or origin in self._allowed

    def is_foreign(self, request: Request) -> bool:
        """Whether a page of another site sent this. Browsers send Origin with every request that changes something and
        with every WebSocket, and let any page open those: it is left to the server to refuse."""
        origin = request.headers.get("origin")
        if origin is None or self.allows(origin):
            return False
        scheme, _, authority = origin.partition("://")
        return scheme not in ("http", "https") or authority.lower() != request.headers.get("host", "").lower()

    def headers(self, request: Request) -> list[tuple[str, str]]:
        """What tells a browser that the page which asks may read the answer."""
        origin = request.headers.get("origin")
        if origin is None or not self._allowed:
            return []
        if not self.allows(origin):
            return [("Vary", "Origin")]
        return [("Access-Control-Allow-Origin", origin), ("Vary", "Origin")]

    def preflight(self, request: Request, methods: str) -> list[tuple[str, str]]:
        """What tells a browser beforehand that the page may ask."""
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
