"""Writes orders through the producer service and reads them through the consumer service.

    penstock start & penstock producer-service & penstock consumer-service &
    python examples/grpc_orders.py [COUNT]

PENSTOCK_PRODUCER and PENSTOCK_CONSUMER are the addresses of the services; default 127.0.0.1:9193 and 127.0.0.1:9194.
Needs the extra `grpc`: `pip install '.[grpc]'` in the clone. Ends by itself.
"""

from __future__ import annotations

import os
import queue
import sys

import grpc

from penstock.v1 import (
    consumer_pb2,
    consumer_pb2_grpc,
    message_pb2,
    producer_pb2,
    producer_pb2_grpc,
    topics_pb2,
    topics_pb2_grpc,
)

TOPIC = "example-grpc-orders"
CALL_S_MAX = 30


def write(count: int) -> None:
    with grpc.insecure_channel(os.environ.get("PENSTOCK_PRODUCER", "127.0.0.1:9193")) as channel:
        topics = topics_pb2_grpc.TopicsStub(channel)
        topics.CreateTopic(
            topics_pb2.CreateTopicRequest(name=TOPIC, partitions=3, if_not_exists=True), timeout=CALL_S_MAX
        )
        orders = [
            message_pb2.Message(key=b"customer-%d" % (number % 3), value=b'{"order": %d}' % number)
            for number in range(count)
        ]
        request = producer_pb2.ProduceRequest(
            topic=TOPIC, messages=orders, ack_level=message_pb2.ACK_LEVEL_ALL
        )
        response = producer_pb2_grpc.ProducerStub(channel).Produce(request, timeout=CALL_S_MAX)
        print(f"{len(response.outcomes) - response.failed_count} orders written")


def read(count: int) -> None:
    """One stream is one group member; each batch is confirmed once it is handled."""
    requests: queue.Queue[consumer_pb2.SubscribeRequest | None] = queue.Queue()
    start = consumer_pb2.Start(group="example-grpc-billing", topics=[TOPIC])
    requests.put(consumer_pb2.SubscribeRequest(start=start))
    found = 0
    with grpc.insecure_channel(os.environ.get("PENSTOCK_CONSUMER", "127.0.0.1:9194")) as channel:
        stub = consumer_pb2_grpc.ConsumerStub(channel)
        for event in stub.Subscribe(iter(requests.get, None), timeout=CALL_S_MAX):
            if event.HasField("batch"):
                found += len(event.batch.messages)
                handled = consumer_pb2.Handled(batch_id=event.batch.batch_id)
                requests.put(consumer_pb2.SubscribeRequest(handled=handled))
                if found >= count:
                    requests.put(None)  # leaves the group; handled batches are committed
    print(f"{found} orders read")


def main(count: str = "10") -> None:
    try:
        write(int(count))
        read(int(count))
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}. Do the broker and both services run?")


if __name__ == "__main__":
    main(*sys.argv[1:])
