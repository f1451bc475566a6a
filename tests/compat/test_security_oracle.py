"""Random ACLs, quotas and invalid requests: our decisions and those of Apache Kafka's own classes."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.roster import do_without
from compat.runtimes import java_command
from compat.vocabulary import MissingRuntime
from penstock.core.access import Operation, Resource, ResourceType
from penstock.core.machines.security.acls import AclCreation, parse_acl
from penstock.core.machines.security.credentials import CredentialUpsertion, decide_alter_credentials
from penstock.core.machines.security.quotas import QuotaAlteration, QuotaOp, decide_alter_quotas
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.acl import (
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
)
from penstock.core.security.acl_table import AclTable
from penstock.core.security.decision import IMPLIED_BY, AccessRequest, decide_access, decide_any_access
from penstock.core.security.entry_error import EntryError
from penstock.core.security.quota import EntityType, QuotaEntity, QuotaKey, QuotaTable
from penstock.core.security.quota_meter import QuotaMeter
from penstock.core.security.sampled_rate import SAMPLES, WINDOW_MS, TokenBucket

CASES = 300
QUESTIONS_PER_CASE = 40
SEED = 17

NAMES = ["a", "ab", "abc", "abd", "b", "*", "kafka-cluster", "hardcode", "hard", "é", "a*"]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Service:alice", "User:al:ice", "User:root"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1"]
ADDRESSES = ["10.0.0.1", "10.0.0.3", "::1"]
"""Where callers come from. Kafka writes the last one as an ACL of the list above does."""
TYPES = [one for one in AclResourceType if one != AclResourceType.ANY]
OPERATIONS = [one for one in AclOperation if one not in (AclOperation.ANY, AclOperation.ALL)]


Oracle = Callable[[list[dict[str, Any]]], list[Any]]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """One Java machine for all questions, which it answers line by line."""
    try:
        command = java_command(program="SecurityOracle", home="tools")
    except MissingRuntime as missing:
        do_without(missing)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(cases: list[dict[str, Any]]) -> list[Any]:
            found = []
            for case in cases:
                asked.write(json.dumps(case) + "\n")
                asked.flush()
                answer = answers.readline()
                assert answer, "the oracle has failed; its reason is on stderr"
                found.append(json.loads(answer))
            return found

        yield ask
        asked.close()


def random_acl(rng: random.Random) -> Acl:
    return Acl(
        rng.choice(TYPES[:2]) if rng.random() < 0.8 else rng.choice(TYPES),
        rng.choice([PatternType.LITERAL, PatternType.PREFIXED]),
        rng.choice(NAMES),
        rng.choice(PRINCIPALS),
        rng.choice(HOSTS),
        rng.choice([*OPERATIONS, AclOperation.ALL, AclOperation.READ, AclOperation.DESCRIBE]),
        rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
    )


def random_filter(rng: random.Random) -> AclFilter:
    return AclFilter(
        rng.choice([AclResourceType.ANY, *TYPES[:2]]),
        rng.choice(list(PatternType)),
        rng.choice([None, *NAMES]),
        rng.choice([None, None, *PRINCIPALS]),
        rng.choice([None, None, *HOSTS]),
        rng.choice([AclOperation.ANY, AclOperation.ANY, *AclOperation]),
        rng.choice([Permission.ANY, *Permission]),
    )


def random_question(rng: random.Random) -> tuple[str, str, Operation, ResourceType, str | None]:
    operation = rng.choice(list(Operation))
    name = rng.choice([*NAMES, "abcd", "abx", "zz"])
    # Kafka asks about any resource only for WRITE. For implied operations its answer depends on a made-up name.
    is_any = operation not in IMPLIED_BY and rng.random() < 0.2
    return (
        rng.choice([one for one in PRINCIPALS if one != "User:*"]),
        rng.choice(ADDRESSES),
        operation,
        rng.choice([ResourceType.TOPIC, ResourceType.TOPIC, *ResourceType]),
        None if is_any else name,
    )


def decided(table: AclTable, supers: frozenset[str], question: tuple[Any, ...]) -> bool:
    principal, host, operation, kind, name = question
    if name is None:
        return decide_any_access(table, supers, principal, host, operation, kind).is_allowed
    request = AccessRequest(principal, host, operation, Resource(kind, name))
    return decide_access(table, supers, request).is_allowed


def test_decisions_and_filters_are_those_of_kafkas_authorizer(oracle: Oracle) -> None:
    rng = random.Random(SEED)
    supers = frozenset({"User:root"})
    cases: list[dict[str, Any]] = []
    ours: list[dict[str, Any]] = []
    for _ in range(CASES):
        acls = list({random_acl(rng): None for _ in range(rng.randrange(25))})
        questions = [random_question(rng) for _ in range(QUESTIONS_PER_CASE)]
        filters = [random_filter(rng) for _ in range(5)]
        cases.append(
            {
                "kind": "acls",
                "super_users": sorted(supers),
                "acls": acls,
                "questions": questions,
                "filters": filters,
            }
        )
        table = AclTable(acls)
        selections = [sorted(acls.index(one) for one in table.matching(wanted)) for wanted in filters]
        decisions = [decided(table, supers, question) for question in questions]
        ours.append({"decisions": decisions, "selections": selections})
    kafkas = oracle(cases)
    for case, own, kafka in zip(cases, ours, kafkas, strict=True):
        kafka["selections"] = [sorted(one) for one in kafka["selections"]]
        different = [
            (question, mine, theirs)
            for question, mine, theirs in zip(
                case["questions"], own["decisions"], kafka["decisions"], strict=True
            )
            if mine != theirs
        ]
        assert different == [], case["acls"]
        assert own["selections"] == kafka["selections"], (case["acls"], case["filters"])
    decisions = [one for own in ours for one in own["decisions"]]
    assert 0.1 < sum(decisions) / len(decisions) < 0.9, "the questions do not tell anything apart"


def random_entity(rng: random.Random) -> QuotaEntity:
    user = (EntityType.USER, rng.choice([None, "alice", "b,b=b"]))
    client = (EntityType.CLIENT_ID, rng.choice([None, "app", "app-2"]))
    return QuotaEntity(rng.choice([(user,), (client,), (user, client)]))


def test_quotas_and_throttle_times_are_those_of_kafka(oracle: Oracle) -> None:
    rng = random.Random(SEED)
    cases: list[dict[str, Any]] = []
    ours: list[list[int]] = []
    for _ in range(CASES // 3):
        quotas = {random_entity(rng): float(rng.randrange(1, 5_000)) for _ in range(rng.randrange(6))}
        now_ms, events = 1_000_000, []
        for _ in range(60):
            now_ms += rng.choice([0, 1, 7, 300, 999, 1_000, 1_001, 4_000, 12_500])
            who = (rng.choice(["alice", "b,b=b", "carol"]), rng.choice(["app", "app-2", "other"]))
            events.append((*who, rng.randrange(20_000), now_ms))
        named = [
            ({str(kind): name for kind, name in entity.parts}, bound) for entity, bound in quotas.items()
        ]
        cases.append({"kind": "quotas", "quotas": named, "events": events})
        table = QuotaTable({one: {QuotaKey.PRODUCER_BYTE_RATE: bound} for one, bound in quotas.items()})
        meter = QuotaMeter(table)
        ours.append([meter.produced(*event) for event in events])
    assert ours == oracle(cases)
    assert any(throttle > 0 for throttles in ours for throttle in throttles)


def test_token_buckets_are_those_of_kafka(oracle: Oracle) -> None:
    rng = random.Random(SEED)
    cases: list[dict[str, Any]] = []
    ours: list[list[float]] = []
    for _ in range(20):
        bound, now_ms, events = rng.uniform(0.1, 50.0), 1_000_000, []
        bucket, tokens = TokenBucket(bound, now_ms), []
        for _ in range(40):
            now_ms += rng.choice([0, 1, 250, 1_000, 30_000])
            events.append((float(rng.randrange(100)), now_ms))
            bucket.record(events[-1][0], bound, now_ms)
            tokens.append(bucket.tokens)
        cases.append(
            {"kind": "buckets", "bound": bound, "samples": SAMPLES, "window_ms": WINDOW_MS, "events": events}
        )
        ours.append(tokens)
    for own, kafkas in zip(ours, oracle(cases), strict=True):
        assert own == pytest.approx(kafkas)


def told(error: EntryError | None) -> dict[str, Any]:
    return {"code": 0 if error is None else int(error.code), "message": error and error.message}


ACL_CHECKS = [
    AclCreation(2, 3, "orders", "User:alice", "*", 3, 3),
    AclCreation(99, 3, "orders", "User:alice", "*", 3, 3),
    AclCreation(2, 99, "orders", "User:alice", "*", 3, 3),
    AclCreation(2, 4, "orders", "User:alice", "*", 99, 3),
    AclCreation(2, 4, "orders", "User:alice", "*", 3, 99),
    AclCreation(2, 4, "orders", "alice", "*", 3, 3),
    AclCreation(7, 3, "alice", "User:alice", "*", 14, 2),
]
CREDENTIAL_CHECKS = [
    ("alice", 1, 4096),
    ("alice", 2, 16_384),
    ("alice", 1, 4095),
    ("alice", 2, 16_385),
    ("alice", 0, 4096),
    ("alice", 3, 4096),
    ("", 1, 4096),
]
QUOTA_CHECKS: list[tuple[dict[str, str | None], str, float]] = [
    ({"user": "alice"}, "producer_byte_rate", 1_000.0),
    ({"user": None, "client-id": "app"}, "request_percentage", 0.5),
    ({"client-id": None}, "controller_mutation_rate", 0.5),
    ({"ip": "10.0.0.1"}, "connection_creation_rate", 10.0),
    ({"ip": None}, "connection_creation_rate", 10.0),
    ({"ip": "10.0.0.1"}, "connection_creation_rate", 10.5),
    ({"ip": "10.0.0.1"}, "connection_creation_rate", float(2**31)),
    ({"ip": "10.0.0.1"}, "producer_byte_rate", 10.0),
    ({"user": "alice"}, "connection_creation_rate", 10.0),
    ({"user": "alice"}, "no_such_rate", 10.0),
    ({"user": "alice"}, "producer_byte_rate", 0.0),
    ({"user": "alice"}, "producer_byte_rate", -1.0),
    ({"user": "alice"}, "producer_byte_rate", 1.5),
    ({"user": "alice"}, "producer_byte_rate", 1e19),
    ({"user": "alice"}, "consumer_byte_rate", 1.0000001),
    ({"user": ""}, "consumer_byte_rate", 1.0),
    ({"tenant": "a"}, "consumer_byte_rate", 1.0),
    ({}, "consumer_byte_rate", 1.0),
]


def test_invalid_requests_are_refused_with_kafkas_codes_and_messages(oracle: Oracle) -> None:
    (kafkas,) = oracle(
        [{"kind": "checks", "acls": ACL_CHECKS, "credentials": CREDENTIAL_CHECKS, "quotas": QUOTA_CHECKS}]
    )
    acls = [parse_acl(one) for one in ACL_CHECKS]
    assert [told(one if isinstance(one, EntryError) else None) for one in acls] == kafkas["acls"]
    state = SecurityState()
    salt, salted = bytes(16), {1: bytes(32), 2: bytes(64)}
    credentials = []
    for user, mechanism, iterations in CREDENTIAL_CHECKS:
        upsertion = CredentialUpsertion(user, mechanism, iterations, salt, salted.get(mechanism, b""))
        credentials.append(decide_alter_credentials(state, [], [upsertion]).results[user])
    assert [told(one) for one in credentials] == kafkas["credentials"]
    quotas = []
    for entity, key, value in QUOTA_CHECKS:
        alteration = QuotaAlteration(tuple(entity.items()), (QuotaOp(key, value),))
        quotas.append(*decide_alter_quotas(state, [alteration]).results)
    assert [told(one) for one in quotas] == kafkas["quotas"]
