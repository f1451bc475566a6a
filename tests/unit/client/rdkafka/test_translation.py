"""Every error of the library has its place in our tree."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from penstock.client.errors import ClientError, Fenced, NotFound, Refused, TimedOut
from penstock.client.rdkafka.translation import KIND_OF, translate
from penstock.wire.kafka.error_codes import ErrorCode


@pytest.mark.parametrize(
    "code", [code for code in ErrorCode if code is not ErrorCode.NONE], ids=lambda c: c.name
)
def test_every_error_of_a_broker_is_told(code: ErrorCode) -> None:
    told = translate(KafkaError(code.value), "orders")
    assert type(told) is KIND_OF.get(code.value, Refused)
    assert isinstance(told, ClientError) and told.message.startswith("orders: ") and told.code


@pytest.mark.parametrize(
    ("code", "kind", "retriable"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound, False),
        (KafkaError._MSG_TIMED_OUT, TimedOut, True),
        (KafkaError.PRODUCER_FENCED, Fenced, False),
        (KafkaError.POLICY_VIOLATION, Refused, False),
    ],
)
def test_kinds(code: int, kind: type[ClientError], retriable: bool) -> None:
    told = translate(KafkaError(code), "orders")
    assert (type(told), told.retriable) == (kind, retriable)
