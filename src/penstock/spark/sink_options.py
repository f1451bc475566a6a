"""Validates the options and columns of a sink before anything is written. Never connects.

Options have the names of Spark's Kafka connector. Each is used or rejected: none is silently ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.access import Access, nearest, whole_number
from penstock.client.errors import BadArgument
from penstock.core.codecs import CODEC_NAMES
from penstock.spark.raw_options import KAFKA, RawOptions
from penstock.spark.task_writer import WriteTerms

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
DELIVERIES = (EXACTLY_ONCE, AT_LEAST_ONCE)

SINK_OPTIONS = ("topic", "delivery", "includeHeaders", "txnAppId", "txnVersion", "transactionalIdPrefix")
SPARKS_OWN = ("checkpointLocation", "path", "queryName")
"""Options that Spark adds to a write for its own use."""
PRODUCER_OPTIONS = (
    "acks",
    "batch.size",
    "buffer.memory",
    "compression.type",
    "delivery.timeout.ms",
    "linger.ms",
    "max.request.size",
    "transaction.timeout.ms",
)
REFUSED = {
    KAFKA + "enable.idempotence": "the sink is always idempotent; remove this option",
    KAFKA + "interceptor.classes": "there is no Java client here; use a DataFrame function",
    KAFKA + "key.serializer": "keys are bytes or strings; cast or encode them in the query",
    KAFKA
    + "partitioner.class": "the column 'partition' chooses the partition, else the key as in Kafka's own partitioner",
    KAFKA + "retries": "retriable errors are retried until kafka.delivery.timeout.ms",
    KAFKA + "transactional.id": "each task has its own; use transactionalIdPrefix",
    KAFKA + "value.serializer": "values are bytes or strings; cast or encode them in the query",
}
_BACKOFF_MS = 20
"""Shorter than the client default: a transaction that is being completed is done within milliseconds."""

WRITTEN = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that are written, and their allowed types."""
READ_ONLY = ("offset", "timestampType")
"""Columns that only a source fills. They are ignored, so that a DataFrame read from a topic can be written."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All options of a write. Picklable, because tasks get a copy."""

    access: Access
    terms: WriteTerms
    is_exactly_once: bool
    transaction_ms_max: int
    prefix: str
    app: str | None
    version: int | None


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Validate all options. Raises BadArgument."""
    given = RawOptions(options, (*SINK_OPTIONS, *SPARKS_OWN), PRODUCER_OPTIONS, REFUSED)
    kafka = given.kafka()
    is_exactly_once = given.choice("delivery", DELIVERIES, EXACTLY_ONCE) == EXACTLY_ONCE
    if kafka.get("acks", "all") not in ("all", "-1"):
        raise BadArgument("option 'kafka.acks' must be 'all': the sink waits until records are durable")
    app = given.text("txnAppId")
    if (app is None) == given.has("txnVersion"):
        raise BadArgument("options 'txnAppId' and 'txnVersion' belong together: set both, or neither")
    if app is not None and not is_exactly_once:
        raise BadArgument(
            "'txnAppId' makes a job exactly-once; it cannot be combined with delivery=at_least_once"
        )
    if app is not None and (not app or "/" in app):
        raise BadArgument(f"option 'txnAppId' is {app!r}; it must be a name without '/'")
    return SinkOptions(
        access=_read_access(given),
        terms=_read_terms(given),
        is_exactly_once=is_exactly_once,
        transaction_ms_max=whole_number(kafka, "transaction.timeout.ms", 900_000, 1_000),
        prefix=given.text("transactionalIdPrefix") or "penstock-sink",
        app=app,
        version=given.number("txnVersion", 0),
    )


def _read_access(given: RawOptions) -> Access:
    access, kafka = given.access(), given.kafka()
    return replace(
        access,
        backoff_ms=whole_number(kafka, "retry.backoff.ms", _BACKOFF_MS, 0),
        call_ms_max=whole_number(kafka, "delivery.timeout.ms", access.call_ms_max, 1),
    )


def _read_terms(given: RawOptions) -> WriteTerms:
    defaults, kafka = WriteTerms(), given.kafka()
    codecs = {name: codec for codec, name in CODEC_NAMES.items()}
    compression = kafka.get("compression.type", "none")
    if compression not in codecs:
        raise BadArgument(
            f"option 'kafka.compression.type' is {compression!r}; it must be one of {', '.join(codecs)}"
        )
    request_bytes_max = whole_number(kafka, "max.request.size", defaults.request_bytes_max, 1)
    batch_bytes = whole_number(kafka, "batch.size", defaults.batch_bytes, 0)
    return WriteTerms(
        topic=given.text("topic") or None,
        has_headers=given.flag("includeHeaders", True),
        codec=codecs[compression],
        batch_bytes=min(batch_bytes, request_bytes_max),
        request_bytes_max=request_bytes_max,
        buffer_bytes_max=whole_number(kafka, "buffer.memory", defaults.buffer_bytes_max, 1),
        linger_ms=whole_number(kafka, "linger.ms", 0, 0) if "linger.ms" in kafka else None,
    )


def check_columns(schema: Any, options: SinkOptions) -> None:
    """Raises BadArgument if rows of this schema cannot be written."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise BadArgument(
            f"there is no column 'value' among {', '.join(types) or 'no columns'}: select the value to write, for "
            'example with df.selectExpr("to_json(struct(*)) AS value")'
        )
    if "topic" not in types and options.terms.topic is None:
        raise BadArgument("no topic is set: set option 'topic', or add a column 'topic'")
    for name, kind in types.items():
        if name in READ_ONLY:
            continue
        if name not in WRITTEN:
            raise BadArgument(
                f"column {name!r} cannot be written.{nearest(name, WRITTEN)} A record has "
                f"{', '.join(WRITTEN)}; put other columns into the value, for example with to_json(struct(...))"
            )
        if kind not in WRITTEN[name]:
            raise BadArgument(
                f"column {name!r} has type {kind}; it must be {' or '.join(WRITTEN[name])}: cast it first"
            )
