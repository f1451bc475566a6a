"""Kafka's share groups on a bare socket, with an acknowledgement per record. Uses no client library.

The workers fetch in the batch-optimized mode, the default of Kafka's own client: a fetch acquires whole batches.
Acknowledgements are sent with the next fetch, one entry per record.
"""

from __future__ import annotations

import base64
import time
import uuid
from typing import Any

from penstock.apps.bench.compare.drivers.kafka import FETCH_BYTES, KafkaDriver, KafkaWriter, ResponseSplitter
from penstock.apps.bench.harness.frames import frame_of
from penstock.apps.bench.harness.link import Address, Link, UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.wire.kafka import ApiKey, decode_response, messages

HEARTBEAT_VERSION, FETCH_VERSION, FIND_VERSION, ALTER_VERSION = 1, 1, 4, 1
GROUP_RESOURCE, SET = 32, 0
ACCEPT = 1
FETCH_WAIT_MS = 500
JOIN_S_MAX, JOIN_PAUSE_S = 60.0, 0.05
RETRIED = {14, 15, 16}
"""The coordinator is loading, not available, or on another broker."""


class ShareDriver:
    """One topic with one partition, and one share group that reads it from the start."""

    def __init__(self, address: Address, size: int, stream: str) -> None:
        self._address = address
        self._topic = KafkaDriver(address, size, stream)
        self._group = f"{stream}-workers"

    def create_stream(self) -> None:
        self._topic.create_stream()

    def delete_stream(self) -> None:
        self._topic.delete_stream()

    def writer(self) -> KafkaWriter:
        return self._topic.writer()

    def create_group(self) -> None:
        request = messages.IncrementalAlterConfigsRequest
        setting = request.AlterableConfig(
            name="share.auto.offset.reset", config_operation=SET, value="earliest"
        )
        group = request.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=self._group, configs=[setting]
        )
        with Loader(self._address) as loader:
            _await_coordinator(loader, self._group)
            frame = frame_of(
                ApiKey.INCREMENTAL_ALTER_CONFIGS, ALTER_VERSION,
                request(resources=[group], validate_only=False),
            )  # fmt: skip
            (response,) = loader.call(frame).responses
        if response.error_code:
            raise UnexpectedResponse(
                f"{self._group}: error code {response.error_code}: {response.error_message}"
            )

    def worker(self, number: int, window: int) -> ShareWorker:
        del number  # members are identified by their member id
        return ShareWorker(self._address, self._group, self._topic.topic, window)


def _await_coordinator(loader: Loader, group: str) -> None:
    """The request makes Kafka create the internal topic of the group's state."""
    request = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    deadline = time.monotonic() + JOIN_S_MAX
    while True:
        (found,) = loader.call(frame_of(ApiKey.FIND_COORDINATOR, FIND_VERSION, request)).coordinators
        if not found.error_code:
            return
        if found.error_code not in RETRIED or time.monotonic() > deadline:
            raise UnexpectedResponse(f"{group} has no coordinator, error code {found.error_code}")
        time.sleep(JOIN_PAUSE_S)


class ShareWorker:
    """One member: fetches, and acknowledges each record of the previous fetch."""

    def __init__(self, address: Address, group: str, topic: str, window: int) -> None:
        self.link = Link(address)
        self._group = group
        self._member = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self._window = window
        self._session_epoch = 0
        self._splitter = ResponseSplitter()
        self._topic_id = self._join(address, topic)

    def _join(self, address: Address, topic: str) -> Any:
        """Join the group; returns the topic id once the partition is assigned."""
        epoch, names = 0, [topic]
        deadline = time.monotonic() + JOIN_S_MAX
        with Loader(address) as loader:
            while time.monotonic() < deadline:
                body = messages.ShareGroupHeartbeatRequest(
                    group_id=self._group, member_id=self._member, member_epoch=epoch,
                    subscribed_topic_names=names,
                )  # fmt: skip
                response = loader.call(frame_of(ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, body))
                if response.error_code and response.error_code not in RETRIED:
                    raise UnexpectedResponse(
                        f"{self._group}: error code {response.error_code}: {response.error_message}"
                    )
                if not response.error_code:
                    epoch = response.member_epoch
                    if response.assignment is not None and response.assignment.topic_partitions:
                        return response.assignment.topic_partitions[0].topic_id
                time.sleep(JOIN_PAUSE_S)
        raise UnexpectedResponse(f"{self._group}: no partition was assigned within {JOIN_S_MAX:.0f} s")

    def start(self) -> None:
        self._fetch([])

    def _fetch(self, offsets: list[int]) -> None:
        request = messages.ShareFetchRequest
        batch = request.AcknowledgementBatch
        acks = [
            batch(first_offset=offset, last_offset=offset, acknowledge_types=[ACCEPT]) for offset in offsets
        ]
        part = request.FetchPartition(partition_index=0, acknowledgement_batches=acks)
        named = [request.FetchTopic(topic_id=self._topic_id, partitions=[part])]
        body = request(
            group_id=self._group, member_id=self._member, share_session_epoch=self._session_epoch,
            max_wait_ms=FETCH_WAIT_MS, min_bytes=1, max_bytes=FETCH_BYTES, max_records=self._window,
            batch_size=self._window, topics=named if acks or not self._session_epoch else [],
            forgotten_topics_data=[],
        )  # fmt: skip
        self._session_epoch += 1
        self.link.send(frame_of(ApiKey.SHARE_FETCH, FETCH_VERSION, body))

    @property
    def messages(self) -> ShareWorker:
        return self

    def take(self, received: memoryview) -> int:
        acked = 0
        for response in self._splitter.take(received):
            _, body = decode_response(ApiKey.SHARE_FETCH, FETCH_VERSION, response)
            parts = [part for topic in body.responses for part in topic.partitions]
            codes = {body.error_code} | {
                code for part in parts for code in (part.error_code, part.acknowledge_error_code)
            }
            if codes != {0}:
                raise UnexpectedResponse(f"share fetch was rejected, error codes {sorted(codes)}")
            ranges = [one for part in parts for one in part.acquired_records]
            offsets = [offset for one in ranges for offset in range(one.first_offset, one.last_offset + 1)]
            acked += len(offsets)
            self._fetch(offsets)
        return acked
