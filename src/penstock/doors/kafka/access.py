"""ACLs, client quotas and SCRAM credentials.

A request with too many ACLs closes its connection: the response has no field for a request-level error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from penstock.core.errors import BrokerError, InvalidRequest, UnsupportedVersion, message_of
from penstock.core.session import Session
from penstock.doors.kafka.call import Call, Handler
from penstock.doors.kafka.checks import check_count
from penstock.doors.kafka.errors import code_of
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ApiKey, ErrorCode, messages

_ENTITIES = frozenset({"user", "client-id", "ip"})
_MATCHES = frozenset({0, 1, 2})
"""Kafka's match types: exact name, default entity, any named entity."""


class AccessHandlers:
    """Handlers of calls about ACLs, client quotas and SCRAM credentials."""

    def __init__(self, waist: Waist) -> None:
        self._verbs = waist.security

    def handlers(self) -> dict[int, Handler]:
        """Handlers by API key."""
        return {
            ApiKey.DESCRIBE_ACLS: self.describe_acls,
            ApiKey.CREATE_ACLS: self.create_acls,
            ApiKey.DELETE_ACLS: self.delete_acls,
            ApiKey.DESCRIBE_CLIENT_QUOTAS: self.describe_client_quotas,
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: self.describe_user_scram_credentials,
        }

    # -- access lists

    def describe_acls(
        self, call: Call, request: messages.DescribeAclsRequest
    ) -> messages.DescribeAclsResponse:
        code, message = _refused(self._verbs.describe_acls, call)
        return messages.DescribeAclsResponse(error_code=code, error_message=message, resources=[])

    def create_acls(self, call: Call, request: messages.CreateAclsRequest) -> messages.CreateAclsResponse:
        response = messages.CreateAclsResponse
        check_count(len(request.creations))
        code, message = _refused(self._verbs.alter_acls, call)
        refused = response.AclCreationResult(error_code=code, error_message=message)
        return response(results=[refused] * len(request.creations))

    def delete_acls(self, call: Call, request: messages.DeleteAclsRequest) -> messages.DeleteAclsResponse:
        response = messages.DeleteAclsResponse
        check_count(len(request.filters))
        code, message = _refused(self._verbs.alter_acls, call)
        refused = response.DeleteAclsFilterResult(error_code=code, error_message=message, matching_acls=[])
        return response(filter_results=[refused] * len(request.filters))

    # -- quotas and credentials

    def describe_client_quotas(
        self, call: Call, request: messages.DescribeClientQuotasRequest
    ) -> messages.DescribeClientQuotasResponse:
        """No entity has a quota, so every valid filter matches nothing."""
        response = messages.DescribeClientQuotasResponse
        try:
            self._verbs.describe_quotas(call.session)
            _check_filter(request.components)
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), entries=None)
        return response(error_message="", entries=[])

    def describe_user_scram_credentials(
        self, call: Call, request: messages.DescribeUserScramCredentialsRequest
    ) -> messages.DescribeUserScramCredentialsResponse:
        """No user has credentials."""
        response = messages.DescribeUserScramCredentialsResponse
        try:
            self._verbs.describe_credentials(call.session)
            check_count(len(request.users or ()))
        except BrokerError as error:
            return response(error_code=code_of(error), error_message=message_of(error), results=[])
        requested = Counter(user.name for user in request.users or ())
        results = [_no_credentials(name, count) for name, count in requested.items()]
        return response(error_message="", results=results)


def _refused(verb: Callable[[Session], None], call: Call) -> tuple[int, str | None]:
    """Error code and message of a verb."""
    try:
        verb(call.session)
    except BrokerError as error:
        return code_of(error), message_of(error)
    return 0, None


def _check_filter(components: list[messages.DescribeClientQuotasRequest.ComponentData]) -> None:
    """Validate a filter as Kafka does, with its messages."""
    seen: set[str] = set()
    for one in components:
        if not one.entity_type:
            raise InvalidRequest("Invalid empty entity type.")
        if one.entity_type in seen:
            raise InvalidRequest(f"Entity type {one.entity_type} cannot appear more than once in the filter.")
        if one.entity_type not in _ENTITIES:
            raise UnsupportedVersion(f"Unsupported entity type {one.entity_type}")
        if one.match_type not in _MATCHES:
            raise InvalidRequest(f"Unknown match type {one.match_type}")
        seen.add(one.entity_type)
    if "ip" in seen and len(seen) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with user or"
            " clientId filter component."
        )


def _no_credentials(
    name: str, count: int
) -> messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    code, message = (
        ErrorCode.RESOURCE_NOT_FOUND,
        "Attempt to describe a user credential that does not exist: ",
    )
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
    return messages.DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(
        user=name, error_code=int(code), error_message=message + name, credential_infos=[]
    )
