"""Connection settings of a cluster: addresses, timeouts, SASL and TLS, parsed from Kafka client options. No I/O.

Option names have no `kafka.` prefix. `nearest` suggests a known name for an unknown one.
"""

from __future__ import annotations

import difflib
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.errors import BadArgument
from penstock.core.model import Address

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

OPTIONS = (
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.password",
    "sasl.username",
    "security.protocol",
    "socket.connection.setup.timeout.ms",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
"""All options that `read_access` reads."""

_JAAS = re.compile(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")


@dataclass(frozen=True, slots=True)
class Credentials:
    """SASL mechanism, user name and password."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS files in PEM format, and whether to verify the broker's host name."""

    ca_path: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        """The TLS context for a socket. Raises BadArgument if a file cannot be loaded."""
        try:
            context = ssl.create_default_context(cafile=self.ca_path)
            context.check_hostname = self.checks_name
            if self.certificate_path is not None:
                context.load_cert_chain(self.certificate_path, self.key_path, self.key_password)
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(one for one in (self.ca_path, self.certificate_path, self.key_path) if one)
            raise BadArgument(
                f"cannot load TLS files {named}: {error}. They must be readable and in PEM format."
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class Access:
    """Everything needed to open connections. Picklable, so that Spark can send it to its workers."""

    addresses: tuple[Address, ...]
    client_id: str = "penstock"
    connect_ms_max: int = 10_000
    request_ms_max: int = 30_000
    call_ms_max: int = 60_000
    backoff_ms: int = 100
    backoff_ms_max: int = 1_000
    credentials: Credentials | None = None
    encryption: Encryption | None = None

    @property
    def bootstrap(self) -> str:
        """The addresses in the format of `bootstrap.servers`."""
        return ",".join(str(one) for one in self.addresses)


def read_access(options: Mapping[str, str]) -> Access:
    """Parse Kafka client options; names not in OPTIONS are ignored. Raises BadArgument."""
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadArgument(f"invalid security.protocol {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
    return Access(
        addresses=read_addresses(options.get("bootstrap.servers", "")),
        client_id=options.get("client.id", "penstock"),
        connect_ms_max=whole_number(options, "socket.connection.setup.timeout.ms", 10_000, 1),
        request_ms_max=whole_number(options, "request.timeout.ms", 30_000, 1),
        call_ms_max=whole_number(options, "default.api.timeout.ms", 60_000, 1),
        backoff_ms=whole_number(options, "retry.backoff.ms", 100, 0),
        backoff_ms_max=whole_number(options, "retry.backoff.max.ms", 1_000, 0),
        credentials=_read_credentials(options) if protocol.startswith("SASL") else None,
        encryption=_read_encryption(options) if protocol.endswith("SSL") else None,
    )


def read_addresses(text: str) -> tuple[Address, ...]:
    """`HOST:PORT[,HOST:PORT…]`. Raises BadArgument."""
    found = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise BadArgument(f"invalid address {part.strip()!r} in bootstrap.servers: expected HOST:PORT")
        found.append(Address(host.strip("[]"), int(port)))
    return tuple(found)


def whole_number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    """An integer option of at least `least`. Raises BadArgument."""
    text = str(options.get(name, default)).strip()
    if not re.fullmatch(r"-?\d{1,18}", text) or int(text) < least:
        raise BadArgument(f"invalid {name} {text!r}: expected an integer of at least {least}")
    return int(text)


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean …?` with the closest known name, or an empty string."""
    by_fold = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), list(by_fold), n=1, cutoff=0.6)
    return f" Did you mean {by_fold[close[0]]!r}?" if close else ""


def _read_credentials(options: Mapping[str, str]) -> Credentials:
    mechanism = options.get("sasl.mechanism", "PLAIN").upper()
    if mechanism not in MECHANISMS:
        raise BadArgument(f"invalid sasl.mechanism {mechanism!r}: expected one of {', '.join(MECHANISMS)}")
    from_jaas = dict(_JAAS.findall(options.get("sasl.jaas.config", "")))
    username = options.get("sasl.username", from_jaas.get("username"))
    password = options.get("sasl.password", from_jaas.get("password"))
    if username is None or password is None:
        raise BadArgument(
            "security.protocol requires SASL credentials: "
            "set sasl.username and sasl.password, or both in sasl.jaas.config"
        )
    return Credentials(mechanism, username, password)


def _read_encryption(options: Mapping[str, str]) -> Encryption:
    for kind in ("ssl.truststore", "ssl.keystore"):
        form = options.get(f"{kind}.type", "PEM").upper()
        if form != "PEM" or options.get(f"{kind}.location", "").endswith((".jks", ".p12")):
            raise BadArgument(f"{kind} must be of type PEM: convert it with `openssl` or `keytool`")
    keystore = options.get("ssl.keystore.location")
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", "", "none"):
        raise BadArgument(
            f"invalid ssl.endpoint.identification.algorithm {algorithm!r}: expected 'https', or empty for no check"
        )
    return Encryption(
        ca_path=options.get("ssl.ca.location", options.get("ssl.truststore.location")),
        certificate_path=options.get("ssl.certificate.location", keystore),
        key_path=options.get("ssl.key.location"),
        key_password=options.get("ssl.key.password"),
        checks_name=algorithm == "https",
    )
