"""How to reach a cluster: addresses, patience and security, read from Kafka's own option names. Never connects.

Options are those of Kafka's clients without the `kafka.` in front. What is not known is refused with the nearest name.
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
"""Every option that `read_access` understands."""

_JAAS = re.compile(r"(username|password)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks, and by which mechanism that is proven."""

    mechanism: str
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Encryption:
    """Files in PEM form, and whether the broker's name must be the one in its certificate."""

    ca_path: str | None = None
    certificate_path: str | None = None
    key_path: str | None = None
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        """What the socket is wrapped in. Raises BadArgument when a file cannot be used."""
        try:
            made = ssl.create_default_context(cafile=self.ca_path)
            made.check_hostname = self.checks_name
            if self.certificate_path is not None:
                made.load_cert_chain(self.certificate_path, self.key_path, self.key_password)
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(one for one in (self.ca_path, self.certificate_path, self.key_path) if one)
            raise BadArgument(
                f"the TLS files {named} cannot be used: {error}. They must be readable and in PEM form."
            ) from error
        return made


@dataclass(frozen=True, slots=True)
class Access:
    """All that is needed to open connections. Picklable, so that it can travel to where it is used."""

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
        """The addresses as they are written in options."""
        return ",".join(str(one) for one in self.addresses)


def read_access(options: Mapping[str, str]) -> Access:
    """An Access from Kafka's names; only those in OPTIONS are looked at. Raises BadArgument."""
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadArgument(f"security.protocol is {protocol!r}; it is one of {', '.join(PROTOCOLS)}")
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
            raise BadArgument(f"bootstrap.servers holds {part.strip()!r}, which is not of the form HOST:PORT")
        found.append(Address(host.strip("[]"), int(port)))
    return tuple(found)


def whole_number(options: Mapping[str, str], name: str, default: int, least: int) -> int:
    """A number of at least `least`. Raises BadArgument."""
    text = str(options.get(name, default)).strip()
    if not re.fullmatch(r"-?\d{1,18}", text) or int(text) < least:
        raise BadArgument(f"{name} is {text!r}; it must be a whole number of at least {least}")
    return int(text)


def nearest(word: str, known: Iterable[str]) -> str:
    """` Did you mean …?`, or nothing when nothing is near."""
    by_fold = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), list(by_fold), n=1, cutoff=0.6)
    return f" Did you mean {by_fold[close[0]]!r}?" if close else ""


def _read_credentials(options: Mapping[str, str]) -> Credentials:
    mechanism = options.get("sasl.mechanism", "PLAIN").upper()
    if mechanism not in MECHANISMS:
        raise BadArgument(f"sasl.mechanism is {mechanism!r}; it is one of {', '.join(MECHANISMS)}")
    given = dict(_JAAS.findall(options.get("sasl.jaas.config", "")))
    username = options.get("sasl.username", given.get("username"))
    password = options.get("sasl.password", given.get("password"))
    if username is None or password is None:
        raise BadArgument(
            "security.protocol asks for SASL, but there is no name and password: "
            "set sasl.username and sasl.password, or both inside sasl.jaas.config"
        )
    return Credentials(mechanism, username, password)


def _read_encryption(options: Mapping[str, str]) -> Encryption:
    for kind in ("ssl.truststore", "ssl.keystore"):
        form = options.get(f"{kind}.type", "PEM").upper()
        if form != "PEM" or options.get(f"{kind}.location", "").endswith((".jks", ".p12")):
            raise BadArgument(f"{kind} must be of type PEM here; convert it with `openssl` or `keytool`")
    keystore = options.get("ssl.keystore.location")
    algorithm = options.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm not in ("https", "", "none"):
        raise BadArgument(
            f"ssl.endpoint.identification.algorithm is {algorithm!r}; it is 'https', or empty for no check"
        )
    return Encryption(
        ca_path=options.get("ssl.ca.location", options.get("ssl.truststore.location")),
        certificate_path=options.get("ssl.certificate.location", keystore),
        key_path=options.get("ssl.key.location"),
        key_password=options.get("ssl.key.password"),
        checks_name=algorithm == "https",
    )
