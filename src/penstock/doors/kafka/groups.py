"""FindCoordinator, and the classic group protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from penstock.core.errors import (
    BrokerError,
    InconsistentProtocol,
    Loading,
    MemberIdRequired,
    UnknownMember,
    message_of,
)
from penstock.doors.kafka.call import Call
from penstock.doors.kafka.errors import DOOR, coordinator_code_of
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.cluster import BrokerEndpoint
from penstock.node.waist.coordinators import CoordinatorKind
from penstock.node.waist.groups import (
    Assigned,
    JoinCommand,
    Joined,
    LeaveCommand,
    Protocol,
    SyncCommand,
)
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, messages

logger = logging.getLogger("penstock.kafka")

_KINDS = {0: CoordinatorKind.GROUP, 1: CoordinatorKind.TRANSACTION, 2: CoordinatorKind.SHARE}
_MANY_KEYS_FROM = 4
_OWN_REBALANCE_TIMEOUT_FROM = 1
_KNOWN_ID_FROM = 4
_NULL_PROTOCOL_FROM = 7
_SKIP_FROM = 9
_PROTOCOL_STATED_FROM = 5
_MANY_LEAVE_FROM = 3
_ANY_CLIENT = "member"
"""Prefix of member ids of clients without a client id."""


class GroupHandlers:
    """Handlers of coordinator lookup and classic groups."""

    def __init__(self, waist: Waist) -> None:
        self._slices = waist.slices
        self._coordinators = waist.coordinators
        self._verbs = waist.groups

    # -- FindCoordinator

    def find_coordinator(
        self, call: Call, request: messages.FindCoordinatorRequest
    ) -> Sliced[messages.FindCoordinatorResponse] | Coroutine[Any, Any, messages.FindCoordinatorResponse]:
        """The brokers that coordinate these keys; the first lookup creates the topic of their kind."""
        kind = _KINDS.get(request.key_type)
        if kind is None or self._coordinators.are_ready(call.session, kind):
            return self._found(call, request, None)
        return self._open_and_find(call, request)

    async def _open_and_find(
        self, call: Call, request: messages.FindCoordinatorRequest
    ) -> messages.FindCoordinatorResponse:
        failure: BrokerError | None = None
        try:
            await self._coordinators.open(call.session, _KINDS[request.key_type], _keys(call, request))
        except BrokerError as error:
            failure = error
            context = {"door": DOOR, "client_id": call.session.client_id or ""}
            logger.error("cannot open a coordinator; clients will retry: %s", error, extra=context)
        return await self._slices.run(self._found(call, request, failure))

    def _found(
        self, call: Call, request: messages.FindCoordinatorRequest, failure: BrokerError | None
    ) -> Sliced[messages.FindCoordinatorResponse]:
        response = messages.FindCoordinatorResponse
        if call.version < _MANY_KEYS_FROM:
            return response(**self._endpoint(call, request.key_type, request.key, failure))
        coordinators: list[Any] = []
        for keys in chunks(request.coordinator_keys):
            coordinators += [
                response.Coordinator(key=key, **self._endpoint(call, request.key_type, key, failure))
                for key in keys
            ]
            yield len(keys) // 4
        return response(coordinators=coordinators)

    def _endpoint(self, call: Call, key_type: int, key: str, failure: BrokerError | None) -> dict[str, Any]:
        code, message, where = 0, None, BrokerEndpoint(-1, "", -1)
        kind = _KINDS.get(key_type)
        if kind is None:
            code, message = int(ErrorCode.INVALID_REQUEST), f"unknown coordinator type {key_type}"
        elif failure is not None:
            code, message = int(ErrorCode.COORDINATOR_NOT_AVAILABLE), message_of(failure)
        else:
            try:
                where = self._coordinators.find(call.session, kind, key)
            except BrokerError as error:
                code, message = coordinator_code_of(error), message_of(error)
        return {
            "node_id": where.id,
            "host": where.host,
            "port": where.port,
            "error_code": code,
            "error_message": message,
        }

    # -- JoinGroup

    def join_group(self, call: Call, request: messages.JoinGroupRequest) -> None:
        """Answered when the join round closes."""
        answer = call.answer_later()
        own_rebalance_ms = call.version >= _OWN_REBALANCE_TIMEOUT_FROM and request.rebalance_timeout_ms >= 0
        name = request.group_instance_id or call.session.client_id or _ANY_CLIENT
        command = JoinCommand(
            member_id=request.member_id,
            fresh_id=self._verbs.new_member_id(call.session, name),
            instance_id=request.group_instance_id,
            client_id=call.session.client_id or "",
            client_host=f"/{call.session.address}",
            session_ms=request.session_timeout_ms,
            rebalance_ms=request.rebalance_timeout_ms if own_rebalance_ms else request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=tuple(Protocol(one.name, bytes(one.metadata)) for one in request.protocols),
            needs_known_id=call.version >= _KNOWN_ID_FROM,
            may_skip=call.version >= _SKIP_FROM,
        )
        self._verbs.join(
            call.session,
            request.group_id,
            command,
            lambda outcome: answer(_joined(call, request.member_id, outcome)),
        )

    # -- SyncGroup

    def sync_group(self, call: Call, request: messages.SyncGroupRequest) -> None:
        """Answered when the leader has sent its assignment."""
        if call.version >= _PROTOCOL_STATED_FROM and None in (request.protocol_type, request.protocol_name):
            error = InconsistentProtocol("SyncGroup requests of this version must name the protocol")
            call.answer(_synced(error))
            return
        answer = call.answer_later()
        command = SyncCommand(
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            protocol_type=request.protocol_type,
            protocol=request.protocol_name,
            assignments={one.member_id: bytes(one.assignment) for one in request.assignments},
        )
        self._verbs.sync(call.session, request.group_id, command, lambda outcome: answer(_synced(outcome)))

    # -- Heartbeat

    def heartbeat(self, call: Call, request: messages.HeartbeatRequest) -> None:
        answer = call.answer_later()

        def answered(outcome: BrokerError | None) -> None:
            # As Kafka: clients do not expect Loading here, and some of them give up. The session of the member starts
            # again once the group is loaded.
            is_loading = isinstance(outcome, Loading)
            answer(messages.HeartbeatResponse(error_code=0 if is_loading else _code(outcome)))

        self._verbs.heartbeat(
            call.session,
            request.group_id,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            answered,
        )

    # -- LeaveGroup

    def leave_group(self, call: Call, request: messages.LeaveGroupRequest) -> None:
        """From version 3 on several members may leave at once, each with its own result."""
        answer = call.answer_later()
        if call.version < _MANY_LEAVE_FROM:
            leaving = [LeaveCommand(request.member_id, None)]
        else:
            leaving = [LeaveCommand(one.member_id, one.group_instance_id) for one in request.members]
        self._verbs.leave(
            call.session, request.group_id, leaving, lambda outcome: answer(_left(call, leaving, outcome))
        )


def _keys(call: Call, request: messages.FindCoordinatorRequest) -> Sequence[str]:
    return [request.key] if call.version < _MANY_KEYS_FROM else request.coordinator_keys


def _code(outcome: object) -> int:
    return coordinator_code_of(outcome) if isinstance(outcome, BrokerError) else 0


def _joined(call: Call, member_id: str, outcome: Joined | BrokerError) -> messages.JoinGroupResponse:
    response = messages.JoinGroupResponse
    if isinstance(outcome, BrokerError):
        return response(
            error_code=_code(outcome),
            protocol_name=None if call.version >= _NULL_PROTOCOL_FROM else "",
            member_id=outcome.member_id if isinstance(outcome, MemberIdRequired) else member_id,
        )
    return response(
        generation_id=outcome.generation,
        protocol_type=outcome.protocol_type,
        protocol_name=outcome.protocol,
        leader=outcome.leader,
        skip_assignment=outcome.skip_assignment,
        member_id=outcome.member_id,
        members=[
            response.JoinGroupResponseMember(
                member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata
            )
            for one in outcome.members
        ],
    )


def _synced(outcome: Assigned | BrokerError) -> messages.SyncGroupResponse:
    if isinstance(
        outcome, Loading
    ):  # as Kafka: the round is lost with the coordinator, so the member joins again
        return messages.SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    if isinstance(outcome, BrokerError):
        return messages.SyncGroupResponse(error_code=_code(outcome))
    return messages.SyncGroupResponse(
        protocol_type=outcome.protocol_type, protocol_name=outcome.protocol, assignment=outcome.assignment
    )


def _left(
    call: Call, leaving: list[LeaveCommand], outcome: list[BrokerError | None] | BrokerError
) -> messages.LeaveGroupResponse:
    response = messages.LeaveGroupResponse
    if isinstance(outcome, UnknownMember) and call.version >= _MANY_LEAVE_FROM:
        outcome = [outcome] * len(leaving)
    if isinstance(outcome, BrokerError):
        return response(error_code=_code(outcome))
    if call.version < _MANY_LEAVE_FROM:
        return response(error_code=_code(outcome[0]))
    members = [
        response.MemberResponse(
            member_id=one.member_id, group_instance_id=one.instance_id, error_code=_code(error)
        )
        for one, error in zip(leaving, outcome, strict=True)
    ]
    return response(members=members)
