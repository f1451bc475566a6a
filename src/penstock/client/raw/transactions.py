"""Kafka's transactions, call by call, so that one process can write and another one end what was written. Blocking.

    hold = take(cluster, "orders-copy", 60_000)
    add_partitions(cluster, hold, [Place("copy", 0)])
    ...                                              # produce in the name of `hold`
    end(cluster, hold, commit=True)

Protocol V1 on purpose: an epoch stands for one transaction, and the end of one may be asked for as often as needed, by
whoever knows the hold. Never decides whether to commit. Fenced means that somebody took the transactional id since, or
that the transaction took too long; Aborted that there is no transaction that could be ended so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from penstock.client.errors import Aborted, ClientError, Fenced, NotFound, Refused
from penstock.client.raw.cluster import Cluster, Coordinator, Node, TopicPartition
from penstock.client.raw.committed_offsets import CommittedOffset
from penstock.client.raw.connection import error_name
from penstock.wire.kafka import ApiKey, ErrorCode, KafkaRequest, ResponseT, messages

_INIT_VERSION_MAX = 4
_ADD_VERSION_MAX = 3
_COMMIT_VERSION_MAX = 3
_END_VERSION_MAX = 4

ONGOING = "Ongoing"
"""Kafka's word for a transaction that is neither committed nor aborted yet."""

_FENCED = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
}
_ABORTED = {ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE}


class TransactionHold(NamedTuple):
    """The right to write under a transactional id, until somebody else takes it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionStatus(NamedTuple):
    """How it stands with a transactional id: Kafka's word, and who holds it."""

    state: str
    hold: TransactionHold

    def is_open_for(self, hold: TransactionHold) -> bool:
        """Can this hold still commit?"""
        return self.state == ONGOING and self.hold == hold


def take(cluster: Cluster, transactional_id: str, timeout_ms: int) -> TransactionHold:
    """Hold a transactional id: whoever held it is fenced, and what he left open is aborted before this returns."""
    answer = _ask(
        cluster,
        ApiKey.INIT_PRODUCER_ID,
        messages.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms),
        transactional_id,
        _INIT_VERSION_MAX,
    )
    if answer.error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        raise Refused(
            f"transaction.timeout.ms is {timeout_ms}, which the broker does not allow: "
            "make it smaller, or the broker's transaction.max.timeout.ms larger",
            code=error_name(answer.error_code),
        )
    _check(answer.error_code, f"transactional id {transactional_id} is not given")
    return TransactionHold(transactional_id, answer.producer_id, answer.producer_epoch)


def new_producer(cluster: Cluster) -> tuple[int, int]:
    """Id and epoch of a producer without a name, so that what it sends again is known."""
    request = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
    answer = cluster.ask(ApiKey.INIT_PRODUCER_ID, request, version_max=_INIT_VERSION_MAX)
    _check(answer.error_code, "no producer id is given")
    return answer.producer_id, answer.producer_epoch


def add_partitions(cluster: Cluster, hold: TransactionHold, places: Iterable[TopicPartition]) -> None:
    """Take partitions into the transaction; opens it if it is not."""
    topic = messages.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    answer = _ask(
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
        for topic in answer.results_by_topic_v3_and_below
        for one in topic.results_by_partition
        if one.partition_error_code
    ]
    for code, place in sorted(refused, key=lambda one: one[0] == ErrorCode.OPERATION_NOT_ATTEMPTED):
        _check(code, f"partition {place.partition} of {place.topic} is not taken into the transaction")


def add_offsets(
    cluster: Cluster, hold: TransactionHold, group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> None:
    """Offsets of a group that count if the transaction commits; opens it if it is not."""
    identity: dict[str, Any] = {**hold._asdict(), "group_id": group}
    taken = _ask(
        cluster,
        ApiKey.ADD_OFFSETS_TO_TXN,
        messages.AddOffsetsToTxnRequest(**identity),
        hold.transactional_id,
        _ADD_VERSION_MAX,
    )
    _check(taken.error_code, f"group {group} is not taken into the transaction")
    request = messages.TxnOffsetCommitRequest
    named = request.TxnOffsetCommitRequestPartition
    answer = cluster.ask(
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
    for topic in answer.topics:
        for one in topic.partitions:
            _check(one.error_code, f"the offset of group {group} for {topic.name} is not taken")


def end(cluster: Cluster, hold: TransactionHold, *, commit: bool) -> None:
    """Commit or abort. Asked again after an unknown outcome, it answers what became of it."""
    answer = _ask(
        cluster,
        ApiKey.END_TXN,
        messages.EndTxnRequest(**hold._asdict(), committed=commit),
        hold.transactional_id,
        _END_VERSION_MAX,
    )
    _check(
        answer.error_code,
        f"the transaction of {hold.transactional_id} cannot be {'committed' if commit else 'aborted'}",
    )


def standing(cluster: Cluster, transactional_id: str) -> TransactionStatus | None:
    """How it stands with a transactional id; None if the broker knows none of that name."""
    answer = _ask(
        cluster,
        ApiKey.DESCRIBE_TRANSACTIONS,
        messages.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        transactional_id,
        None,
    )
    (found,) = answer.transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return None
    _check(found.error_code, f"transactional id {transactional_id} is not described")
    return TransactionStatus(
        found.transaction_state, TransactionHold(transactional_id, found.producer_id, found.producer_epoch)
    )


def open_ids(cluster: Cluster, prefix: str) -> list[str]:
    """The transactional ids that begin so and have a transaction open, on all brokers."""
    found = set()
    for node_id in sorted(cluster.brokers()):
        request = messages.ListTransactionsRequest(state_filters=[ONGOING])
        answer = cluster.ask(ApiKey.LIST_TRANSACTIONS, request, Node(node_id))
        _check(answer.error_code, "open transactions are not listed")
        found |= {one.transactional_id for one in answer.transaction_states}
    return sorted(one for one in found if one.startswith(prefix))


def failure(code: int, what: str) -> ClientError:
    """The error of a call in a transaction, in the client's own words."""
    if code in _FENCED:
        return Fenced(
            f"{what}: another writer has taken its place, or it took longer than transaction.timeout.ms",
            code=error_name(code),
        )
    if code in _ABORTED:
        return Aborted(
            f"{what}: there is no such transaction any more", retriable=False, code=error_name(code)
        )
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
