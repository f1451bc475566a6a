"""Kafka clients for the commands: connects, and translates errors to messages and exit codes. Never prints."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.error_hints import with_hint
from penstock.apps.cli.failures import NoBroker, ObjectNotFound, RefusedByBroker, to_click_error
from penstock.apps.cli.probe import TLS_PORT, kafka_behind, other_protocol, wrong_port
from penstock.apps.cli.security_options import client_options, command_security

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
    from confluent_kafka.admin import TopicMetadata

    from penstock.client.access import Access
    from penstock.client.raw.cluster import Cluster
    from penstock.client.rdkafka.admin import Admin

CLIENT_ID = "penstock-cli"

CONNECT_SECONDS_MAX = 3.0
"""Long enough for an intercontinental connection, short enough for an interactive command."""

REQUEST_SECONDS_MAX = 15.0
"""After this, a broker that accepted the connection counts as not answering."""

DELIVERY_MS_MAX = 60_000
"""Starts when a record is queued, so it must outlast a full queue on a slow disk."""

TOPIC_APPEARS_MS_MAX = 3_000
"""How long a producer waits for a topic that the broker may be creating."""

MESSAGE_BYTES_MAX = 1_000_000_000
"""The maximum of the client library, so that only the limits of broker and topic apply."""


def connect_admin(bootstrap: str) -> Admin:
    """A client for topics and groups. Raises NoBroker."""
    from penstock.client.rdkafka.admin import Admin

    _check_reachable(bootstrap)
    return Admin(
        bootstrap=bootstrap, client_id=CLIENT_ID, request_s_max=REQUEST_SECONDS_MAX, **client_options()
    )


def connect_producer(bootstrap: str, acks: str, compression: str) -> Producer:
    """A producer with Java's partitioner, so that keys go to the same partitions as with other clients."""
    from confluent_kafka import Producer

    return Producer(
        {
            **_connection(bootstrap),
            "acks": acks,
            "compression.type": compression,
            "enable.idempotence": acks == "all",
            "partitioner": "murmur2_random",
            "message.max.bytes": MESSAGE_BYTES_MAX,
            "topic.metadata.propagation.max.ms": TOPIC_APPEARS_MS_MAX,
            "message.timeout.ms": DELIVERY_MS_MAX,
        }
    )


def connect_consumer(
    bootstrap: str,
    group: str | None = None,
    reset: str | None = None,
    on_error: Callable[[KafkaError], None] | None = None,
) -> Consumer:
    """A consumer. Without a group it reads assigned partitions and never commits.

    `on_error` is called for every failed connection; the client keeps retrying.
    """
    from confluent_kafka import Consumer

    return Consumer(
        {
            **_connection(bootstrap),
            "group.id": group or "penstock-sub",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": reset or "error",
            "allow.auto.create.topics": False,
            "check.crcs": True,
            **({} if on_error is None else {"error_cb": on_error}),
        }
    )


def connect_cluster(bootstrap: str) -> Cluster:
    """Raw Kafka requests, for those the client library does not support. Raises NoBroker."""
    from penstock.client.raw.cluster import Cluster

    _check_reachable(bootstrap)
    return Cluster(_access(bootstrap))


def _access(bootstrap: str) -> Access:
    from penstock.client.access import Access, read_addresses

    security = command_security()
    request_ms_max = int(REQUEST_SECONDS_MAX * 1000)
    return Access(
        addresses=read_addresses(bootstrap),
        client_id=CLIENT_ID,
        connect_ms_max=int(CONNECT_SECONDS_MAX * 1000),
        request_ms_max=request_ms_max,
        call_ms_max=request_ms_max,
        credentials=security.credentials,
        encryption=security.encryption,
        auth_without_tls=security.auth_without_tls,
    )


@contextmanager
def translated(bootstrap: str) -> Iterator[None]:
    """Translate errors of our own client to a message and an exit code."""
    from penstock.client import errors

    try:
        yield
    except errors.Unreachable as error:
        raise no_broker(bootstrap, error.message) from error
    except errors.NotFound as error:
        raise ObjectNotFound(
            f"{error.message[:1].upper()}{error.message[1:]}. See `penstock topic list`."
        ) from error
    except errors.TlsFailed as error:
        raise to_click_error(error) from error
    except errors.ClientError as error:
        raise RefusedByBroker(error.message) from error


def check_code(code: int, about: str) -> None:
    """Raise RefusedByBroker unless the error code is 0."""
    from penstock.wire.kafka import error_name

    if code:
        raise RefusedByBroker(f"{about}: {error_name(code)}")


def topic_metadata(client: Consumer, topic: str, bootstrap: str) -> TopicMetadata:
    """One topic with its partitions. Raises ObjectNotFound, NoBroker, RefusedByBroker.

    Requests all topics and picks one: a request by name would make some brokers create it.
    """
    from confluent_kafka import KafkaException

    try:
        known: dict[str, TopicMetadata] = client.list_topics(timeout=REQUEST_SECONDS_MAX).topics
    except KafkaException as error:
        raise failure_of(error.args[0], bootstrap) from error
    found = known.get(topic)
    if found is None:
        raise _no_topic(topic, known)
    if found.error is not None:
        raise failure_of(found.error, bootstrap, topic)
    return found


