"""What a sink was told, read and checked before anything is written: options and columns. Never connects.

Options have the names of Spark's Kafka connector. Each is used or refused: none is read and forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.access import OPTIONS as ACCESS_OPTIONS
from penstock.client.access import Access, nearest, read_access, whole_number
from penstock.client.errors import BadArgument
from penstock.core.records.compression import CODEC_NAMES
from penstock.spark.writing import Shape

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly_once", "at_least_once"
DELIVERIES = (EXACTLY_ONCE, AT_LEAST_ONCE)

SINK_OPTIONS = ("topic", "delivery", "includeHeaders", "txnAppId", "txnVersion", "transactionalIdPrefix")
SPARKS_OWN = ("checkpointLocation", "path", "queryName")
"""What Spark itself puts among the options of a write, and reads."""
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
_PREFIX = "kafka."
_BACKOFF_MS = 20
"""Shorter than a client's usual pause: a transaction that is being completed is so within milliseconds."""

WRITTEN = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
"""The columns that are written, and the types they may have."""
READ_ONLY = ("offset", "timestampType")
"""Columns that a source gives and no sink can write; they may stay, so that what was read can be written as it is."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """All that a task or a driver needs to know. Picklable."""

    access: Access
    shape: Shape
    is_exactly_once: bool
    transaction_ms_max: int
    prefix: str
    app: str | None
    version: int | None


def read_options(given: Mapping[str, str]) -> SinkOptions:
    """Everything at once; raises BadArgument with words that say what to do."""
    options = {name.lower(): str(value).strip() for name, value in given.items()}
    _refuse_unknown(given)
    kafka = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
    if "bootstrap.servers" not in kafka:
        raise BadArgument(
            "option 'kafka.bootstrap.servers' is missing: say where the broker is, as HOST:PORT"
        )
    delivery = options.get("delivery", EXACTLY_ONCE)
    if delivery not in DELIVERIES:
        raise BadArgument(f"option 'delivery' is {delivery!r}; it is one of {', '.join(DELIVERIES)}")
    if kafka.get("acks", "all") not in ("all", "-1"):
        raise BadArgument(
            "option 'kafka.acks' can only be 'all': the sink never leaves before records are kept"
        )
    app, version = _read_identity(options, delivery)
    return SinkOptions(
        access=_read_access(kafka),
        shape=_read_shape(options, kafka),
        is_exactly_once=delivery == EXACTLY_ONCE,
        transaction_ms_max=whole_number(kafka, "transaction.timeout.ms", 900_000, 1_000),
        prefix=options.get("transactionalidprefix", "penstock-sink"),
        app=app,
        version=version,
    )


def _refuse_unknown(given: Mapping[str, str]) -> None:
    known = [*SINK_OPTIONS, *SPARKS_OWN, *(f"{_PREFIX}{one}" for one in (*ACCESS_OPTIONS, *PRODUCER_OPTIONS))]
    folded = {one.lower() for one in known}
    for name in given:
        if name.lower() not in folded:
            raise BadArgument(
                f"the sink has no option {name!r}.{nearest(name, known)} It has {', '.join(SINK_OPTIONS)} and "
                f"these with {_PREFIX} in front: {', '.join((*PRODUCER_OPTIONS, *ACCESS_OPTIONS))}"
            )


def _read_identity(options: Mapping[str, str], delivery: str) -> tuple[str | None, int | None]:
    app = options.get("txnappid")
    if (app is None) != ("txnversion" not in options):
        raise BadArgument("options 'txnAppId' and 'txnVersion' go together: set both, or neither")
    if app is None:
        return None, None
    if delivery != EXACTLY_ONCE:
        raise BadArgument("'txnAppId' makes a job exactly-once; it cannot go with delivery=at_least_once")
    if not app or "/" in app:
        raise BadArgument(f"option 'txnAppId' is {app!r}; it must be a name without '/'")
    return app, whole_number(options, "txnversion", 0, 0)


def _read_access(kafka: Mapping[str, str]) -> Access:
    access = read_access({"retry.backoff.ms": str(_BACKOFF_MS), **kafka})
    call_ms_max = whole_number(kafka, "delivery.timeout.ms", access.call_ms_max, 1)
    return replace(access, call_ms_max=call_ms_max)


def _read_shape(options: Mapping[str, str], kafka: Mapping[str, str]) -> Shape:
    usual = Shape()
    codecs = {name: codec for codec, name in CODEC_NAMES.items()}
    compression = kafka.get("compression.type", "none")
    if compression not in codecs:
        raise BadArgument(
            f"option 'kafka.compression.type' is {compression!r}; it is one of {', '.join(codecs)}"
        )
    has_headers = options.get("includeheaders", "true").lower()
    if has_headers not in ("true", "false"):
        raise BadArgument(f"option 'includeHeaders' is {has_headers!r}; it is true or false")
    request_bytes_max = whole_number(kafka, "max.request.size", usual.request_bytes_max, 1)
    batch_bytes = whole_number(kafka, "batch.size", min(usual.batch_bytes, request_bytes_max), 0)
    return Shape(
        topic=options.get("topic") or None,
        has_headers=has_headers == "true",
        codec=codecs[compression],
        batch_bytes=min(batch_bytes, request_bytes_max),
        request_bytes_max=request_bytes_max,
        buffer_bytes_max=whole_number(kafka, "buffer.memory", usual.buffer_bytes_max, 1),
        linger_ms=whole_number(kafka, "linger.ms", 0, 0) if "linger.ms" in kafka else None,
    )


def check_columns(schema: Any, options: SinkOptions) -> None:
    """Can rows of this schema be written? Raises BadArgument."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in types:
        raise BadArgument(
            f"there is no column 'value' among {', '.join(types) or 'no columns'}: select what is to be written, for "
            'instance with df.selectExpr("to_json(struct(*)) AS value")'
        )
    if "topic" not in types and options.shape.topic is None:
        raise BadArgument(
            "no topic is named: set option 'topic', or have a column 'topic' with one for each row"
        )
    for name, kind in types.items():
        if name in READ_ONLY:
            continue
        if name not in WRITTEN:
            raise BadArgument(
                f"column {name!r} cannot be written.{nearest(name, WRITTEN)} A record has "
                f"{', '.join(WRITTEN)}; put other columns into the value, for instance with to_json(struct(...))"
            )
        if kind not in WRITTEN[name]:
            raise BadArgument(
                f"column {name!r} is of type {kind}; it must be {' or '.join(WRITTEN[name])}: cast it first"
            )
