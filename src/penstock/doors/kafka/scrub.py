"""RangeChecksum and ScrubReplicas: the comparison of replicas, for other brokers only. They are not Kafka's calls."""

from __future__ import annotations

from penstock.core.errors import BrokerError, message_of
from penstock.core.model import PartitionId
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import code_of
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, messages


class ScrubHandlers:
    """Handlers of these calls."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.scrub

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {ApiKey.RANGE_CHECKSUM: self.checksum, ApiKey.SCRUB_REPLICAS: self.scrub}

    async def checksum(
        self, call: Call, request: messages.RangeChecksumRequest
    ) -> messages.RangeChecksumResponse:
        """The checksum of a range of the replica here."""
        response = messages.RangeChecksumResponse
        try:
            found = await self._verbs.checksum(
                call.session,
                PartitionId(request.topic_id, request.partition),
                request.leader_epoch,
                request.start_offset,
                request.end_offset,
                None if request.expected is None else bytes(request.expected),
            )
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), digest=b"")
        return response(digest=found.digest, size_bytes=found.size_bytes)

    def scrub(self, call: Call, request: messages.ScrubReplicasRequest) -> messages.ScrubReplicasResponse:
        """What this broker has compared; may begin a round."""
        response = messages.ScrubReplicasResponse
        try:
            found = self._verbs.scrub_here(call.session, request.topic, is_started=request.is_started)
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error))
        return response(**found._asdict())
