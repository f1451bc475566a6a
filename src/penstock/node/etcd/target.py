"""The etcd that a cluster uses, as one URL: endpoints, login, TLS files, key prefix. Opens no connection.

etcd://host:2379,host2:2379       plain
etcd://user:password@host:2379    with a login; special characters are escaped as in any URL
etcd://host:2379/orders           keys below `orders/`, so that several clusters can share one etcd
etcds://host:2379?ca=FILE&cert=FILE&key=FILE
                                  TLS; `ca` defaults to the system's, `cert` and `key` are a client certificate
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote

from penstock.core.errors import InvalidConfig
from penstock.core.model import Address
from penstock.node.connections.addresses import parse_address

PORT = 2379
"""etcd's port for clients."""
DEFAULT_PREFIX = "penstock"

_EXAMPLE = "expected for example etcd://host1:2379,host2:2379"
_PREFIX = re.compile(r"[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+)*")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the authority that signed the server's certificate, and the client's own certificate with its key."""

    ca: str = ""
    cert: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class EtcdTarget:
    """Where an etcd is and how to log in."""

    endpoints: tuple[Address, ...]
    user: str = ""
    password: str = field(default="", repr=False)
    prefix: str = DEFAULT_PREFIX
    tls: TlsFiles | None = None

    @property
    def url(self) -> str:
        """The setting `metadata` of a broker that uses it; only for one without login and TLS."""
        assert not self.user and self.tls is None
        return f"etcd://{self}/{self.prefix}"

    def __str__(self) -> str:
        """For logs and errors: without the password."""
        return ",".join(map(str, self.endpoints))


def parse_etcd_url(url: str) -> EtcdTarget:
    """Raises InvalidConfig, which never repeats the password."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("etcd", "etcds"):
        raise InvalidConfig(f"the metadata URL must start with etcd:// or etcds://; {_EXAMPLE}")
    rest, _, query = rest.partition("?")
    hosts, _, prefix = rest.partition("/")
    login, at, hosts = hosts.rpartition("@")
    user, password = _login(login) if at else ("", "")
    prefix = prefix or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(prefix):
        raise InvalidConfig(
            f"the key prefix {prefix!r} may contain letters, digits, '.', '_', '-' and single slashes between them"
        )
    endpoints = tuple(parse_address(host, PORT) for host in hosts.split(","))
    if len(set(endpoints)) < len(endpoints):
        raise InvalidConfig(f"an endpoint is listed twice in {hosts!r}")
    return EtcdTarget(endpoints, user, password, prefix, _tls(scheme, query))


def _login(login: str) -> tuple[str, str]:
    user, colon, password = login.partition(":")
    if not user or not colon or not password:
        raise InvalidConfig("credentials in the metadata URL must have the form user:password@")
    return unquote(user), unquote(password)


def _tls(scheme: str, query: str) -> TlsFiles | None:
    given = dict(parse_qsl(query, keep_blank_values=True))
    unknown = sorted(given.keys() - {"ca", "cert", "key"})
    if unknown:
        raise InvalidConfig(
            f"{unknown[0]!r} is not a parameter of the metadata URL; known are ca, cert and key"
        )
    if scheme == "etcd":
        if given:
            raise InvalidConfig("TLS files need etcds:// instead of etcd://")
        return None
    files = TlsFiles(**given)
    if bool(files.cert) != bool(files.key):
        raise InvalidConfig("a client certificate needs both cert=FILE and key=FILE")
    return files