def failure_of(error: KafkaError, bootstrap: str, topic: str | None = None) -> click.ClickException:
    """Translate an error of the client library to a message and an exit code."""
    from confluent_kafka import KafkaError

    code = error.code()
    if code in (KafkaError._AUTHENTICATION, KafkaError._SSL):
        from penstock.client.rdkafka.translation import translate

        return to_click_error(translate(error, bootstrap))
    if code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE):
        return no_broker(bootstrap, error.str())
    if code in (KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT):
        return no_broker(bootstrap, "the request timed out")
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_ID):
        return _no_topic(topic or "of this name")
    if code == KafkaError.MSG_SIZE_TOO_LARGE and topic is not None:
        return _too_large(bootstrap, topic)
    if code == KafkaError._UNKNOWN_PARTITION:
        return ObjectNotFound(f"Topic {topic} has no such partition. See: penstock topic describe {topic}")
    return RefusedByBroker(
        with_hint(f"{topic + ': ' if topic else ''}{error.str()} ({error.name()})", error.name())
    )


def _too_large(bootstrap: str, topic: str) -> RefusedByBroker:
    """The broker's response does not contain the limit, so it is looked up."""
    from penstock.client.errors import ClientError

    limit, value = "max.message.bytes", ""
    try:
        configs = connect_admin(bootstrap).describe_topic(topic, all_configs=True).configs
        value = next((f", which is {one.value}" for one in configs if one.name == limit), "")
    except ClientError:
        value = ""  # the message names the limit without its value
    return RefusedByBroker(
        f"A record is too large for topic {topic}: its batch exceeds {limit}{value}. "
        f"Raise it with: penstock topic alter {topic} --config {limit}=BYTES"
    )


def _no_topic(topic: str, known: Iterable[str] = ()) -> ObjectNotFound:
    near = difflib.get_close_matches(topic, list(known), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return ObjectNotFound(
        f"There is no topic {topic}.{hint} See `penstock topic list` and `penstock topic create`."
    )


def no_broker(bootstrap: str, why: str) -> NoBroker:
    """The failure for an unreachable broker."""
    return NoBroker(
        f"No broker answers at {bootstrap}: {why}. "
        "Start one with `penstock start`, or set another address with --bootstrap HOST:PORT."
    )


def chosen_partitions(topic: TopicMetadata, wanted: int | None) -> list[int]:
    """All partitions in order, or the requested one. Raises ObjectNotFound."""
    known = sorted(topic.partitions)
    if wanted is None:
        return known
    if wanted not in known:
        raise ObjectNotFound(f"Topic {topic.topic} has no partition {wanted}: it has 0 to {len(known) - 1}.")
    return [wanted]


def topic_partition(topic: str, partition: int, offset: int) -> TopicPartition:
    """A position as an object of the client library."""
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, partition, offset)


def _connection(bootstrap: str) -> dict[str, Any]:
    from penstock.client.rdkafka.library import security_settings

    _check_reachable(bootstrap)
    return {
        **security_settings(command_security()),
        "bootstrap.servers": bootstrap,
        "client.id": CLIENT_ID,
        "socket.connection.setup.timeout.ms": int(CONNECT_SECONDS_MAX * 1000),
        "error_cb": _ignore_error,
        "log_level": 0,
    }


def _ignore_error(error: KafkaError) -> None:
    """Ignore failed attempts that the client library reports: the call in progress raises the final error."""


def _check_reachable(bootstrap: str) -> None:
    """Connect once to any of the addresses, so that a wrong one fails immediately and not after retries."""
    security = command_security()
    if security.credentials is not None or security.encryption is not None:
        _check_secured(bootstrap)
        return
    why = "no address is set"
    for part in bootstrap.split(","):
        host, port = split_address(part.strip())
        try:
            other = other_protocol(host, port, CONNECT_SECONDS_MAX)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            continue
        if other is None:
            return
        if other == TLS_PORT:
            raise NoBroker(
                f"{part.strip()} is {other}: turn on TLS with --tls or --tls-ca FILE, use a profile that does, or set "
                "the address of a port without TLS."
            )
        raise NoBroker(wrong_port(part.strip(), other, kafka_behind(host, port)))
    raise no_broker(bootstrap, why)


def _check_secured(bootstrap: str) -> None:
    """The same with TLS and authentication. Raises TlsFailed, AuthenticationFailed."""
    from dataclasses import replace

    from penstock.client.errors import AuthenticationFailed, TlsFailed, Unreachable
    from penstock.client.raw.reachability import check_broker, failure_reason

    access = _access(bootstrap)
    unreachable: list[str] = []
    rejected: list[AuthenticationFailed | TlsFailed] = []
    for address in access.addresses:
        try:
            return check_broker(address, replace(access, request_ms_max=int(CONNECT_SECONDS_MAX * 1000)))
        except Unreachable as error:
            unreachable.append(failure_reason(error))
        except (AuthenticationFailed, TlsFailed) as error:
            rejected.append(error)
    if rejected:
        raise rejected[0]
    raise no_broker(bootstrap, "; ".join(unreachable))


def split_address(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter(f"{address!r} is not of the form HOST:PORT.", param_hint="'--bootstrap'")
    return host.strip("[]"), int(port)
