"""Decodes request frames and dispatches them to their handlers.

A request of an unsupported API or version closes the connection with a warning; only ApiVersions is answered in every
version, because clients use it to negotiate.
"""

from __future__ import annotations

import logging
from functools import partial
from types import CoroutineType, GeneratorType
from typing import Any

from penstock.core.errors import BrokerError
from penstock.core.limits import REQUESTS_LARGE_BYTES_MIN
from penstock.doors.kafka.access import AccessHandlers
from penstock.doors.kafka.admin_configs import ConfigHandlers
from penstock.doors.kafka.admin_topics import TopicHandlers
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.cluster import ClusterHandlers
from penstock.doors.kafka.committed import CommittedHandlers
from penstock.doors.kafka.consumer_groups import ConsumerGroupHandlers
from penstock.doors.kafka.envelope import EnvelopedCall, EnvelopeHandler
from penstock.doors.kafka.errors import DOOR
from penstock.doors.kafka.fetch import FetchHandler
from penstock.doors.kafka.group_admin import GroupAdminHandlers
from penstock.doors.kafka.groups import GroupHandlers
from penstock.doors.kafka.isr_changes import IsrChangeHandlers
from penstock.doors.kafka.large import LargeRequests
from penstock.doors.kafka.links import LinkHandlers
from penstock.doors.kafka.offsets import OffsetHandlers
from penstock.doors.kafka.placement import PlacementHandlers
from penstock.doors.kafka.produce import ProduceHandler
from penstock.doors.kafka.scrub import ScrubHandlers
from penstock.doors.kafka.subscriptions import SubscriptionHandlers
from penstock.doors.kafka.transactions import TransactionHandlers
from penstock.doors.kafka.versions import VersionsHandler, advertised_versions, unsupported
from penstock.node.connections.connection import Connection
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import API, UNSUPPORTED, ApiKey, RequestHeader, decode_request, decode_request_header

logger = logging.getLogger("penstock.kafka")

_BESIDE = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.API_VERSIONS,
    }
)
"""Calls that take effect when they start, so they run concurrently with earlier ones that wait for the disk.

Every other call starts once all earlier ones are answered: a Fetch sees what the same client wrote, and a topic is not
deleted while a batch for it is being flushed.
"""


