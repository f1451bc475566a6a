"""Options of the clients: one definition each, with default, bounds and meaning. Never talks to a broker.

A client takes its options as keywords, typed by the class here; `resolve_options` checks what was given and fills in
the rest. The tables in docs/clients.md derive from the same definitions.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Union, get_args, get_origin, get_type_hints

from penstock.client.access import nearest
from penstock.client.errors import BadArgument
from penstock.client.serializers import Serializer, SerializerWord

Acks = Literal["none", "leader", "all"]
DeliverySemantics = Literal["at_most_once", "at_least_once", "exactly_once"]
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Partitioner = Callable[[str, bytes | None, int], int]
"""Topic, key as bytes and number of partitions to the partition."""

LibraryValue = str | int | float | bool
RETRIES_MAX = 2**31 - 1
_BYTES_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Option:
    """What there is to know about one option besides its name and type. `least` and `most` bound numbers."""

    default: Any
    meaning: str
    least: float | None = None
    most: float | None = None


class ConnectionOptions(TypedDict, total=False):
    """What every client can be told."""

    bootstrap: Annotated[
        str | None,
        Option(None, "HOST:PORT, several with commas; else `PENSTOCK_BOOTSTRAP` or 127.0.0.1:9092"),
    ]
    client_id: Annotated[str, Option("penstock-python", "the name that the broker logs")]
    connect_s_max: Annotated[
        float, Option(5.0, "how long to try to reach a broker before `Unreachable`", 0.1, 3600)
    ]
    request_s_max: Annotated[float, Option(15.0, "how long one call may take before `TimedOut`", 0.1, 3600)]
    librdkafka: Annotated[
        Mapping[str, LibraryValue],
        Option({}, "further settings of the library underneath, by their own names; they win"),
    ]


class ProducerOptions(ConnectionOptions, total=False):
    """What a producer can be told."""

    delivery: Annotated[
        DeliverySemantics,
        Option(
            "at_least_once",
            "`at_most_once` never repeats; `at_least_once` repeats until acknowledged, without making doubles "
            "where `acks` is `all`; `exactly_once` writes in transactions",
        ),
    ]
    acks: Annotated[Acks, Option("all", "what a record waits for: nothing, the leader, all replicas in sync")]
    key_serializer: Annotated[SerializerWord | Serializer, Option("binary", "how keys become bytes")]
    value_serializer: Annotated[SerializerWord | Serializer, Option("binary", "how values become bytes")]
    partitioning: Annotated[
        Literal["key", "round_robin"] | Partitioner,
        Option("key", "`key`, where equal keys meet in one partition; `round_robin`; or a function"),
    ]
    linger_ms: Annotated[
        float, Option(5.0, "how long a record may wait for others to share a batch with", 0, 900_000)
    ]
    batch_bytes_max: Annotated[int, Option(1_000_000, "how large a batch may grow", 1, _BYTES_MAX)]
    batch_records_max: Annotated[int, Option(10_000, "how many records a batch may hold", 1, 1_000_000)]
    compression: Annotated[Compression, Option("none", "how batches are compressed")]
    retries: Annotated[int, Option(RETRIES_MAX, "how often a batch is sent again", 0, RETRIES_MAX)]
    retry_backoff_ms: Annotated[int, Option(100, "how long to wait before the first repetition", 1, 300_000)]
    delivery_s_max: Annotated[
        float, Option(120.0, "after this a record that is not acknowledged has failed", 0.1, 86_400)
    ]
    queue_records_max: Annotated[
        int,
        Option(100_000, "how many records may wait to be sent; `send` waits when it is full", 1, 10_000_000),
    ]
    queue_bytes_max: Annotated[
        int, Option(256 * 1024 * 1024, "how many bytes may wait to be sent", 1024, 2**41)
    ]
    transactional_id: Annotated[
        str | None, Option(None, "who this producer is over restarts; `exactly_once` needs it")
    ]
    transaction_s_max: Annotated[
        float, Option(60.0, "after this the broker ends a transaction that is still open", 1, 900)
    ]


class ConsumerOptions(ConnectionOptions, total=False):
    """What a consumer can be told."""

    group: Annotated[
        str | None,
        Option(
            None, "share the topics with the other members of this group; without one, read everything alone"
        ),
    ]
    delivery: Annotated[
        DeliverySemantics,
        Option(
            "at_least_once",
            "`at_most_once` commits before a message is handed out, `at_least_once` afterwards; "
            "`exactly_once` commits in a producer's transaction only",
        ),
    ]
    commit: Annotated[
        Literal["auto", "manual"],
        Option("auto", "`auto` takes a message as handled when the next one is asked for; or call `commit`"),
    ]
    commit_interval_ms: Annotated[int, Option(1_000, "how often `auto` tells the broker", 1, 86_400_000)]
    reset: Annotated[
        Literal["earliest", "latest"] | int,
        Option("earliest", "where to start if nothing is committed: `earliest`, `latest`, or an offset", 0),
    ]
    key_serializer: Annotated[SerializerWord | Serializer, Option("binary", "how bytes become keys")]
    value_serializer: Annotated[SerializerWord | Serializer, Option("binary", "how bytes become values")]
    partitions: Annotated[
        Sequence[int] | None, Option(None, "only these partitions; not together with `group`")
    ]
    until_end: Annotated[bool, Option(False, "iteration ends where every partition has been read to its end")]
    idle_s_max: Annotated[
        float | None, Option(None, "iteration ends when nothing has come for so long", 0.01, 86_400)
    ]
    read_ahead_records_max: Annotated[
        int,
        Option(
            100,
            "how many messages are taken from the library at once, unless `batch` asks for more",
            1,
            100_000,
        ),
    ]
    read_ahead_bytes_max: Annotated[
        int, Option(64 * 1024 * 1024, "how much is fetched ahead; then fetching waits", 1024, _BYTES_MAX)
    ]
    session_ms: Annotated[
        int, Option(45_000, "without a heartbeat for so long, a member has left its group", 1_000, 1_800_000)
    ]
    handling_s_max: Annotated[
        float, Option(300.0, "a member that asks for nothing for so long has left its group", 1, 86_400)
    ]
    instance_id: Annotated[
        str | None, Option(None, "a name that lets a member come back without a rebalance")
    ]


Options = TypeVar("Options", ConnectionOptions, ProducerOptions, ConsumerOptions)


def definitions(kind: type[Any]) -> dict[str, tuple[Any, Option]]:
    """Every option of a client: its type and what else there is to know."""
    found = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        allowed, option = get_args(hint)
        assert isinstance(option, Option)
        found[name] = (allowed, option)
    return found


def resolve_options(kind: type[Options], given: Mapping[str, Any], client: str) -> Options:
    """All options of a client, given or default. Raises BadArgument for the first that cannot be."""
    known = definitions(kind)
    for name, value in given.items():
        if name not in known:
            raise BadArgument(f"{client} has no option {name!r}.{_guess(name, known)}")
        _check(client, name, value, *known[name])
    return {  # type: ignore[return-value]
        name: given.get(name, option.default) for name, (_, option) in known.items()
    }


def _guess(name: str, known: Mapping[str, object]) -> str:
    return nearest(name, known) or f" It has: {', '.join(sorted(known))}."


def _check(client: str, name: str, value: object, hint: Any, option: Option) -> None:
    if not _allows(hint, value):
        guess = nearest(value, _words(hint)) if isinstance(value, str) else ""
        raise BadArgument(f"{client}: {name} cannot be {value!r}; it is {describe_type(hint)}.{guess}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        if option.least is not None and value < option.least:
            raise BadArgument(f"{client}: {name} cannot be {value}; the least is {option.least:.12g}.")
        if option.most is not None and value > option.most:
            raise BadArgument(f"{client}: {name} cannot be {value}; the most is {option.most:.12g}.")


def _parts(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: `A | B` has two."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _words(hint: Any) -> list[str]:
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
    """A type in words, as errors and the documentation show it."""
    return " or ".join(_describe_part(part) for part in _parts(hint))


def _describe_part(part: Any) -> str:
    origin = get_origin(part)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in get_args(part))
    if part is type(None):
        return "None"
    names = {str: "text", int: "a whole number", float: "a number", bool: "True or False"}
    if part in names:
        return names[part]
    if origin is Mapping:
        return "a mapping of names to values"
    if origin is Sequence:
        return "a list of numbers"
    return "a Serializer" if part is Serializer else "a function"
