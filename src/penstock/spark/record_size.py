"""Estimates the average record size from a small fetch at the start of each partition. Never reads more than that."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.raw.batches import records_of
from penstock.client.raw.cluster import Cluster, Leader, TopicPartition
from penstock.client.raw.fetch import FETCH_VERSION_MAX, FetchTerms, fetch_request
from penstock.core.records.batch import PREFIX_BYTES, decode_header, size_at
from penstock.wire.kafka import ApiKey

SAMPLE_BYTES = 64 << 10
SAMPLES_MAX = 8
"""At most this many partitions are sampled; more would hardly improve the estimate."""


def bytes_per_offset(cluster: Cluster, starts: Mapping[TopicPartition, int], terms: FetchTerms) -> float:
    """Average bytes per offset at these starts; 1 if there is nothing to sample."""
    size = offsets = 0
    for place in sorted(starts)[:SAMPLES_MAX]:
        sampled_bytes, sampled_offsets = _sample(cluster, place, starts[place], terms)
        size, offsets = size + sampled_bytes, offsets + sampled_offsets
    return size / offsets if offsets else 1.0


def _sample(cluster: Cluster, place: TopicPartition, start: int, terms: FetchTerms) -> tuple[int, int]:
    body = fetch_request(
        {place: start}, terms.isolation, wait_ms=0, bytes_max=SAMPLE_BYTES, partition_bytes_max=SAMPLE_BYTES
    )
    answer = cluster.ask(ApiKey.FETCH, body, Leader(*place), version_max=FETCH_VERSION_MAX)
    content = memoryview(records_of(answer.responses[0].partitions[0]) if answer.responses else b"")
    position = offsets = 0
    while len(content) - position >= PREFIX_BYTES and len(content) - position >= size_at(content, position):
        header = decode_header(content, position)
        offsets += header.last_offset_delta + 1
        position += size_at(content, position)
    return position, offsets
