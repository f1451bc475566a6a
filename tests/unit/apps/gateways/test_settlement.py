"""What is settled may be committed, and nothing behind an open message is."""

from __future__ import annotations

from penstock.apps.gateways.settlement import AckedMessages, HandledBatches
from penstock.client.messages import Position
from penstock.v1 import consumer_pb2, message_pb2


def batch(batch_id: int, partition: int, *offsets: int) -> consumer_pb2.Batch:
    messages = [message_pb2.Message(offset=one) for one in offsets]
    return consumer_pb2.Batch(
        batch_id=batch_id, topic="t", partition=partition, messages=messages, next_offset=offsets[-1] + 1
    )


def test_handled_batches_are_cumulative() -> None:
    sent = HandledBatches()
    for one in (batch(1, 0, 0, 1), batch(2, 1, 5), batch(3, 0, 2, 3)):
        sent.deliver(one)
    assert sent.in_flight == 5
    assert sent.handle(2) == [Position("t", 0, 2), Position("t", 1, 6)]
    assert sent.in_flight == 2
    assert sent.handle(2) == []
    sent.forget([("t", 0)])
    assert (sent.in_flight, sent.handle(3)) == (0, [])


def test_the_first_open_message_holds_the_commit() -> None:
    sent = AckedMessages()
    sent.deliver(batch(1, 0, 10, 11, 13))
    assert sent.ack(("t", 0), [11, 13]) == []
    assert sent.ack(("t", 0), [10, 10, 99]) == [Position("t", 0, 14)]
    assert sent.in_flight == 0
    sent.deliver(batch(2, 0, 14, 15))
    assert sent.ack(("t", 0), [14]) == [Position("t", 0, 15)]
    assert sent.ack(("elsewhere", 0), [1]) == []


def test_redeliveries_stay_in_flight() -> None:
    sent = AckedMessages()
    sent.deliver(batch(1, 0, 0, 1, 2))
    sent.ack(("t", 0), [1])
    assert [(one.offset, one.redeliveries) for one in sent.nack(("t", 0), [2, 1, 0, 0])] == [(0, 1), (2, 1)]
    assert sent.in_flight == 2
    assert [one.redeliveries for one in sent.nack(("t", 0), [0])] == [2]
    sent.forget([("t", 0)])
    assert (sent.in_flight, sent.nack(("t", 0), [0])) == (0, [])
