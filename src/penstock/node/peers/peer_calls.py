"""Typed calls to other brokers over links: builds the Kafka request, turns error codes back into errors.

Each call raises, or hands over, the error that the other broker raised; NotLeader names the new leader if that broker
knows it (KIP-951). Errors of the link itself: see `link`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from penstock.core.errors import BrokerError, NotLeader, TimedOut
from penstock.core.model import Acks, Isolation, PartitionId, TopicPartition
from penstock.core.records.control import Marker
from penstock.core.records.visibility import AbortedProducer
from penstock.core.replication.divergence import EpochEnd
from penstock.core.replication.fetches import ReplicaFetch, ReplicaIdentity, ReplicatedBatches
from penstock.node.peers.links import PeerLinks
from penstock.wire.kafka import Buffer, ErrorCode, KafkaMessage, error_from_code, error_name, messages

NO_REPLICA = -1
NO_LEADER_EPOCH = -1
BUMPED_TRANSACTION_VERSION = 2
"""The transaction version whose markers have a higher epoch than the transaction they end."""

T = TypeVar("T")


class RemoteAppend(NamedTuple):
    """Where another broker appended a batch."""

    base_offset: int
    append_time_ms: int
    start_offset: int


class RemoteBatches(NamedTuple):
    """Batches as another broker stores them, and the offsets of their partition."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    aborted: Sequence[AbortedProducer]
    """The aborted transactions among them, for READ_COMMITTED."""


class WantedBatches(NamedTuple):
    """A partition to fetch from, and the first offset."""

    partition: PartitionId
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH


