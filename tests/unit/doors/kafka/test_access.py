"""Access lists, quotas and credentials where there are none, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.limits import ADMIN_ENTRIES_MAX
from penstock.doors.kafka.access import AccessHandlers
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages

from .conftest import Node


def ask(node: Node, key: ApiKey, version: int, **fields: Any) -> Any:
    body = getattr(messages, f"{API[key].name}Request")(**fields)
    return node.ask(AccessHandlers(node.waist).handlers()[key], key, version, body)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_acl_calls_say_that_security_is_off(node: Node, version: int) -> None:
    answer = ask(node, ApiKey.DESCRIBE_ACLS, version)
    assert (answer.error_code, answer.resources) == (ErrorCode.SECURITY_DISABLED, [])
    creations = [messages.CreateAclsRequest.AclCreation() for _ in range(3)]
    created = ask(node, ApiKey.CREATE_ACLS, version, creations=creations).results
    assert [one.error_code for one in created] == [ErrorCode.SECURITY_DISABLED] * 3
    filters = [messages.DeleteAclsRequest.DeleteAclsFilter() for _ in range(2)]
    deleted = ask(node, ApiKey.DELETE_ACLS, version, filters=filters).filter_results
    assert [(one.error_code, one.matching_acls) for one in deleted] == [(ErrorCode.SECURITY_DISABLED, [])] * 2


@pytest.mark.parametrize("version", [0, 1])
def test_nobody_has_a_quota(node: Node, version: int) -> None:
    component = messages.DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=2)
    answer = ask(node, ApiKey.DESCRIBE_CLIENT_QUOTAS, version, components=[component])
    assert (answer.error_code, answer.entries) == (0, []), "not null: Java's client fails on that"


def test_nobody_has_credentials(node: Node) -> None:
    assert ask(node, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=None).results == []
    users = [messages.DescribeUserScramCredentialsRequest.UserName(name=name) for name in ("a", "b", "b")]
    results = ask(node, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users).results
    assert [(one.user, one.error_code) for one in results] == [
        ("a", ErrorCode.RESOURCE_NOT_FOUND),
        ("b", ErrorCode.DUPLICATE_RESOURCE),
    ]


def test_more_than_one_request_may_name(node: Node) -> None:
    users = [messages.DescribeUserScramCredentialsRequest.UserName(name="a")] * (ADMIN_ENTRIES_MAX + 1)
    answer = ask(node, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, users=users)
    assert (answer.error_code, answer.results) == (ErrorCode.INVALID_REQUEST, [])
    creations = [messages.CreateAclsRequest.AclCreation()] * (ADMIN_ENTRIES_MAX + 1)
    with pytest.raises(InvalidRequest, match="at most"):
        ask(node, ApiKey.CREATE_ACLS, 3, creations=creations)
