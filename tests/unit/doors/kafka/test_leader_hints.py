"""Answers that name the leader can be encoded in every version, and name it where there are fields for it."""

from __future__ import annotations

import pytest

from fuzz.wire import joined
from penstock.core.errors import NotLeader
from penstock.core.model import Address
from penstock.doors.kafka.leader_hints import FETCH_FROM, PRODUCE_FROM, add_leader_hint
from penstock.wire.kafka import ApiKey, messages
from penstock.wire.kafka.codec import encode_response

ELSEWHERE = NotLeader("it moved", leader_id=7, leader_epoch=3, leader_address=Address("elsewhere", 9092))
UNKNOWN = NotLeader("it moved")
HOST = b"elsewhere"


def produce_answer(error: NotLeader, version: int) -> bytes:
    answer = messages.ProduceResponse.PartitionProduceResponse(index=0, error_code=6, base_offset=-1)
    topic = messages.ProduceResponse.TopicProduceResponse(name="t", partition_responses=[answer])
    response = messages.ProduceResponse(responses=[topic])
    add_leader_hint(response, answer, error, version)
    return joined(encode_response(ApiKey.PRODUCE, version, 1, response))


def fetch_answer(error: NotLeader, version: int) -> bytes:
    answer = messages.FetchResponse.PartitionData(
        partition_index=0, error_code=6, high_watermark=-1, records=b"", aborted_transactions=None
    )
    topic = messages.FetchResponse.FetchableTopicResponse(topic="t", partitions=[answer])
    response = messages.FetchResponse(responses=[topic])
    add_leader_hint(response, answer, error, version)
    return joined(encode_response(ApiKey.FETCH, version, 1, response))


@pytest.mark.parametrize("version", range(3, 14))
def test_produce(version: int) -> None:
    assert (HOST in produce_answer(ELSEWHERE, version)) == (version >= PRODUCE_FROM)
    assert HOST not in produce_answer(UNKNOWN, version)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch(version: int) -> None:
    assert (HOST in fetch_answer(ELSEWHERE, version)) == (version >= FETCH_FROM)
    assert HOST not in fetch_answer(UNKNOWN, version)