class RemoteOffset(NamedTuple):
    """The result of an offset lookup; `offset` is -1 if nothing matches."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


class RemoteCoordinator(NamedTuple):
    """Who coordinates a key."""

    broker_id: int
    host: str
    port: int


class CoordinatorKeyType(IntEnum):
    """What FindCoordinator looks up."""

    GROUP = 0
    TRANSACTION = 1


# -- produce


def send_batch(
    links: PeerLinks,
    broker_id: int,
    partition: PartitionId,
    batch: Buffer,
    answered: Callable[[RemoteAppend | BrokerError], None],
    *,
    timeout_ms: int,
    acks: int = Acks.ALL,
) -> None:
    """Append a batch of records on another broker; it is acknowledged as `acks` says, which is not NONE."""
    assert acks != Acks.NONE, "nobody would answer"
    request = messages.ProduceRequest
    produce = request(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[
            request.TopicProduceData(
                topic_id=partition.topic_id,
                partition_data=[
                    request.PartitionProduceData(index=partition.partition, records=memoryview(batch))
                ],
            )
        ],
    )

    def produced(outcome: messages.ProduceResponse | BrokerError) -> None:
        answered(outcome if isinstance(outcome, BrokerError) else _appended(broker_id, outcome))

    links.send(broker_id, produce, produced, timeout_ms=timeout_ms)


def _appended(broker_id: int, response: messages.ProduceResponse) -> RemoteAppend | BrokerError:
    try:
        (topic,) = response.responses
        (one,) = topic.partition_responses
    except ValueError:
        return unasked(broker_id, response)
    if one.error_code:
        return peer_error(broker_id, one.error_code, one.error_message, one.current_leader)
    return RemoteAppend(one.base_offset, one.log_append_time_ms, one.log_start_offset)


# -- fetch


async def fetch(
    links: PeerLinks,
    broker_id: int,
    partition: PartitionId,
    offset: int,
    *,
    bytes_max: int,
    wait_ms: int,
    timeout_ms: int,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> RemoteBatches:
    """Read batches from an offset on; waits up to `wait_ms` if there are none. At least one batch, if there is any."""
    found = await fetch_each(
        links,
        broker_id,
        [WantedBatches(partition, offset, leader_epoch)],
        partition_bytes_max=bytes_max,
        bytes_max=bytes_max,
        wait_ms=wait_ms,
        timeout_ms=timeout_ms,
        isolation=isolation,
    )
    (outcome,) = found
    if isinstance(outcome, BrokerError):
        raise outcome
    return outcome


async def fetch_each(
    links: PeerLinks,
    broker_id: int,
    wanted: Sequence[WantedBatches],
    *,
    partition_bytes_max: int,
    bytes_max: int,
    wait_ms: int,
    timeout_ms: int,
    isolation: Isolation,
) -> list[RemoteBatches | BrokerError]:
    """The same for several partitions of one broker: returns as soon as one of them has records or an error, with one
    outcome for each, in their order. A partition may be listed several times, at different offsets."""
    request = messages.FetchRequest
    topics: dict[bytes, list[messages.FetchRequest.FetchPartition]] = {}
    places: dict[bytes, list[int]] = {}
    for place, ((topic_id, index), offset, leader_epoch) in enumerate(wanted):
        places.setdefault(topic_id, []).append(place)
        one = request.FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_bytes_max,
            current_leader_epoch=leader_epoch,
        )
        topics.setdefault(topic_id, []).append(one)
    response = await links.call(
        broker_id,
        request(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=bytes_max,
            isolation_level=int(isolation),
            topics=[request.FetchTopic(topic_id=one, partitions=some) for one, some in topics.items()],
        ),
        timeout_ms=wait_ms + timeout_ms,
    )
    if response.error_code:
        raise peer_error(broker_id, response.error_code)
    answers = [(topic.topic_id, one) for topic in response.responses for one in topic.partitions]
    order = [place for some in places.values() for place in some]
    if [(bytes(topic_id), one.partition_index) for topic_id, one in answers] != [
        wanted[place].partition for place in order
    ]:
        raise unasked(broker_id, response)
    found = {place: _batches(broker_id, one) for place, (_, one) in zip(order, answers, strict=True)}
    return [found[place] for place in range(len(wanted))]


def _batches(broker_id: int, one: messages.FetchResponse.PartitionData) -> RemoteBatches | BrokerError:
    if one.error_code:
        return peer_error(broker_id, one.error_code, leader=one.current_leader)
    aborted = [
        AbortedProducer(gone.producer_id, gone.first_offset) for gone in one.aborted_transactions or ()
    ]
    return RemoteBatches(
        memoryview(sliced(one.records)),
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        aborted,
    )


class SessionLost(Exception):
    """The other broker does not know the fetch session."""


def replica_fetch_request(
    replica: ReplicaIdentity,
    named: Sequence[ReplicaFetch],
    forgotten: Sequence[PartitionId],
    *,
    session: tuple[int, int],
    bytes_max: int,
    wait_ms: int,
) -> messages.FetchRequest:
    """Read batches for replicas of the partitions of a fetch session (id, epoch), up to the ends of their logs; `named`
    are those that are new in it or have changed. Waits up to `wait_ms` if there are none."""
    request, topics = messages.FetchRequest, dict[bytes, list[messages.FetchRequest.FetchPartition]]()
    for one in named:
        topics.setdefault(one.partition.topic_id, []).append(
            request.FetchPartition(
                partition=one.partition.partition,
                fetch_offset=one.offset,
                partition_max_bytes=one.bytes_max,
                current_leader_epoch=one.leader_epoch,
                last_fetched_epoch=one.last_fetched_epoch,
                log_start_offset=one.start_offset,
                high_watermark=one.high_watermark,
            )
        )
    gone: dict[bytes, list[int]] = {}
    for partition in forgotten:
        gone.setdefault(partition.topic_id, []).append(partition.partition)
    return request(
        replica_state=request.ReplicaState(replica_id=replica.broker_id, replica_epoch=replica.epoch),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=bytes_max,
        session_id=session[0],
        session_epoch=session[1],
        topics=[request.FetchTopic(topic_id=key, partitions=some) for key, some in topics.items()],
        forgotten_topics_data=[
            request.ForgottenTopic(topic_id=key, partitions=some) for key, some in gone.items()
        ],
    )


def decode_replica_fetch(
    broker_id: int, response: messages.FetchResponse
) -> tuple[int, Mapping[PartitionId, ReplicatedBatches]]:
    """The session id, and what is new in its partitions. Raises SessionLost and BrokerError."""
    if response.error_code in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
        raise SessionLost
    if response.error_code:
        raise peer_error(broker_id, response.error_code)
    return response.session_id, {
        PartitionId(topic.topic_id, one.partition_index): _replicated(broker_id, one)
        for topic in response.responses
        for one in topic.partitions
    }


def _replicated(broker_id: int, one: messages.FetchResponse.PartitionData) -> ReplicatedBatches:
    error = peer_error(broker_id, one.error_code, leader=one.current_leader) if one.error_code else None
    diverging = None
    if one.diverging_epoch is not None and one.diverging_epoch.epoch >= 0:
        diverging = EpochEnd(one.diverging_epoch.epoch, one.diverging_epoch.end_offset)
    records = memoryview(sliced(one.records))
    return ReplicatedBatches(error, records, one.high_watermark, one.log_start_offset, diverging)


# -- transactions


async def write_markers(
    links: PeerLinks,
    broker_id: int,
    producer: tuple[int, int],
    marker: Marker,
    places: Iterable[TopicPartition],
    *,
    is_bumped: bool,
    timeout_ms: int,
) -> Mapping[TopicPartition, BrokerError]:
    """End the transaction of a producer (id and epoch) in partitions of another broker; returns those that failed."""
    request = messages.WriteTxnMarkersRequest
    places = list(places)
    topics = [
        request.WritableTxnMarkerTopic(name=name, partition_indexes=indexes)
        for name, indexes in by_topic(places).items()
    ]
    ending = request.WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=marker.is_commit,
        topics=topics,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=BUMPED_TRANSACTION_VERSION if is_bumped else 0,
    )
    response = await links.call(broker_id, request(markers=[ending]), timeout_ms=timeout_ms)
    codes = {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for result in response.markers
        for topic in result.topics
        for one in topic.partitions
    }
    return _failures(broker_id, response, places, codes)


async def add_partitions_to_transaction(
    links: PeerLinks,
    broker_id: int,
    transactional_id: str,
    producer: tuple[int, int],
    places: Iterable[TopicPartition],
    *,
    timeout_ms: int,
    verify_only: bool = False,
) -> Mapping[TopicPartition, BrokerError]:
    """Add partitions to a transaction at its coordinator, or verify that they are in it; returns those that failed.

    If one is rejected, none is added.
    """
    request = messages.AddPartitionsToTxnRequest
    places = list(places)
    topics = [
        request.AddPartitionsToTxnTopic(name=name, partitions=indexes)
        for name, indexes in by_topic(places).items()
    ]
    adding = request.AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=topics,
    )
    response = await links.call(broker_id, request(transactions=[adding]), timeout_ms=timeout_ms)
    if response.error_code:
        raise peer_error(broker_id, response.error_code)
    codes = {
        TopicPartition(topic.name, one.partition_index): one.partition_error_code
        for result in response.results_by_transaction
        for topic in result.topic_results
        for one in topic.results_by_partition
    }
    return _failures(broker_id, response, places, codes)


# -- coordinators


async def find_coordinator(
    links: PeerLinks, broker_id: int, kind: CoordinatorKeyType, key: str, *, timeout_ms: int
) -> RemoteCoordinator:
    """Ask another broker who coordinates a group or a transactional id."""
    request = messages.FindCoordinatorRequest(key_type=int(kind), coordinator_keys=[key])
    response = await links.call(broker_id, request, timeout_ms=timeout_ms)
    one = _only(broker_id, response, response.coordinators)
    if one.error_code:
        raise peer_error(broker_id, one.error_code, one.error_message)
    return RemoteCoordinator(one.node_id, one.host, one.port)


# -- responses


def peer_error(
    broker_id: int,
    code: int,
    message: str | None = None,
    leader: messages.ProduceResponse.LeaderIdAndEpoch | messages.FetchResponse.LeaderIdAndEpoch | None = None,
) -> BrokerError:
    """The error that a broker answered, with the leader that it named."""
    error = error_from_code(code, f"broker {broker_id}: {message or error_name(code)}")
    if isinstance(error, NotLeader) and leader is not None:
        error.leader_id, error.leader_epoch = leader.leader_id, leader.leader_epoch
    return error


def _failures(
    broker_id: int,
    response: KafkaMessage,
    places: Sequence[TopicPartition],
    codes: Mapping[TopicPartition, int],
) -> dict[TopicPartition, BrokerError]:
    if codes.keys() != set(places):
        raise unasked(broker_id, response)
    fine = (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)  # not attempted because of another one's error
    return {place: peer_error(broker_id, code) for place, code in codes.items() if code not in fine}


def by_topic(places: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order."""
    found: dict[str, list[int]] = {}
    for place in places:
        found.setdefault(place.topic, []).append(place.partition)
    return found


def _only(broker_id: int, response: KafkaMessage, items: Sequence[T]) -> T:
    if len(items) != 1:
        raise unasked(broker_id, response)
    return items[0]


def unasked(broker_id: int, response: KafkaMessage) -> TimedOut:
    """A response that does not match its request."""
    return TimedOut(
        f"broker {broker_id} sent a {type(response).__name__} that does not match the request, the outcome is unknown"
    )


def sliced(data: object) -> Buffer:
    """Decoded bytes, which are slices of the frame."""
    assert data is None or isinstance(data, bytes | bytearray | memoryview)
    return data or b""
