"""Client options: type, default, bounds and description of each, defined once.

Clients take options as keywords, typed by the classes here; `resolve_options` validates them and fills in the rest:
connection options from the environment, then from a profile, then defaults. The tables in docs/client-options.md and
the security options of commands derive from the same definitions.
"""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock.client.access import nearest
from penstock.client.errors import BadArgument
from penstock.client.profiles import PROFILE_VARIABLE, read_profile
from penstock.client.serializers import Serializer, SerializerName

Acks = Literal["none", "leader", "all"]
DeliverySemantics = Literal["at_most_once", "at_least_once", "exactly_once"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Partitioner = Callable[[str, bytes | None, int], int]
"""Maps topic, key bytes and partition count to a partition."""

LibraryValue = str | int | float | bool
RETRIES_MAX = 2**31 - 1
_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Option:
    """Default, description and numeric bounds of one option, and the environment variable that sets it."""

    default: Any
    meaning: str
    least: float | None = None
    most: float | None = None
    variable: str | None = None
    is_secret: bool = False


Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class TlsOptions(TypedDict, total=False):
    """How a client encrypts."""

    tls: Annotated[
        bool | None,
        Option(None, "TLS; default: on if another `tls_` option is set", variable="PENSTOCK_CLIENT_TLS"),
    ]
    tls_ca: Annotated[
        str | None,
        Option(
            None,
            "PEM file with the certificates of trusted CAs; default: those of the system",
            variable="PENSTOCK_CLIENT_TLS_CA",
        ),
    ]
    tls_cert: Annotated[
        str | None,
        Option(None, "PEM file of the client certificate, for mTLS", variable="PENSTOCK_CLIENT_TLS_CERT"),
    ]
    tls_key: Annotated[
        str | None,
        Option(
            None,
            "PEM file of its private key; default: the file `tls_cert`",
            variable="PENSTOCK_CLIENT_TLS_KEY",
        ),
    ]
    tls_key_password: Annotated[
        str | None,
        Option(
            None, "password of the private key", variable="PENSTOCK_CLIENT_TLS_KEY_PASSWORD", is_secret=True
        ),
    ]
    tls_verify: Annotated[
        bool,
        Option(
            True,
            "check that the certificate is for the host name; a certificate must be trusted in any case",
            variable="PENSTOCK_CLIENT_TLS_VERIFY",
        ),
    ]


class SecurityOptions(TlsOptions, total=False):
    """How a client encrypts and authenticates, towards every door."""

    sasl_mechanism: Annotated[
        Mechanism | None,
        Option(
            None,
            "how to authenticate; default: OAUTHBEARER with a token, SCRAM-SHA-512 with a username",
            variable="PENSTOCK_CLIENT_SASL_MECHANISM",
        ),
    ]
    username: Annotated[
        str | None, Option(None, "user, or OAuth client id with `token_url`", variable="PENSTOCK_USERNAME")
    ]
    password: Annotated[
        str | None,
        Option(
            None,
            "password, or OAuth client secret with `token_url`",
            variable="PENSTOCK_PASSWORD",
            is_secret=True,
        ),
    ]
    password_file: Annotated[
        str | None, Option(None, "file that contains the password", variable="PENSTOCK_PASSWORD_FILE")
    ]
    token: Annotated[
        str | None,
        Option(None, "bearer token for OAUTHBEARER and HTTP", variable="PENSTOCK_TOKEN", is_secret=True),
    ]
    token_file: Annotated[
        str | None,
        Option(
            None,
            "file that contains the bearer token; read again before it expires",
            variable="PENSTOCK_CLIENT_TOKEN_FILE",
        ),
    ]
    token_url: Annotated[
        str | None,
        Option(
            None,
            "OAuth token endpoint (https), asked with `username` and `password` as client credentials",
            variable="PENSTOCK_CLIENT_TOKEN_URL",
        ),
    ]
    token_scope: Annotated[
        str | None,
        Option(None, "scope to request from `token_url`", variable="PENSTOCK_CLIENT_TOKEN_SCOPE"),
    ]
    auth_without_tls: Annotated[
        bool,
        Option(
            False,
            "send passwords (PLAIN) and tokens without TLS to hosts other than loopback",
            variable="PENSTOCK_CLIENT_AUTH_WITHOUT_TLS",
        ),
    ]


class ProfileOptions(SecurityOptions, total=False):
    """What a profile may contain."""

    bootstrap: Annotated[
        str | None,
        Option(None, "HOST:PORT, comma-separated; default 127.0.0.1:9092", variable="PENSTOCK_BOOTSTRAP"),
    ]
    queue: Annotated[str | None, Option(None, "HOST:PORT of the queue protocol", variable="PENSTOCK_QUEUE")]
    http: Annotated[str | None, Option(None, "HOST:PORT of the HTTP protocol")]


class ConnectionOptions(SecurityOptions, total=False):
    """Options of every client."""

    bootstrap: Annotated[
        str | None,
        Option(None, "HOST:PORT, comma-separated; default 127.0.0.1:9092", variable="PENSTOCK_BOOTSTRAP"),
    ]
    profile: Annotated[
        str | None,
        Option(
            None,
            "profile with the address and the security options that are not set (`penstock profile add`)",
            variable=PROFILE_VARIABLE,
        ),
    ]
    client_id: Annotated[str, Option("penstock-python", "client name in the broker's logs")]
    connect_s_max: Annotated[float, Option(5.0, "connection timeout, then `Unreachable`", 0.1, 3600)]
    request_s_max: Annotated[float, Option(15.0, "timeout of one call, then `TimedOut`", 0.1, 3600)]
    librdkafka: Annotated[
        Mapping[str, LibraryValue],
        Option({}, "additional librdkafka settings; they override all others"),
    ]


class ProducerOptions(ConnectionOptions, total=False):
    """Options of a producer."""

    delivery: Annotated[
        DeliverySemantics,
        Option(
            "at_least_once",
            "`at_most_once` never retries; `at_least_once` retries until acknowledged, without duplicates "
            "if `acks` is `all`; `exactly_once` writes in transactions",
        ),
    ]
    acks: Annotated[
        Acks, Option("all", "acknowledgement to wait for: none, the leader, all in-sync replicas")
    ]
    key_serializer: Annotated[SerializerName | Serializer, Option("binary", "serializer of keys")]
    value_serializer: Annotated[SerializerName | Serializer, Option("binary", "serializer of values")]
    partitioning: Annotated[
        Literal["key", "round_robin"] | Partitioner,
        Option("key", "`key` (equal keys share a partition), `round_robin`, or a function"),
    ]
    linger_ms: Annotated[float, Option(5.0, "how long a record may wait for its batch to fill", 0, 900_000)]
    batch_bytes_max: Annotated[int, Option(1_000_000, "maximum batch size", 1, _BYTES_MAX)]
    batch_records_max: Annotated[int, Option(10_000, "maximum number of records in a batch", 1, 1_000_000)]
    compression: Annotated[Compression, Option("none", "compression of batches")]
    retries: Annotated[int, Option(RETRIES_MAX, "maximum number of retries of a batch", 0, RETRIES_MAX)]
    retry_backoff_ms: Annotated[int, Option(100, "delay before the first retry", 1, 300_000)]
    delivery_s_max: Annotated[
        float, Option(120.0, "delivery timeout: a record not acknowledged by then has failed", 0.1, 86_400)
    ]
    queue_records_max: Annotated[
        int,
        Option(100_000, "size of the send queue in records; `send` blocks when it is full", 1, 10_000_000),
    ]
    queue_bytes_max: Annotated[int, Option(256 * 1024 * 1024, "size of the send queue in bytes", 1024, 2**41)]
    transactional_id: Annotated[
        str | None, Option(None, "identity of this producer across restarts; required for `exactly_once`")
    ]
    transaction_s_max: Annotated[
        float, Option(60.0, "transaction timeout: the broker aborts a transaction still open by then", 1, 900)
    ]


class ConsumerOptions(ConnectionOptions, total=False):
    """Options of a consumer."""

    group: Annotated[
        str | None,
        Option(None, "consumer group that shares the partitions; without one, read all partitions"),
    ]
    delivery: Annotated[
        DeliverySemantics,
        Option(
            "at_least_once",
            "`at_most_once` commits before a message is returned, `at_least_once` after it is handled; "
            "`exactly_once` commits only in a producer's transaction",
        ),
    ]
    commit: Annotated[
        Literal["auto", "manual"],
        Option(
            "auto", "`auto`: a message is handled when the next one is requested; `manual`: call `commit`"
        ),
    ]
    commit_interval_ms: Annotated[int, Option(1_000, "interval of `auto` commits", 1, 86_400_000)]
    reset: Annotated[
        Literal["earliest", "latest"] | int,
        Option("earliest", "start position without a committed offset: `earliest`, `latest` or an offset", 0),
    ]
    key_serializer: Annotated[SerializerName | Serializer, Option("binary", "deserializer of keys")]
    value_serializer: Annotated[SerializerName | Serializer, Option("binary", "deserializer of values")]
    partitions: Annotated[Sequence[int] | None, Option(None, "read only these partitions; excludes `group`")]
    until_end: Annotated[bool, Option(False, "stop iterating when all partitions are read to the end")]
    idle_s_max: Annotated[
        float | None, Option(None, "stop iterating after this long without a message", 0.01, 86_400)
    ]
    read_ahead_records_max: Annotated[
        int,
        Option(
            100,
            "messages taken from librdkafka at once, unless `batch` requests more",
            1,
            100_000,
        ),
    ]
    read_ahead_bytes_max: Annotated[
        int, Option(64 * 1024 * 1024, "size of the prefetch buffer", 1024, _BYTES_MAX)
    ]
    session_ms: Annotated[
        int,
        Option(
            45_000, "session timeout: a member without a heartbeat for this long is removed", 1_000, 1_800_000
        ),
    ]
    handling_s_max: Annotated[
        float, Option(300.0, "a member that does not poll for this long is removed from its group", 1, 86_400)
    ]
    instance_id: Annotated[str | None, Option(None, "static member id: a restart does not cause a rebalance")]


Options = TypeVar("Options", ConnectionOptions, ProducerOptions, ConsumerOptions)


def definitions(kind: type[Any]) -> dict[str, tuple[Any, Option]]:
    """All options of a client, with type and definition."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        allowed, option = get_args(hint)
        assert isinstance(option, Option)
        found[name] = (allowed, option)
    return found


def resolve_options(kind: type[Options], given: Mapping[str, Any], client: str) -> Options:
    """Validate options and fill in the rest. Raises BadArgument for the first invalid one."""
    check_options(kind, given, client)
    known = definitions(kind)
    values = {**given, **layered_options(given, os.environ)}
    return {  # type: ignore[return-value]
        name: values.get(name, option.default) for name, (_, option) in known.items()
    }


def check_options(kind: type[Any], given: Mapping[str, Any], client: str) -> None:
    """Raise BadArgument for an unknown name or an invalid value."""
    known = definitions(kind)
    for name, value in given.items():
        if name not in known:
            raise BadArgument(f"{client} has no option {name!r}.{_guess(name, known)}")
        check_value(client, name, value, *known[name])


def _guess(name: str, known: Mapping[str, object]) -> str:
    return nearest(name, known) or f" Its options: {', '.join(sorted(known))}."


ALTERNATIVES = (frozenset({"password", "password_file"}), frozenset({"token", "token_file", "token_url"}))
"""Options that set the same thing: one of them, given where it counts more, goes before all of the others."""


def layered_options(given: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Options of ProfileOptions that are set: given, in the environment, or in the profile, in this order.

    `profile` names the profile; empty, none is used. Raises BadArgument.
    """
    known = definitions(ProfileOptions)
    own = {name: value for name, value in given.items() if value is not None and name in known}
    named = {
        name: parse_value(f"environment variable {option.variable}", environment[option.variable], hint)
        for name, (hint, option) in known.items()
        if option.variable is not None and environment.get(option.variable)
    }
    profile = given.get("profile")
    if profile is None:
        profile = environment.get(PROFILE_VARIABLE)
    stored = read_profile(profile) if profile else {}
    check_profile(f"profile {profile}", stored)
    settled = dict(own)
    for layer in (named, stored):
        gone = _superseded(settled, layer)
        settled |= {name: value for name, value in layer.items() if name not in gone}
    return settled


def check_profile(where: str, stored: Mapping[str, Any]) -> None:
    """Raise BadArgument for options that no profile has, or invalid values."""
    known = definitions(ProfileOptions)
    for name, value in stored.items():
        if name not in known:
            raise BadArgument(f"{where} has no option {name!r}.{nearest(str(name), known)}")
        check_value(where, name, value, *known[name])


def _superseded(settled: Mapping[str, Any], layer: Mapping[str, Any]) -> set[str]:
    """Options of a lower layer without effect: set already, or about another user, a token or files not in use."""
    gone = set(settled)
    for names in ALTERNATIVES:
        if names & settled.keys():
            gone |= names
    if settled.get("tls") is False:
        gone |= {name for name in layer if name.startswith("tls_")}
    if settled.keys() & {"token", "token_file"}:
        gone |= {"username", "password", "password_file", "sasl_mechanism", "token_scope"}
    elif "username" in settled:
        gone |= {"token", "token_file"}
        if layer.get("username", settled["username"]) != settled["username"]:
            gone |= {"password", "password_file"}
        if layer.get("sasl_mechanism") == "OAUTHBEARER" and not layer.keys() & {"token_url"}:
            gone.add("sasl_mechanism")
    return gone


def parse_value(where: str, text: str, hint: Any) -> Any:
    """A value of the type `hint` from text: a boolean is true or false, others are strings. Raises BadArgument."""
    if bool in _parts(hint):
        value = _SWITCH.get(text.strip().lower())
        if value is None:
            raise BadArgument(f"{where} is {text!r}; it must be true or false")
        return value
    words = _literals(hint)
    if words and text.upper() not in words:
        raise BadArgument(f"{where} is {text!r}; it must be one of {', '.join(words)}")
    return text.upper() if words else text


_SWITCH = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


def check_value(client: str, name: str, value: object, hint: Any, option: Option) -> None:
    """Raise BadArgument unless the value has the type and is within the bounds of its option."""
    if not _allows(hint, value):
        guess = nearest(value, _literals(hint)) if isinstance(value, str) else ""
        shown = "" if option.is_secret else f" {value!r}"
        raise BadArgument(f"{client}: invalid {name}{shown}: expected {describe_type(hint)}.{guess}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if option.least is not None and value < option.least:
            raise BadArgument(f"{client}: invalid {name} {value}: the minimum is {option.least:.12g}.")
        if option.most is not None and value > option.most:
            raise BadArgument(f"{client}: invalid {name} {value}: the maximum is {option.most:.12g}.")


def _parts(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: `A | B` has two."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _literals(hint: Any) -> list[str]:
    return [word for part in _parts(hint) if get_origin(part) is Literal for word in get_args(part)]


def _allows(hint: Any, value: object) -> bool:
    return any(_allows_part(part, value) for part in _parts(hint))


def _allows_part(part: Any, value: object) -> bool:
    origin = get_origin(part)
    if origin is Literal:
        return isinstance(value, str) and value in get_args(part)
    if origin is Callable or origin is types.FunctionType:
        return callable(value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    if origin is Sequence:
        wanted = get_args(part)[0]
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_allows_part(wanted, one) for one in value)  # type: ignore[attr-defined]
    if part is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if part is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, part)


def describe_type(hint: Any) -> str:
    """A type as shown in errors and documentation."""
    return " or ".join(_describe_part(part) for part in _parts(hint))


def _describe_part(part: Any) -> str:
    origin = get_origin(part)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in get_args(part))
    if part is type(None):
        return "None"
    names = {str: "a string", int: "an integer", float: "a number", bool: "True or False"}
    if part in names:
        return names[part]
    if origin is Mapping:
        return "a mapping of names to values"
    if origin is Sequence:
        return "a list of integers"
    return "a Serializer" if part is Serializer else "a function"
