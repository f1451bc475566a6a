"""Questions in words: what they mean, what is refused with a remedy, and how they are answered."""

from __future__ import annotations

import pytest

from penstock.core.access import CLUSTER, Operation, ResourceType
from penstock.core.errors import InvalidRequest
from penstock.core.security.access_question import AccessQuestion, answer_question, parse_question
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.acl_table import AclTable

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
ALICE = "User:alice"


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("may alice read orders?", AccessQuestion(ALICE, Operation.READ, TOPIC, "orders")),
        ("alice produce orders", AccessQuestion(ALICE, Operation.WRITE, TOPIC, "orders")),
        ("May User:alice CONSUME topic orders ?", AccessQuestion(ALICE, Operation.READ, TOPIC, "orders")),
        (
            "may alice describe group billing from 10.0.0.1?",
            AccessQuestion(ALICE, Operation.DESCRIBE, GROUP, "billing", "10.0.0.1"),
        ),
        ("may alice read subscription jobs?", AccessQuestion(ALICE, Operation.READ, GROUP, "jobs")),
        (
            "may alice alter cluster?",
            AccessQuestion(ALICE, Operation.ALTER, ResourceType.CLUSTER, CLUSTER.name),
        ),
        (
            "may alice idempotent_write cluster kafka-cluster?",
            AccessQuestion(ALICE, Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER.name),
        ),
        (
            "may Service:etl write transactional-id 'tx 1'?",
            AccessQuestion("Service:etl", Operation.WRITE, ResourceType.TRANSACTIONAL_ID, "tx 1"),
        ),
        ("may alice write any topic?", AccessQuestion(ALICE, Operation.WRITE, TOPIC, None)),
        ("may alice read any groups?", AccessQuestion(ALICE, Operation.READ, GROUP, None)),
        (
            "may anonymous describe-configs orders?",
            AccessQuestion("User:ANONYMOUS", Operation.DESCRIBE_CONFIGS, TOPIC, "orders"),
        ),
        ('may "CN=a b" read "cluster"?', AccessQuestion("User:CN=a b", Operation.READ, TOPIC, "cluster")),
        ("may alice read from?", AccessQuestion(ALICE, Operation.READ, TOPIC, "from")),
    ],
)
def test_a_question_is_understood(text: str, question: AccessQuestion) -> None:
    assert parse_question(text) == question


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "needs a user, an operation and a resource"),
        ("may alice read?", "needs a user, an operation and a resource"),
        ("may alice fly orders?", "'fly' is not an operation; operations are: alter, "),
        ("may alice read queue jobs?", "'queue' is not a resource type; types are: cluster, group, "),
        ("may alice read my topic please?", "quote a name that has spaces"),
        ("may alice read 'orders?", "a quotation mark is not closed"),
        ("may alice read cluster?", "read is not an operation on a cluster; these are: create, "),
        ("may alice cluster-action orders?", "cluster-action is not an operation on a topic"),
        ("may alice alter cluster other?", "the only cluster is 'kafka-cluster'"),
        ("may alice read orders from laptop?", "'laptop' is not an IP address"),
        ("may '' read orders?", "the user name is empty"),
        ("may alice read ''?", "needs one resource"),
        ("may alice read " + "x" * 5_000, "at most 4096 characters"),
    ],
)
def test_an_unclear_question_is_refused_with_a_remedy(text: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_question(text)
    assert reason in str(refused.value)


READ = Acl(
    AclResourceType.TOPIC, PatternType.LITERAL, "orders", ALICE, "*", AclOperation.READ, Permission.ALLOW
)


def answer(text: str, *acls: Acl) -> tuple[bool, list[str]]:
    decision, lines = answer_question(AclTable(acls), {"User:root"}, parse_question(text))
    return decision.is_allowed, list(lines)


def test_an_answer_names_the_acl_that_decides() -> None:
    assert answer("may alice read orders?", READ) == (
        True,
        ["User:alice may READ TOPIC 'orders': ALLOW READ on TOPIC 'orders' for User:alice from any host"],
    )
    assert answer("may root read orders?", READ) == (
        True,
        ["User:root may READ TOPIC 'orders': User:root is a super user"],
    )


def test_an_answer_lists_what_is_close() -> None:
    assert answer("may bob read orders?", READ) == (
        False,
        [
            "User:bob may not READ TOPIC 'orders': no ACL allows it, and what is not allowed is denied",
            "related: ALLOW READ on TOPIC 'orders' for User:alice from any host",
        ],
    )


def test_an_answer_names_hosts_for_which_it_differs() -> None:
    deny = READ._replace(permission=Permission.DENY, host="10.0.0.9")
    allowed, lines = answer("may alice read orders?", READ, deny)
    assert allowed
    assert lines[1:] == [
        "from 10.0.0.9: User:alice may not READ TOPIC 'orders':"
        " DENY READ on TOPIC 'orders' for User:alice from host 10.0.0.9"
    ]
    assert answer("may alice read orders from 10.0.0.9?", READ, deny)[0] is False


def test_an_answer_about_any_resource() -> None:
    write = READ._replace(operation=AclOperation.WRITE)
    assert answer("may alice write any topic?", write) == (
        True,
        [f"User:alice may WRITE any TOPIC: {write.text}"],
    )
    assert answer("may alice write any topic?", READ) == (
        False,
        ["User:alice may not WRITE any TOPIC: no ACL matches"],
    )
