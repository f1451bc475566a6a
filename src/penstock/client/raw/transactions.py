"""Kafka transactions call by call, so that one process can write and another one commit. Blocking.

    hold = take(cluster, "orders-copy", 60_000)
    add_partitions(cluster, hold, [TopicPartition("copy", 0)])
    ...                                              # produce with the id and epoch of `hold`
    end(cluster, hold, commit=True)

Uses protocol V1 on purpose: an epoch identifies one transaction, and any process that knows the hold may repeat the
end of it. The caller decides whether to commit. Fenced: another producer took over the transactional id, or the
transaction timed out. Aborted: no open transaction can be ended this way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from penstock.client.errors import Aborted, ClientError, Fenced, NotFound, Refused
from penstock.client.raw.cluster import Cluster, Coordinator, Node, TopicPartition
from penstock.client.raw.committed_offsets import CommittedOffset
from penstock.wire.kafka import ApiKey, ErrorCode, KafkaRequest, ResponseT, error_name, messages

_INIT_VERSION_MAX = 4
_ADD_VERSION_MAX = 3
_COMMIT_VERSION_MAX = 3
_END_VERSION_MAX = 4

EMPTY = "Empty"
ONGOING = "Ongoing"
"""Kafka's state of a transaction that is neither committed nor aborted."""

_FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
_ABORTED = {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}


class TransactionHold(NamedTuple):
    """Producer id and epoch of a transactional id; valid until another producer takes over."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionStatus(NamedTuple):
    """State of a transactional id, in Kafka's terms, and its current hold."""

    state: str
    hold: TransactionHold

    def is_open_for(self, hold: TransactionHold) -> bool:
        """Whether this hold can still commit."""
        return self.state == ONGOING and self.hold == hold


def take(cluster: Cluster, transactional_id: str, timeout_ms: int) -> TransactionHold:
    """Take over a transactional id: fences the previous producer and aborts its open transaction."""
    response = _ask(
        cluster,
        ApiKey.INIT_PRODUCER_ID,
        messages.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms),
        transactional_id,
        _INIT_VERSION_MAX,
    )
    if response.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        raise Refused(
            f"the broker rejected transaction.timeout.ms={timeout_ms}: "
            "reduce it or raise the broker's transaction.max.timeout.ms",
            code=error_name(response.error_code),
        )
    _check(response.error_code, f"cannot acquire transactional id {transactional_id}")
    return TransactionHold(transactional_id, response.producer_id, response.producer_epoch)


def new_producer(cluster: Cluster) -> tuple[int, int]:
    """Id and epoch of a new idempotent producer without a transactional id."""
    request = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    response = cluster.ask(ApiKey.INIT_PRODUCER_ID, request, version_max=_INIT_VERSION_MAX)
    _check(response.error_code, "cannot acquire a producer id")
    return response.producer_id, response.producer_epoch


def add_partitions(cluster: Cluster, hold: TransactionHold, places: Iterable[TopicPartition]) -> None:
    """Add partitions to the transaction; opens it if needed."""
    topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    response = _ask(
        cluster,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=hold.transactional_id,
            v3_and_below_producer_id=hold.producer_id,
            v3_and_below_producer_epoch=hold.producer_epoch,
            v3_and_below_topics=[
                topic(name=name, partitions=[one.partition for one in ones])
                for name, ones in groupby(sorted(places), lambda place: place.topic)
            ],
        ),
        hold.transactional_id,
        _ADD_VERSION_MAX,
    )
    refused = [
        (one.partition_error_code, TopicPartition(topic.name, one.partition_index))
        for topic in response.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    ]
    for code, place in sorted(refused, key=lambda one: one[0] == ErrorCode.OPERATION_NOT_ATTEMPTED):
        _check(code, f"cannot add partition {place.partition} of {place.topic} to the transaction")


