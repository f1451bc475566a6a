"""Hand-written fast paths for whoever calls a broker: one partition, by topic id, in Produce and in its response.

As in `fast`, results never differ from the generated code, which handles every other shape and raises all errors.
"""

from __future__ import annotations

import struct
from typing import Any

from penstock.core.limits import RECORDS_COPIED_BYTES_MAX
from penstock.wire.kafka.classes import Buffer, KafkaMessage
from penstock.wire.kafka.decoder import Decoder
from penstock.wire.kafka.encoder import Encoder
from penstock.wire.kafka.primitives import write_varint

BY_ID_FROM = 13
"""First version of Produce with topic ids."""

_UUID_BYTES = 16
_NO_TAGS = b"\0\0\0"
_PRODUCE = struct.Struct(">xhiB16sBi")
_PRODUCED = struct.Struct(">B16sBihqqqBBBBiB")


def make_produce_encoder(generated: Encoder) -> Encoder:
    """An encoder of Produce requests with one non-transactional partition."""
    pack = _PRODUCE.pack

    def encode(request: Any, parts: list[Any], cuts: list[int]) -> None:
        try:
            (topic,) = request.topic_data
            (partition,) = topic.partition_data
            if request.transactional_id is None and len(topic.topic_id) == _UUID_BYTES:
                records = partition.records
                size = len(records)
                start = pack(request.acks, request.timeout_ms, 2, topic.topic_id, 2, partition.index)
                parts.append(start + write_varint(size + 1))
                if size > RECORDS_COPIED_BYTES_MAX:
                    cuts.append(len(parts))
                parts += (records, _NO_TAGS)
                return
        except (AttributeError, TypeError, ValueError, struct.error):
            pass  # another shape, or an error that the generated encoder describes
        generated(request, parts, cuts)

    return encode


def make_produced_decoder(classes: dict[str, type[KafkaMessage]], generated: Decoder) -> Decoder:
    """A decoder of Produce responses for one partition without an error message or a new leader."""
    new, unpack = object.__new__, _PRODUCED.unpack_from
    response_class: Any = classes["ProduceResponse"]
    topic_class: Any = classes["TopicProduceResponse"]
    partition_class: Any = classes["PartitionProduceResponse"]

    def decode(frame: Buffer, position: int) -> Any:
        if len(frame) - position != _PRODUCED.size:
            return generated(frame, position)
        topics, topic_id, partitions, index, code, base, time_ms, start, *rest = unpack(frame, position)
        errors, message, tags, topic_tags, throttle_ms, all_tags = rest
        if topics != 2 or partitions != 2 or errors != 1 or message or tags or topic_tags or all_tags:
            return generated(frame, position)
        partition = new(partition_class)
        partition.index = index
        partition.error_code = code
        partition.base_offset = base
        partition.log_append_time_ms = time_ms
        partition.log_start_offset = start
        partition.record_errors = []
        partition.error_message = None
        partition.current_leader = None
        topic = new(topic_class)
        topic.name = ""
        topic.topic_id = topic_id
        topic.partition_responses = [partition]
        response = new(response_class)
        response.responses = [topic]
        response.throttle_time_ms = throttle_ms
        response.node_endpoints = []
        return response

    return decode
