"""AlterPartition: a leader changes the ISR of its partitions. For brokers of the cluster and for tools that hold its
link key; leaders of this version write to the metadata log themselves."""

from __future__ import annotations

from penstock.core.errors import BrokerError
from penstock.core.model import PartitionId
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.checks import check_count
from penstock.doors.kafka.errors import code_of
from penstock.node.waist.replicas import NO_MEMBER_EPOCH, IsrChange, IsrMember, IsrOutcome, ReplicaIdentity
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_EPOCHS_FROM = 3
"""First version with the broker epochs of the members."""
_RECOVERING = 1


class IsrChangeHandlers:
    """Handler of AlterPartition."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.replicas

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {ApiKey.ALTER_PARTITION: self.alter_partition}

    async def alter_partition(
        self, call: Call, request: messages.AlterPartitionRequest
    ) -> messages.AlterPartitionResponse:
        response = messages.AlterPartitionResponse
        sender = ReplicaIdentity(request.broker_id, request.broker_epoch)
        wanted = [
            _change(call.version, PartitionId(topic.topic_id, one.partition_index), one)
            for topic in request.topics
            for one in topic.partitions
        ]
        try:
            check_count(len(wanted))
            outcomes = iter(await self._verbs.change_isr(call.session, sender, wanted))
        except BrokerError as error:
            return response(error_code=code_of(error), topics=[])
        return response(
            topics=[
                response.TopicData(
                    topic_id=topic.topic_id,
                    partitions=[_answer(one.partition_index, next(outcomes)) for one in topic.partitions],
                )
                for topic in request.topics
            ]
        )


def _change(
    version: int, partition: PartitionId, one: messages.AlterPartitionRequest.PartitionData
) -> IsrChange:
    if version >= _EPOCHS_FROM:
        isr = [IsrMember(each.broker_id, each.broker_epoch) for each in one.new_isr_with_epochs]
    else:
        isr = [IsrMember(each, NO_MEMBER_EPOCH) for each in one.new_isr]
    is_recovering = one.leader_recovery_state == _RECOVERING
    return IsrChange(partition, one.leader_epoch, one.partition_epoch, isr, is_recovering)


def _answer(index: int, outcome: IsrOutcome | BrokerError) -> messages.AlterPartitionResponse.PartitionData:
    answer = messages.AlterPartitionResponse.PartitionData(partition_index=index, isr=[])
    if isinstance(outcome, BrokerError):
        answer.error_code = code_of(outcome)
    elif outcome.is_deposed:
        answer.error_code = int(ErrorCode.NEW_LEADER_ELECTED)
    else:
        placed = outcome.placed
        answer.leader_id, answer.leader_epoch = placed.leader, placed.leader_epoch
        answer.isr, answer.partition_epoch = list(placed.isr), placed.partition_epoch
        answer.leader_recovery_state = _RECOVERING if placed.is_recovering else 0
    return answer
