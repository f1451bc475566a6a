"""One client of the gRPC services in its own process, as cheap as possible: requests are encoded once, responses are
only counted. The rows measure the service.

`python -m bench.grpc_client publish|subscribe ADDRESS TOPIC RECORDS BATCH` prints one JSON object at the end.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict

import grpc

from bench.rdkafka_client import ClientFailed, Done
from penstock.v1 import consumer_pb2, message_pb2, producer_pb2

VALUE_BYTES = 100
REQUESTS = 16
"""Different requests, sent in turn."""
IN_FLIGHT = 64
ANSWER_S_MAX = 300.0


def publish(address: str, topic: str, count: int, batch: int) -> Done:
    """A Publish stream with a bounded number of requests that are not answered."""
    chance = random.Random(1)
    requests = [_request(topic, batch, chance) for _ in range(REQUESTS)]
    room = threading.Semaphore(IN_FLIGHT)

    def send() -> Iterator[bytes]:
        for number in range(count // batch):
            room.acquire()
            yield requests[number % REQUESTS]

    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream("/penstock.v1.Producer/Publish", response_deserializer=_count_outcomes)
        start_s = time.perf_counter()
        written = 0
        for outcomes in call(send(), timeout=ANSWER_S_MAX):
            written += outcomes
            room.release()
        seconds = time.perf_counter() - start_s
    if written != count:
        raise ClientFailed(f"{written} of {count} records were written")
    return Done(count, count * VALUE_BYTES, seconds, time.process_time())


def subscribe(address: str, topic: str, count: int, batch: int) -> Done:
    """A Subscribe stream from the beginning; every batch is confirmed."""
    start = consumer_pb2.Start(group="bench", topics=[topic], max_batch_messages=batch, max_in_flight=100_000)
    handled: list[int] = []
    arrived = threading.Semaphore(0)

    def send() -> Iterator[consumer_pb2.SubscribeRequest]:
        yield consumer_pb2.SubscribeRequest(start=start)
        while True:
            arrived.acquire()
            if handled[-1] < 0:
                return
            yield consumer_pb2.SubscribeRequest(handled=consumer_pb2.Handled(batch_id=handled[-1]))

    seen = 0
    first_s = last_s = time.perf_counter()
    with grpc.insecure_channel(address) as channel:
        call = channel.stream_stream(
            "/penstock.v1.Consumer/Subscribe",
            request_serializer=consumer_pb2.SubscribeRequest.SerializeToString,
            response_deserializer=consumer_pb2.SubscribeResponse.FromString,
        )
        for response in call(send(), timeout=ANSWER_S_MAX):
            if not response.HasField("batch"):
                continue
            if not seen:
                first_s = time.perf_counter()  # joining a group is not measured
            seen += len(response.batch.messages)
            handled.append(response.batch.batch_id if seen < count else -1)
            arrived.release()
            last_s = time.perf_counter()
    return Done(seen, seen * VALUE_BYTES, last_s - first_s, time.process_time())


def _request(topic: str, batch: int, chance: random.Random) -> bytes:
    messages = [message_pb2.Message(value=chance.randbytes(VALUE_BYTES)) for _ in range(batch)]
    return producer_pb2.ProduceRequest(topic=topic, messages=messages).SerializeToString()


def _count_outcomes(raw: bytes) -> int:
    response = producer_pb2.ProduceResponse.FromString(raw)
    return len(response.outcomes) - response.failed_count


def run_grpc_client(verb: str, address: str, topic: str, count: int, batch: int) -> Done:
    """Run one client process and wait for its result. Raises ClientFailed."""
    command = [sys.executable, "-m", "bench.grpc_client", verb, address, topic, str(count), str(batch)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ClientFailed(f"{verb} ended with code {done.returncode}")
    return Done(**json.loads(done.stdout))


if __name__ == "__main__":
    work = {"publish": publish, "subscribe": subscribe}[sys.argv[1]]
    print(json.dumps(asdict(work(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))))
