"""Penstock: a durable, partitioned, append-only log with Kafka, text, JSON, queue and HTTP listeners.

The public API. Each name is imported on first use, so `import penstock` stays fast. Code inside the package imports
from the defining modules instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.errors import ClientError as ClientError
    from penstock.client.messages import Message as Message
    from penstock.client.messages import Record as Record
    from penstock.client.queue.async_broker_client import AsyncBrokerClient as AsyncBrokerClient
    from penstock.client.queue.broker_client import BrokerClient as BrokerClient
    from penstock.client.raw.table import table as table
    from penstock.client.rdkafka.admin import Admin as Admin
    from penstock.client.rdkafka.async_admin import AsyncAdmin as AsyncAdmin
    from penstock.client.rdkafka.async_consumer import AsyncConsumer as AsyncConsumer
    from penstock.client.rdkafka.async_pipe import async_pipe as async_pipe
    from penstock.client.rdkafka.async_producer import AsyncProducer as AsyncProducer
    from penstock.client.rdkafka.consumer import Consumer as Consumer
    from penstock.client.rdkafka.pipe import pipe as pipe
    from penstock.client.rdkafka.producer import Producer as Producer
    from penstock.client.serializers import Avro as Avro
    from penstock.client.serializers import Serializer as Serializer
    from penstock.core.version import __version__ as __version__

_HOMES = {
    "Admin": "penstock.client.rdkafka.admin",
    "AsyncAdmin": "penstock.client.rdkafka.async_admin",
    "AsyncBrokerClient": "penstock.client.queue.async_broker_client",
    "AsyncConsumer": "penstock.client.rdkafka.async_consumer",
    "AsyncProducer": "penstock.client.rdkafka.async_producer",
    "async_pipe": "penstock.client.rdkafka.async_pipe",
    "Avro": "penstock.client.serializers",
    "BrokerClient": "penstock.client.queue.broker_client",
    "ClientError": "penstock.client.errors",
    "Consumer": "penstock.client.rdkafka.consumer",
    "Message": "penstock.client.messages",
    "Producer": "penstock.client.rdkafka.producer",
    "Record": "penstock.client.messages",
    "Serializer": "penstock.client.serializers",
    "__version__": "penstock.core.version",
    "pipe": "penstock.client.rdkafka.pipe",
    "table": "penstock.client.raw.table",
}
"""The defining module of each public name."""

__all__ = [
    "Admin",
    "AsyncAdmin",
    "AsyncBrokerClient",
    "AsyncConsumer",
    "AsyncProducer",
    "Avro",
    "BrokerClient",
    "ClientError",
    "Consumer",
    "Message",
    "Producer",
    "Record",
    "Serializer",
    "__version__",
    "async_pipe",
    "pipe",
    "table",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(home), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
