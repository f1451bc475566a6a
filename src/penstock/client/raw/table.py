"""A topic as a table, for notebooks and for SQL: all that it holds now, at once in memory. Never follows new records.

penstock.table("orders").to_pandas()
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

from penstock.client.access import nearest, read_access
from penstock.client.errors import BadArgument, NotFound, SerializationFailed
from penstock.client.extras import extras
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, list_offsets

if TYPE_CHECKING:
    from penstock.client.raw.fetch import Span

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
VALUES = ("bytes", "text", "json")
POSITIONS = ("topic", "partition", "offset", "timestamp", "key")
"""Columns that stand beside the fields of a JSON value, with an underscore in front."""


def table(topic: str, bootstrap: str | None = None, **kafka: str) -> Table:
    """A topic of the broker at `bootstrap` (else PENSTOCK_BOOTSTRAP, else 127.0.0.1:9092).

    Further options are those of Kafka's clients, with underscores for dots: `security_protocol="SSL"`.
    """
    where = bootstrap or os.environ.get("PENSTOCK_BOOTSTRAP") or BOOTSTRAP_DEFAULT
    named = {name.replace("_", "."): value for name, value in kafka.items()}
    return Table(topic, {"bootstrap.servers": where, **named})


class Table:
    """One topic. Every call reads it anew."""

    def __init__(self, topic: str, kafka: dict[str, str]) -> None:
        self.topic = topic
        self._kafka = kafka
        self._access = read_access(kafka)

    def to_arrow(self, *, values: str = "bytes", headers: bool = False) -> Any:
        """A pyarrow.Table with Kafka's columns; transactions that were not committed are left out.

        `values="text"` makes keys and values strings. `values="json"` makes the fields of the values columns, and
        puts `_topic`, `_partition`, `_offset`, `_timestamp` and `_key` beside them. Raises ClientError.
        """
        if values not in VALUES:
            raise BadArgument(f"values is {values!r}; it is one of {', '.join(VALUES)}")
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
        """The same as a DataFrame of this Spark session, read by its workers when it is used."""
        options = {f"kafka.{name}": value for name, value in self._kafka.items()}
        source = spark.read.format("penstock").options(**options).option("subscribe", self.topic)
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
                f"topic {topic} holds a {name} that is not UTF-8: read it with values='bytes'"
            ) from error
        found = found.set_column(found.schema.get_field_index(name), name, column)
    return found


def _as_fields(found: Any, topic: str) -> Any:
    """JSON objects to columns; a null value is a row without fields."""
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
            raise pa.ArrowInvalid(f"{len(lines)} values are {len(fields)} objects")
    except pa.ArrowInvalid as error:
        raise SerializationFailed(
            f"the values of topic {topic} are not one JSON object each: {error}. Read them with values='text'."
        ) from error
    columns = {name: fields.column(name) for name in fields.column_names if name not in beside.column_names}
    return pa.table({**columns, **{name: beside.column(name) for name in beside.column_names}})
