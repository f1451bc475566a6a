"""A topic as a table, for notebooks and SQL: a snapshot of all its records, read into memory.

penstock.table("orders").to_pandas()
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from penstock.client.access import nearest
from penstock.client.errors import BadArgument, NotFound, SerializationFailed
from penstock.client.extras import extras
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, list_offsets
from penstock.client.security import OWN_NAMES, resolve_access

if TYPE_CHECKING:
    from penstock.client.raw.fetch import Span

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
VALUES = ("bytes", "text", "json")
POSITIONS = ("topic", "partition", "offset", "timestamp", "key")
"""Columns added to the fields of a JSON value, with an underscore prefix."""


def table(topic: str, bootstrap: str | None = None, **options: str | bool) -> Table:
    """A topic of the broker at `bootstrap` (default: PENSTOCK_BOOTSTRAP, the profile, then 127.0.0.1:9092).

    Security options and `profile` are those of the other clients: `tls_ca="ca.pem"`. Other options are Kafka client
    options with underscores instead of dots: `request_timeout_ms="5000"`.
    """
    own = {name: str(value) for name, value in options.items() if name in OWN_NAMES}
    kafka = {name.replace("_", "."): str(value) for name, value in options.items() if name not in OWN_NAMES}
    return Table(topic, {**kafka, **({"bootstrap.servers": bootstrap} if bootstrap else {})}, own)


class Table:
    """One topic. Every call reads it again."""

    def __init__(self, topic: str, kafka: dict[str, str], own: dict[str, str] | None = None) -> None:
        self.topic = topic
        self._own = own or {}
        self._access = resolve_access(kafka, self._own, bootstrap_default=BOOTSTRAP_DEFAULT)
        self._kafka = {**kafka, "bootstrap.servers": self._access.bootstrap}

    def to_arrow(self, *, values: str = "bytes", headers: bool = False) -> Any:
        """A pyarrow.Table with Kafka's columns; only committed records are included.

        `values="text"` decodes keys and values as strings. `values="json"` turns the fields of the values into
        columns and adds `_topic`, `_partition`, `_offset`, `_timestamp` and `_key`. Raises ClientError.
        """
        if values not in VALUES:
            raise BadArgument(f"invalid values {values!r}: expected one of {', '.join(VALUES)}")
        with extras():
            found = self._read(headers)
            if values == "bytes":
                return found
            found = _as_text(found, self.topic, ("key", "value") if values == "text" else ("key",))
            return found if values == "text" else _as_fields(found, self.topic)

    def to_pandas(self, *, values: str = "bytes", headers: bool = False) -> Any:
        """The same as a pandas.DataFrame."""
        found = self.to_arrow(values=values, headers=headers)
        with extras():
            return found.to_pandas()

    def to_spark(self, spark: Any, *, headers: bool = False) -> Any:
        """The same as a lazy Spark DataFrame, read by the workers of `spark`."""
        options = {f"kafka.{name}": value for name, value in self._kafka.items()}
        source = spark.read.format("penstock").options(**options, **self._own).option("subscribe", self.topic)
        return source.option("includeHeaders", str(headers).lower()).load()

    def _read(self, headers: bool) -> Any:
        import pyarrow as pa

        from penstock.client.raw.fetch import FetchTerms, fetch_span
        from penstock.client.raw.loops import chosen_loops
        from penstock.core.records.columns import SCHEMA, SCHEMA_WITH_HEADERS

        terms = FetchTerms(with_headers=headers)
        with Cluster(self._access) as cluster:
            spans = self._spans(cluster, terms.isolation)
            batches = [one for span in spans for one in fetch_span(cluster, span, terms, chosen_loops())]
        return pa.Table.from_batches(batches, SCHEMA_WITH_HEADERS if headers else SCHEMA)

    def _spans(self, cluster: Cluster, isolation: int) -> list[Span]:
        from penstock.client.raw.fetch import Span

        found = cluster.topics([self.topic]).get(self.topic)
        if found is None:
            raise NotFound(f"there is no topic {self.topic!r}.{nearest(self.topic, cluster.topics())}")
        places = [TopicPartition(self.topic, number) for number in found.partitions]
        starts = list_offsets(cluster, dict.fromkeys(places, EARLIEST), isolation)
        ends = list_offsets(cluster, dict.fromkeys(places, LATEST), isolation)
        return [Span(*place, starts[place], ends[place]) for place in places if ends[place] > starts[place]]


def _as_text(found: Any, topic: str, names: tuple[str, ...]) -> Any:
    import pyarrow as pa

    for name in names:
        try:
            column = found.column(name).cast(pa.string())
        except pa.ArrowInvalid as error:
            raise SerializationFailed(
                f"topic {topic} contains a {name} that is not UTF-8: read it with values='bytes'"
            ) from error
        found = found.set_column(found.schema.get_field_index(name), name, column)
    return found


def _as_fields(found: Any, topic: str) -> Any:
    """Turn JSON objects into columns; a null value becomes a row without fields."""
    import pyarrow as pa
    from pyarrow import json as arrow_json

    beside = found.select(list(POSITIONS)).rename_columns([f"_{name}" for name in POSITIONS])
    lines = [b"{}" if one is None else one for one in found.column("value").to_pylist()]
    if not lines:
        return beside
    size = sum(map(len, lines)) + len(lines)
    options = arrow_json.ReadOptions(use_threads=True, block_size=max(size, 1 << 20))
    try:
        fields = arrow_json.read_json(io.BytesIO(b"\n".join(lines)), read_options=options)
        if len(fields) != len(lines):
            raise pa.ArrowInvalid(f"{len(lines)} values contain {len(fields)} objects")
    except pa.ArrowInvalid as error:
        raise SerializationFailed(
            f"topic {topic} has values that are not a single JSON object: {error}. Read them with values='text'."
        ) from error
    columns = {name: fields.column(name) for name in fields.column_names if name not in beside.column_names}
    return pa.table({**columns, **{name: beside.column(name) for name in beside.column_names}})
