"""DescribeGroups, ListGroups and DeleteGroups. Describes classic groups only."""

from __future__ import annotations

from functools import partial
from typing import Any

from penstock.core.access import group_resource
from penstock.core.errors import BrokerError, UnknownGroup, message_of
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.errors import coordinator_code_of
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.group_descriptions import ClassicGroupDescription
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, messages

_NOT_FOUND_FROM = 6
"""Before this version a missing group is described as Dead, without an error."""
_DEAD = "Dead"
"""Kafka's state of a missing group."""
_REMOVAL_UNITS = 8
"""Cost of deleting a group: its tombstones are a separate batch."""


class GroupAdminHandlers:
    """Handlers of group administration."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.groups
        self._authorization = waist.authorization

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {
            ApiKey.DESCRIBE_GROUPS: self.describe_groups,
            ApiKey.LIST_GROUPS: self.list_groups,
            ApiKey.DELETE_GROUPS: self.delete_groups,
        }

    # -- DescribeGroups

    def describe_groups(self, call: Call, request: messages.DescribeGroupsRequest) -> Sliced[None]:
        """Answered when the described state of every group is durable."""
        answer = call.answer_later()
        response = messages.DescribeGroupsResponse
        described = [response.DescribedGroup(group_id=group_id) for group_id in request.groups]
        left = len(described)
        if not left:
            answer(response(groups=[]))

        def collect(
            one: messages.DescribeGroupsResponse.DescribedGroup,
            outcome: ClassicGroupDescription | BrokerError,
        ) -> None:
            nonlocal left
            _describe(call, one, outcome)
            if request.include_authorized_operations:
                allowed = self._authorization.allowed_operations(call.session, group_resource(one.group_id))
                one.authorized_operations = sum(1 << operation for operation in allowed)
            left -= 1
            if not left:
                answer(response(groups=described))

        for one in described:
            self._verbs.describe_classic(call.session, one.group_id, partial(collect, one))
            yield 1 + len(one.members)

    # -- ListGroups

    def list_groups(
        self, call: Call, request: messages.ListGroupsRequest
    ) -> Sliced[messages.ListGroupsResponse]:
        """All groups, or those in the requested states and of the requested kinds, ignoring case."""
        response = messages.ListGroupsResponse
        states = {state.lower() for state in request.states_filter}
        kinds = {kind.lower() for kind in request.types_filter}
        groups: list[Any] = []
        try:
            listed = yield from self._verbs.all(call.session)
        except BrokerError as error:
            return response(error_code=coordinator_code_of(error), groups=[])
        for some in chunks(listed):
            groups += [
                response.ListedGroup(
                    group_id=one.group_id,
                    protocol_type=one.protocol_type,
                    group_state=one.state_name,
                    group_type=one.kind.value,
                )
                for one in some
                if (not states or one.state_name.lower() in states) and (not kinds or one.kind.value in kinds)
            ]
            yield len(some) // 2
        return response(groups=groups)

    # -- DeleteGroups

    def delete_groups(self, call: Call, request: messages.DeleteGroupsRequest) -> Sliced[None]:
        """Answered when the deletion is durable."""
        answer = call.answer_later()
        response = messages.DeleteGroupsResponse
        results = [response.DeletableGroupResult(group_id=group_id) for group_id in request.groups_names]
        left = len(results)
        if not left:
            answer(response(results=[]))

        def removed(
            result: messages.DeleteGroupsResponse.DeletableGroupResult, outcome: BrokerError | None
        ) -> None:
            nonlocal left
            result.error_code = 0 if outcome is None else coordinator_code_of(outcome)
            left -= 1
            if not left:
                answer(response(results=results))

        for result in results:
            self._verbs.delete(call.session, result.group_id, partial(removed, result))
            yield _REMOVAL_UNITS


def _describe(
    call: Call,
    one: messages.DescribeGroupsResponse.DescribedGroup,
    outcome: ClassicGroupDescription | BrokerError,
) -> None:
    """Fill in the description of a group, or the error."""
    if isinstance(outcome, BrokerError):
        is_missing = isinstance(outcome, UnknownGroup)
        one.group_state = _DEAD if is_missing else ""
        if not is_missing or call.version >= _NOT_FOUND_FROM:
            one.error_code = coordinator_code_of(outcome)
        if call.version >= _NOT_FOUND_FROM:
            one.error_message = message_of(outcome)
        return
    one.group_state = outcome.state_name
    one.protocol_type = outcome.protocol_type
    one.protocol_data = outcome.protocol
    one.members = [
        messages.DescribeGroupsResponse.DescribedGroupMember(
            member_id=member.id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in outcome.members
    ]
