"""The gRPC services as child processes, and streams of a client that a test can feed step by step."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from penstock.testing.child_server import ChildServer
from penstock.v1 import (
    consumer_pb2,
    consumer_pb2_grpc,
    message_pb2,
    producer_pb2,
    producer_pb2_grpc,
    topics_pb2_grpc,
)

ANSWER_S_MAX = 60.0


class ServiceProcess(ChildServer):
    """`penstock producer-service` or `consumer-service`. Keeps its port across restarts."""

    def __init__(self, home: Path, kind: str, *flags: str) -> None:
        self.noun = kind
        super().__init__(home)
        self._flags = flags
        self.port = 0
        self.services: list[str] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _command_line(self) -> list[str]:
        ready = ("--port", str(self.port), "--ready-file", str(self.ready_path))
        return [sys.executable, "-m", "penstock", self.noun, *ready, *self._flags]

    def _set_ready(self, ready: dict[str, object]) -> None:
        self.port = int(str(ready["port"]))
        services = ready["services"]
        assert isinstance(services, list)
        self.services = services

    def channel(self, **options: int) -> grpc.Channel:
        """A connection to the service; the caller closes it."""
        named = [(f"grpc.{name}", value) for name, value in options.items()]
        return grpc.insecure_channel(self.address, options=named)


class Stubs:
    """The stubs of all services at one address."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self.producer = producer_pb2_grpc.ProducerStub(channel)
        self.consumer = consumer_pb2_grpc.ConsumerStub(channel)
        self.topics = topics_pb2_grpc.TopicsStub(channel)


@contextmanager
def running_service(home: Path, kind: str, *flags: str) -> Iterator[ServiceProcess]:
    """A service that accepts calls."""
    service = ServiceProcess(home / kind, kind, *flags)
    service.start()
    try:
        yield service
    finally:
        service.close()


@contextmanager
def stubs_of(service: ServiceProcess, **options: int) -> Iterator[Stubs]:
    with service.channel(**options) as channel:
        yield Stubs(channel)


class Stream:
    """A bidirectional call: requests are sent one by one, responses are read one by one."""

    def __init__(self, method: Any) -> None:
        self._requests: queue.Queue[Any] = queue.Queue()
        self.call = method(iter(self._requests.get, None), timeout=ANSWER_S_MAX)

    def send(self, request: Any) -> None:
        self._requests.put(request)

    def end(self) -> None:
        """No more requests."""
        self._requests.put(None)

    def read(self) -> Any:
        return next(self.call)

    def cancel(self) -> None:
        self.call.cancel()
        self.end()


class Member(Stream):
    """A Subscribe stream."""

    def __init__(self, stub: consumer_pb2_grpc.ConsumerStub, **start: Any) -> None:
        super().__init__(stub.Subscribe)
        self.request(start=consumer_pb2.Start(**start))

    def request(self, **request: Any) -> None:
        self.send(consumer_pb2.SubscribeRequest(**request))

    def until(self, name: str) -> Any:
        """The next event of that kind; earlier others are skipped."""
        while (event := self.read()).WhichOneof("event") != name:
            continue
        return getattr(event, name)

    def messages(self, count: int, seen: Callable[[Any], None] = lambda batch: None) -> list[Any]:
        """So many messages; each batch is passed to `seen`."""
        found: list[Any] = []
        while len(found) < count:
            batch = self.until("batch")
            found += batch.messages
            seen(batch)
        return found

    def handle(self, batch: consumer_pb2.Batch) -> None:
        self.request(handled=consumer_pb2.Handled(batch_id=batch.batch_id))


def values(*texts: str) -> list[message_pb2.Message]:
    return [message_pb2.Message(value=text.encode()) for text in texts]


def batch_of(topic: str, *texts: str, **options: Any) -> producer_pb2.ProduceRequest:
    return producer_pb2.ProduceRequest(topic=topic, messages=values(*texts), **options)


def refusal(call: Callable[[], Any]) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """Status, reason and metadata of the error of a call."""
    try:
        call()
    except grpc.RpcError as error:
        status = rpc_status.from_call(error)
        if status is None:
            return error.code(), "", {}
        info = error_details_pb2.ErrorInfo()
        retry = error_details_pb2.RetryInfo()
        found: dict[str, str] = {}
        for detail in status.details:
            if detail.Unpack(info):
                found |= info.metadata
            elif detail.Unpack(retry):
                found["retry_ms"] = str(retry.retry_delay.ToMilliseconds())
        return error.code(), info.reason, found
    raise AssertionError("the call succeeded")