class Dispatch:
    """The dispatcher and its table of handlers."""

    def __init__(self, waist: Waist) -> None:
        self._tasks = Tasks()
        self._large = LargeRequests(waist.slices)
        self._fetch = FetchHandler(waist)
        self._waist = waist
        offsets = OffsetHandlers(waist)
        groups, committed = GroupHandlers(waist), CommittedHandlers(waist)
        transactions = TransactionHandlers(waist)
        self._handlers: dict[int, Handler] = {
            ApiKey.PRODUCE: ProduceHandler(waist).produce,
            ApiKey.FETCH: self._fetch.fetch,
            ApiKey.LIST_OFFSETS: offsets.list_offsets,
            ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.epoch_ends,
            **ClusterHandlers(waist).handlers(),
            **TopicHandlers(waist).handlers(),
            **ConfigHandlers(waist).handlers(),
            **PlacementHandlers(waist).handlers(),
            **AccessHandlers(waist).handlers(),
            ApiKey.FIND_COORDINATOR: groups.find_coordinator,
            ApiKey.JOIN_GROUP: groups.join_group,
            ApiKey.SYNC_GROUP: groups.sync_group,
            ApiKey.HEARTBEAT: groups.heartbeat,
            ApiKey.LEAVE_GROUP: groups.leave_group,
            ApiKey.OFFSET_COMMIT: committed.offset_commit,
            ApiKey.OFFSET_FETCH: committed.offset_fetch,
            ApiKey.OFFSET_DELETE: committed.offset_delete,
            **GroupAdminHandlers(waist).handlers(),
            **ConsumerGroupHandlers(waist).handlers(),
            **transactions.handlers(),
        }
        own = [ApiKey.API_VERSIONS, ApiKey.UPDATE_FEATURES]
        on_links = {ApiKey.ENVELOPE: EnvelopeHandler(waist, self._start).open, **_calls_on_links(waist)}
        between_brokers = LinkHandlers(waist).handlers() | transactions.between_brokers()
        self._versions = VersionsHandler(
            advertised_versions([*self._handlers, *own]),
            advertised_versions(between_brokers),
            advertised_versions(on_links),
            waist,
        )
        self._handlers[ApiKey.API_VERSIONS] = self._versions.api_versions
        self._handlers[ApiKey.UPDATE_FEATURES] = self._versions.update_features
        self._handlers |= between_brokers | on_links
        meter = waist.meter(DOOR)
        self._timings = {key: meter.call(API[key].name) for key in self._handlers}

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Start one request. A BrokerError closes the connection."""
        header = decode_request_header(frame)
        api_key = header.api_key
        if header.client_id != connection.session.client_id:
            connection.session = connection.session.with_client(header.client_id)
        if api_key not in self._handlers or header.body_position == UNSUPPORTED:
            self._refuse(connection, header)
            return
        call = Call(connection, api_key, header.version, header.correlation_id, connection.session)
        if api_key != ApiKey.PRODUCE:
            frame = memoryview(bytes(frame))
            if api_key == ApiKey.ENVELOPE:
                call = EnvelopedCall(
                    connection, api_key, header.version, header.correlation_id, connection.session
                )
        if connection.in_flight and api_key not in _BESIDE and not connection.is_unordered:
            connection.turns.when_answered(partial(self._begin, call, frame, header.body_position))
        else:
            self._begin(call, frame, header.body_position)

    def _begin(self, call: Call, frame: memoryview, position: int) -> None:
        """Decode a request, in slices if it is large, and start it."""
        call.connection.timing = self._timings[call.api_key]
        if len(frame) >= REQUESTS_LARGE_BYTES_MIN and call.api_key != ApiKey.PRODUCE:
            self._large.decode(call, frame, position, self._start)
        else:
            self._start(call, decode_request(call.api_key, call.version, frame, position))

    def _start(self, call: Call, request: Any) -> bool:
        """Call the handler; True if it continues to run."""
        answer: Any = self._handlers[call.api_key](call, request)
        if answer is None:
            return False
        kind = type(answer)
        if kind is CoroutineType:
            self._run(call, answer)
            return True
        if kind is GeneratorType:
            return self._large.handle(call, answer)
        call.answer(answer)
        return False

    def _run(self, call: Call, work: CoroutineType[Any, Any, Any]) -> None:
        """Run a coroutine handler. Later requests wait until it ends, because it may take effect at any point until
        then; not on a link, where they belong to other callers."""
        answer = call.answer_later()
        release_hold = None if call.connection.is_unordered else call.connection.hold()

        async def finish() -> None:
            try:
                body = await work
            except BrokerError as error:
                call.connection.close(f"{API[call.api_key].name}: {error}")
                return
            finally:
                self._large.settle(call)
                if release_hold is not None:
                    release_hold()
            if not call.connection.is_closed:
                answer(body)

        self._tasks.spawn(finish(), lambda error: call.connection.close(f"defect: {error!r}"))

    def _refuse(self, connection: Connection, header: RequestHeader) -> None:
        if header.api_key == ApiKey.API_VERSIONS:
            self._versions.refuse(connection, header.correlation_id)
            return
        connection.close(unsupported(header.api_key, header.version, connection.session))

    def release_waiting(self) -> None:
        """The doors are closing: answer waiting fetches and group members."""
        self._fetch.release_waiting()
        self._waist.groups.release_waiting()


def _calls_on_links(waist: Waist) -> dict[int, Handler]:
    """Handlers of calls that only other brokers may send, and no client's call inside."""
    scrub, subscriptions = ScrubHandlers(waist), SubscriptionHandlers(waist)
    return IsrChangeHandlers(waist).handlers() | scrub.handlers() | subscriptions.handlers()
