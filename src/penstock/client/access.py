"""Connection settings of a cluster: addresses, timeouts, SASL and TLS, parsed from Kafka client options.

Option names have no `kafka.` prefix. `nearest` suggests a known name for an unknown one. Secrets are in no `repr`.
"""

from __future__ import annotations

import difflib
import ipaddress
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from penstock.client.errors import BadArgument
from penstock.client.tokens import TokenSource
from penstock.core.model import Address

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER)

OPTIONS = (
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "sasl.jaas.config",
    "sasl.mechanism",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url",
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
    """SASL mechanism, with user name and password or, for OAUTHBEARER, the source of tokens."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    token: TokenSource | None = None

    @property
    def sends_secret(self) -> bool:
        """Whether the secret itself is sent, which SCRAM avoids."""
        return not self.mechanism.startswith("SCRAM")

    @property
    def who(self) -> str:
        """The identity, for messages."""
        return f"user {self.username}" if self.token is None else "the token"


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
                # a function, because OpenSSL would ask at the terminal for a password that is None
                context.load_cert_chain(self.certificate_path, self.key_path, lambda: self.key_password or "")
        except (OSError, ssl.SSLError) as error:
            named = ", ".join(one for one in (self.ca_path, self.certificate_path, self.key_path) if one)
            raise BadArgument(
                f"cannot load TLS files {named}: {error}. They must be readable and in PEM format, "
                "and an encrypted key needs tls_key_password."
            ) from error
        return context


@dataclass(frozen=True, slots=True)
class Security:
    """How to encrypt and authenticate. Empty: plaintext without authentication."""

    credentials: Credentials | None = None
    encryption: Encryption | None = None
    auth_without_tls: bool = False

    def check_secrecy(self, host: str) -> None:
        """Raise BadArgument if the password or token would be readable on the way to `host`."""
        found = self.credentials
        if found is None or self.encryption is not None or self.auth_without_tls or is_loopback_host(host):
            return
        if found.sends_secret:
            what = "the password" if found.token is None else "the token"
            raise BadArgument(
                f"{found.mechanism} without TLS would send {what} in plain text to {host}. Turn on TLS (tls, or "
                "security.protocol=SASL_SSL), use SCRAM-SHA-512, or accept it with auth_without_tls."
            )


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
    auth_without_tls: bool = False

    @property
    def security(self) -> Security:
        return Security(self.credentials, self.encryption, self.auth_without_tls)

    @property
    def bootstrap(self) -> str:
        """The addresses in the format of `bootstrap.servers`."""
        return ",".join(str(one) for one in self.addresses)


def read_access(options: Mapping[str, str], security: Security | None = None) -> Access:
    """Parse Kafka client options; names not in OPTIONS are ignored. Raises BadArgument.

    With `security`, the options that start with `sasl.`, `security.` and `ssl.` are not read.
    """
    found = read_kafka_security(options) if security is None else security
    access = Access(
        addresses=read_addresses(options.get("bootstrap.servers", "")),
        client_id=options.get("client.id", "penstock"),
        connect_ms_max=whole_number(options, "socket.connection.setup.timeout.ms", 10_000, 1),
        request_ms_max=whole_number(options, "request.timeout.ms", 30_000, 1),
        call_ms_max=whole_number(options, "default.api.timeout.ms", 60_000, 1),
        backoff_ms=whole_number(options, "retry.backoff.ms", 100, 0),
        backoff_ms_max=whole_number(options, "retry.backoff.max.ms", 1_000, 0),
        credentials=found.credentials,
        encryption=found.encryption,
        auth_without_tls=found.auth_without_tls,
    )
    for address in access.addresses:
        found.check_secrecy(address.host)
    return access


def read_kafka_security(options: Mapping[str, str]) -> Security:
    """The security of Kafka client options. Raises BadArgument."""
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise BadArgument(f"invalid security.protocol {protocol!r}: expected one of {', '.join(PROTOCOLS)}")
    return Security(
        credentials=_read_credentials(options) if protocol.startswith("SASL") else None,
        encryption=_read_encryption(options) if protocol.endswith("SSL") else None,
    )


def is_kafka_security(name: str) -> bool:
    """Whether a Kafka client option is about security."""
    return name.startswith(("sasl.", "security.", "ssl."))


def is_loopback_host(host: str) -> bool:
    """Whether the name or address is this machine's loopback, without a look-up."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    if mechanism == OAUTHBEARER:
        return Credentials(mechanism, "", "", _read_token_source(options))
    from_jaas = dict(_JAAS.findall(options.get("sasl.jaas.config", "")))
    username = options.get("sasl.username", from_jaas.get("username"))
    password = options.get("sasl.password", from_jaas.get("password"))
    if username is None or password is None:
        raise BadArgument(
            "security.protocol requires SASL credentials: "
            "set sasl.username and sasl.password, or both in sasl.jaas.config"
        )
    return Credentials(mechanism, username, password)


def _read_token_source(options: Mapping[str, str]) -> TokenSource:
    prefix = "sasl.oauthbearer."
    url = options.get(f"{prefix}token.endpoint.url")
    if url is None:
        raise BadArgument(
            f"sasl.mechanism OAUTHBEARER requires {prefix}token.endpoint.url with {prefix}client.id and "
            f"{prefix}client.secret; for a fixed token use the options token or token_file"
        )
    return TokenSource(
        url=url,
        client_id=options.get(f"{prefix}client.id", ""),
        client_secret=options.get(f"{prefix}client.secret", ""),
        scope=options.get(f"{prefix}scope", ""),
        ca_path=options.get("ssl.ca.location"),
    )


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
