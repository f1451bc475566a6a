"""How many bytes an offset takes: looked up by fetching a little at each start. Never reads more than that."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.cluster import Cluster, Leader, Place
from penstock.client.fetching import Terms
from penstock.core.records.batch import decode_header, size_at
from penstock.wire.kafka import ApiKey, messages

SAMPLE_BYTES = 64 << 10
SAMPLES_MAX = 8
"""So many partitions are looked at; more would say little more."""

_FETCH_VERSION_MAX = 12
_HEADER_BYTES = 61


def bytes_per_offset(cluster: Cluster, starts: Mapping[Place, int], terms: Terms) -> float:
    """The average over the beginnings of these partitions; 1 when there is nothing to look at."""
    size = offsets = 0
    for place in sorted(starts)[:SAMPLES_MAX]:
        sampled_bytes, sampled_offsets = _sample(cluster, place, starts[place], terms)
        size, offsets = size + sampled_bytes, offsets + sampled_offsets
    return size / offsets if offsets else 1.0


def _sample(cluster: Cluster, place: Place, start: int, terms: Terms) -> tuple[int, int]:
    request = messages.FetchRequest
    part = request.FetchPartition(
        partition=place.partition, fetch_offset=start, partition_max_bytes=SAMPLE_BYTES
    )
    body = request(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=SAMPLE_BYTES,
        isolation_level=terms.isolation,
        topics=[request.FetchTopic(topic=place.topic, partitions=[part])],
    )
    answer = cluster.ask(ApiKey.FETCH, body, Leader(*place), version_max=_FETCH_VERSION_MAX)
    records = answer.responses[0].partitions[0].records if answer.responses else None
    content = memoryview(records or b"")
    position = offsets = 0
    while len(content) - position >= _HEADER_BYTES:
        header = decode_header(content, position)
        offsets += header.last_offset_delta + 1
        position += size_at(content, position)
    return position, offsets