def add_offsets(
    cluster: Cluster, hold: TransactionHold, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Add group offsets that take effect if the transaction commits; opens it if needed."""
    identity: dict[str, Any] = {**hold._asdict(), "group_id": group}
    added = _ask(
        cluster,
        ApiKey.ADD_OFFSETS_TO_TXN,
        messages.AddOffsetsToTxnRequest(**identity),
        hold.transactional_id,
        _ADD_VERSION_MAX,
    )
    _check(added.error_code, f"cannot add group {group} to the transaction")
    request = messages.TxnOffsetCommitRequest
    named = request.TxnOffsetCommitRequestPartition
    response = cluster.ask(
        ApiKey.TXN_OFFSET_COMMIT,
        request(
            **identity,
            topics=[
                request.TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        named(
                            partition_index=place.partition,
                            committed_offset=offsets[place].offset,
                            committed_metadata=offsets[place].metadata,
                        )
                        for place in places
                    ],
                )
                for name, places in groupby(sorted(offsets), lambda place: place.topic)
            ],
        ),
        Coordinator.of_group(group),
        version_max=_COMMIT_VERSION_MAX,
    )
    for topic in response.topics:
        for one in topic.partitions:
            _check(one.error_code, f"cannot commit the offset of group {group} for {topic.name}")


def end(cluster: Cluster, hold: TransactionHold, *, commit: bool) -> None:
    """Commit or abort. Safe to repeat after an unknown outcome."""
    response = _ask(
        cluster,
        ApiKey.END_TXN,
        messages.EndTxnRequest(**hold._asdict(), committed=commit),
        hold.transactional_id,
        _END_VERSION_MAX,
    )
    _check(
        response.error_code,
        f"cannot {'commit' if commit else 'abort'} the transaction of {hold.transactional_id}",
    )


def standing(cluster: Cluster, transactional_id: str) -> TransactionStatus | None:
    """State of a transactional id; None if the broker does not know it."""
    response = _ask(
        cluster,
        ApiKey.DESCRIBE_TRANSACTIONS,
        messages.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        transactional_id,
        None,
    )
    (found,) = response.transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    _check(found.error_code, f"cannot describe transactional id {transactional_id}")
    return TransactionStatus(
        found.transaction_state, TransactionHold(transactional_id, found.producer_id, found.producer_epoch)
    )


def open_ids(cluster: Cluster, prefix: str, *, with_taken: bool = False) -> list[str]:
    """The transactional ids with this prefix and an open transaction, on all brokers.

    `with_taken`: also those that a producer has taken without opening a transaction so far.
    """
    found = set()
    states = [EMPTY, ONGOING] if with_taken else [ONGOING]
    for node_id in sorted(cluster.brokers()):
        request = messages.ListTransactionsRequest(state_filters=states)
        response = cluster.ask(ApiKey.LIST_TRANSACTIONS, request, Node(node_id))
        _check(response.error_code, "cannot list transactions")
        found |= {one.transactional_id for one in response.transaction_states}
    return sorted(one for one in found if one.startswith(prefix))


def failure(code: int, what: str) -> ClientError:
    """The ClientError for the error code of a transactional call."""
    if code in _FENCED:
        return Fenced(
            f"{what}: another producer took over, or it exceeded transaction.timeout.ms",
            code=error_name(code),
        )
    if code in _ABORTED:
        return Aborted(f"{what}: the transaction no longer exists", retriable=False, code=error_name(code))
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return NotFound(f"{what}: there is no such topic or partition", code=error_name(code))
    return Refused(f"{what}: {error_name(code)}", code=error_name(code))


def _check(code: int, what: str) -> None:
    if code:
        raise failure(code, what)


def _ask(
    cluster: Cluster,
    api_key: ApiKey,
    body: KafkaRequest[ResponseT],
    transactional_id: str,
    version_max: int | None,
) -> ResponseT:
    return cluster.ask(api_key, body, Coordinator.of_transaction(transactional_id), version_max=version_max)
