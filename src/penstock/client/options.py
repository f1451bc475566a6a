"""Client options: type, default, bounds and description of each, defined once.

Clients take options as keywords, typed by the classes here; `resolve_options` validates them and fills in defaults.
The tables in docs/client-options.md are generated from the same definitions.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock.client.access import nearest
from penstock.client.errors import BadArgument
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
    """Default, description and numeric bounds of one option."""

    default: Any
    meaning: str
    least: float | None = None
    most: float | None = None


class ConnectionOptions(TypedDict, total=False):
    """Options of every client."""

    bootstrap: Annotated[
        str | None,
        Option(None, "HOST:PORT, comma-separated; default `PENSTOCK_BOOTSTRAP`, then 127.0.0.1:9092"),
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
    """Validate options and fill in defaults. Raises BadArgument for the first invalid one."""
    known = definitions(kind)
    for name, value in given.items():
        if name not in known:
            raise BadArgument(f"{client} has no option {name!r}.{_guess(name, known)}")
        _check(client, name, value, *known[name])
    return {  # type: ignore[return-value]
        name: given.get(name, option.default) for name, (_, option) in known.items()
    }


def _guess(name: str, known: Mapping[str, object]) -> str:
    return nearest(name, known) or f" Its options: {', '.join(sorted(known))}."


def _check(client: str, name: str, value: object, hint: Any, option: Option) -> None:
    if not _allows(hint, value):
        guess = nearest(value, _literals(hint)) if isinstance(value, str) else ""
        raise BadArgument(f"{client}: invalid {name} {value!r}: expected {describe_type(hint)}.{guess}")
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
