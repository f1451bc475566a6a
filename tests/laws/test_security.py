"""Laws of the security state: replay, records, the table of ACLs against a naive model, cached decisions."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.access import Operation, Resource, ResourceType
from penstock.core.authentication.scram import ScramCredential, ScramMechanism
from penstock.core.errors import BrokerError
from penstock.core.machines.security.acls import (
    AclCreation,
    AclSelection,
    decide_create_acls,
    decide_delete_acls,
)
from penstock.core.machines.security.credentials import (
    CredentialDeletion,
    CredentialUpsertion,
    decide_alter_credentials,
)
from penstock.core.machines.security.events import (
    AclRemoved,
    AclSaved,
    CredentialRemoved,
    CredentialSaved,
    QuotaSaved,
    SecurityEvent,
    decode,
    encode,
    is_removal,
)
from penstock.core.machines.security.quotas import QuotaAlteration, QuotaOp, decide_alter_quotas
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.access_question import answer_question, parse_question
from penstock.core.security.acl import (
    EVERY_PRINCIPAL,
    WILDCARD,
    Acl,
    AclFilter,
    AclOperation,
    AclResourceType,
    PatternType,
    Permission,
    canonical_host,
)
from penstock.core.security.acl_authorizer import AclAuthorizer
from penstock.core.security.acl_table import AclTable
from penstock.core.security.decision import IMPLIED_BY, AccessRequest, decide_access, decide_any_access
from penstock.core.security.quota import (
    QuotaEntity,
    QuotaKey,
    client_entity,
    ip_entity,
    user_client_entity,
    user_entity,
)
from penstock.core.session import Session

NAMES = st.sampled_from(["a", "ab", "abc", "b", "*", "a*", "ü"])
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*"])
HOSTS = st.sampled_from(["*", "10.0.0.1", "::ffff:10.0.0.1", "0:0:0:0:0:0:0:1"])
ADDRESSES = st.sampled_from(["10.0.0.1", "10.0.0.2", "::1", "?"])
TYPES = st.sampled_from([AclResourceType.TOPIC, AclResourceType.GROUP])
OPERATIONS = st.sampled_from([one for one in AclOperation if one != AclOperation.ANY])
ACLS = st.builds(
    Acl,
    TYPES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    NAMES,
    PRINCIPALS,
    HOSTS,
    OPERATIONS,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
FILTERS = st.builds(
    AclFilter,
    st.sampled_from(AclResourceType),
    st.sampled_from(PatternType),
    st.none() | NAMES,
    st.none() | PRINCIPALS,
    st.none() | HOSTS,
    st.sampled_from(AclOperation),
    st.sampled_from(Permission),
)
RESOURCES = st.builds(Resource, st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]), NAMES)
REQUESTS = st.builds(AccessRequest, PRINCIPALS, ADDRESSES, st.sampled_from(Operation), RESOURCES)
USERS = st.sampled_from(["alice", "bob", "CN=a/b", ""])
ENTITIES = st.sampled_from(
    [
        user_entity("alice"),
        user_entity(None),
        client_entity("app"),
        user_client_entity("alice", None),
        ip_entity("10.0.0.1"),
    ]
)
KEYS = st.sampled_from([*QuotaKey, "no_such_rate"])

Decide = Callable[[SecurityState], list[SecurityEvent]]


def creations(acls: list[Acl]) -> Decide:
    return lambda state: decide_create_acls(state, [AclCreation(*acl) for acl in acls]).events


def deletions(wanted: AclFilter) -> Decide:
    return lambda state: decide_delete_acls(state, [AclSelection(*wanted)]).events


def credentials(user: str, mechanism: int, iterations: int, *, is_deletion: bool) -> Decide:
    if is_deletion:
        return lambda state: decide_alter_credentials(state, [CredentialDeletion(user, mechanism)], []).events
    size = 32 if mechanism == 1 else 64
    change = CredentialUpsertion(user, mechanism, iterations, b"0123456789", bytes([iterations % 256]) * size)
    return lambda state: decide_alter_credentials(state, [], [change]).events


def quotas(entity: QuotaEntity, ops: list[tuple[str, float | None]]) -> Decide:
    alteration = QuotaAlteration(entity.parts, tuple(QuotaOp(*op) for op in ops))
    return lambda state: decide_alter_quotas(state, [alteration]).events


COMMANDS: st.SearchStrategy[Decide] = st.one_of(
    st.builds(creations, st.lists(ACLS, max_size=4)),
    st.builds(deletions, FILTERS),
    st.builds(credentials, USERS, st.integers(0, 3), st.integers(4095, 4100), is_deletion=st.booleans()),
    st.builds(
        quotas,
        ENTITIES,
        st.lists(st.tuples(KEYS, st.none() | st.sampled_from([0.0, 1.0, 2.5, 1e6])), max_size=3),
    ),
)


def visible(state: SecurityState) -> object:
    """Everything that can be seen of a state."""
    return (
        set(state.acls),
        len(state.acls),
        {(user, one): state.credential(user, one) for user in state.users for one in ScramMechanism},
        state.credential_count,
        {entity: dict(state.quotas.of(entity)) for entity in state.quotas},
        {key: state.quotas.applied(key, "alice", "app") for key in QuotaKey},
    )


def live(commands: list[Decide]) -> tuple[SecurityState, list[SecurityEvent]]:
    """Run commands as a host does, checking that deciding alone changes nothing."""
    state, happened = SecurityState(), []
    for decide in commands:
        before = visible(state)
        events = decide(state)
        assert visible(state) == before, "decide wrote"
        for event in events:
            state.apply(event)
        happened += events
    return state, happened


def replay(events: list[SecurityEvent]) -> SecurityState:
    state = SecurityState()
    for event in events:
        state.apply(decode(*encode(event)))
    return state


def compacted(events: list[SecurityEvent]) -> list[SecurityEvent]:
    last = {event.key: place for place, event in enumerate(events)}
    return [events[place] for place in sorted(last.values())]


@given(st.lists(COMMANDS, max_size=20), st.integers(0, 40))
def test_replaying_a_log_compacted_anywhere_gives_the_live_state(
    commands: list[Decide], cleaned: int
) -> None:
    state, events = live(commands)
    assert visible(replay(events)) == visible(state)
    assert visible(replay(compacted(events[:cleaned]) + events[cleaned:])) == visible(state)


@given(st.lists(COMMANDS, max_size=20), st.integers(0, 20))
def test_a_snapshot_and_removals_bring_a_state_that_missed_events_to_the_live_state(
    commands: list[Decide], seen: int
) -> None:
    state, events = live(commands)
    snapshot = [event for event in compacted(events) if not is_removal(event)]
    named = {event.key for event in snapshot}
    late = replay(events[:seen])
    for event in [*(one for one in late.removals() if one.key not in named), *snapshot]:
        late.apply(event)
    assert visible(late) == visible(state)


@given(st.lists(COMMANDS, max_size=10), st.lists(COMMANDS, max_size=5))
def test_a_draft_does_not_touch_its_original(commands: list[Decide], tried: list[Decide]) -> None:
    state, _ = live(commands)
    before, draft = visible(state), state.draft()
    for decide in tried:
        for event in decide(draft):
            draft.apply(event)
    assert visible(state) == before


TEXTS = st.text("abü€\"'\\/*:,=[]{}\U0001f600", min_size=1, max_size=12)
RECORDS = st.sampled_from(ScramMechanism).flatmap(
    lambda kind: st.builds(
        ScramCredential,
        st.just(kind),
        st.integers(4096, 16_384),
        st.binary(min_size=8, max_size=40),
        st.binary(min_size=kind.key_bytes, max_size=kind.key_bytes),
        st.binary(min_size=kind.key_bytes, max_size=kind.key_bytes),
    )
)
WIDE_ACLS = st.builds(
    Acl,
    st.sampled_from([AclResourceType.TOPIC, AclResourceType.USER]),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    TEXTS,
    TEXTS.map(lambda name: f"User:{name}"),
    HOSTS,
    OPERATIONS,
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
EVENTS: st.SearchStrategy[SecurityEvent] = st.one_of(
    st.builds(AclSaved, WIDE_ACLS),
    st.builds(AclRemoved, WIDE_ACLS),
    st.builds(CredentialSaved, TEXTS.filter(lambda name: name != "*"), RECORDS),
    st.builds(CredentialRemoved, TEXTS.filter(lambda name: name != "*"), st.sampled_from(ScramMechanism)),
    st.builds(
        QuotaSaved,
        st.builds(user_client_entity, st.none() | TEXTS, st.none() | TEXTS),
        st.dictionaries(
            st.just("request_percentage"), st.floats(0, allow_infinity=False, exclude_min=True), max_size=1
        ),
    ),
)


@given(EVENTS)
def test_events_survive_their_bytes(event: SecurityEvent) -> None:
    assert decode(*encode(event)) == event
    assert encode(event)[0] == event.key


@given(st.lists(EVENTS, max_size=30))
def test_apply_never_refuses(events: list[SecurityEvent]) -> None:
    assert visible(replay(events)) == visible(replay(compacted(events)))


PREFIXES = st.sampled_from([b"acl/", b"scram/", b"quota/", b"scram/SCRAM-SHA-256/", b'quota/[["user",'])


@given(PREFIXES, st.binary(max_size=60), st.none() | st.binary(max_size=200))
def test_bytes_of_any_kind_are_an_event_or_refused(prefix: bytes, rest: bytes, value: bytes | None) -> None:
    try:
        event = decode(prefix + rest, value)
    except BrokerError as error:
        assert error.code == "TornSegment"
    else:
        assert event.key == prefix + rest and decode(*encode(event)) == event


def naive(acls: set[Acl], request: AccessRequest) -> bool:
    """The rules as the documentation states them, over all ACLs."""
    principal, host, operation, (resource_type, name) = request
    matching = [
        acl
        for acl in acls
        if acl.resource_type == resource_type
        and (
            name.startswith(acl.name) if acl.pattern == PatternType.PREFIXED else acl.name in (name, WILDCARD)
        )
        and acl.principal in (principal, EVERY_PRINCIPAL)
        and canonical_host(acl.host) in (canonical_host(host), WILDCARD)
    ]
    if any(
        acl.permission == Permission.DENY and acl.operation in (operation, AclOperation.ALL)
        for acl in matching
    ):
        return False
    granting = {operation, AclOperation.ALL} | IMPLIED_BY.get(operation, frozenset())
    return any(acl.permission == Permission.ALLOW and acl.operation in granting for acl in matching)


CHANGES = st.lists(st.tuples(st.booleans(), ACLS), max_size=30)


@given(CHANGES, st.lists(REQUESTS, max_size=10), st.lists(FILTERS, max_size=3))
def test_the_table_decides_and_selects_as_a_scan_of_all_acls(
    changes: list[tuple[bool, Acl]], requests: list[AccessRequest], filters: list[AclFilter]
) -> None:
    table, model = AclTable(), set[Acl]()
    for is_added, acl in changes:
        (table.add if is_added else table.remove)(acl)
        (model.add if is_added else model.discard)(acl)
    assert set(table) == model and len(table) == len(model)
    for request in requests:
        assert decide_access(table, (), request).is_allowed == naive(model, request)
    for wanted in filters:
        found = list(table.matching(wanted))
        assert set(found) == {acl for acl in model if wanted.matches(acl)}
        assert len(found) == len(set(found))


@given(st.lists(ACLS, min_size=1, max_size=20), st.lists(REQUESTS, min_size=1, max_size=10), st.data())
def test_removing_an_acl_moves_decisions_in_its_own_direction_only(
    acls: list[Acl], requests: list[AccessRequest], data: st.DataObject
) -> None:
    table, gone = AclTable(acls), data.draw(st.sampled_from(acls))
    before = [decide_access(table, (), request) for request in requests]
    table.remove(gone)
    for request, old in zip(requests, before, strict=True):
        new = decide_access(table, (), request)
        if old.is_allowed != new.is_allowed:
            assert gone == old.acl
            assert old.is_allowed == (gone.permission == Permission.ALLOW)


@given(CHANGES, st.lists(REQUESTS, min_size=1, max_size=5), st.integers(2, 6))
def test_cached_decisions_are_those_of_the_table(
    changes: list[tuple[bool, Acl]], requests: list[AccessRequest], decisions_max: int
) -> None:
    table = AclTable()
    authorizer = AclAuthorizer(table, {"User:bob"}, decisions_max=decisions_max)
    for is_added, acl in changes:
        (table.add if is_added else table.remove)(acl)
        for request in requests:
            session = Session("kafka", request.principal, request.host)
            expected = decide_access(table, {"User:bob"}, request)
            assert authorizer.decide(session, request.operation, request.resource) == expected
            assert authorizer.allows(session, request.operation, request.resource) == expected.is_allowed
            kind = request.resource.type
            assert authorizer.decide_any(session, request.operation, kind) == decide_any_access(
                table, {"User:bob"}, request.principal, request.host, request.operation, kind
            )


@given(st.lists(ACLS, max_size=20), REQUESTS)
def test_who_may_do_something_to_a_resource_may_do_it_to_any(acls: list[Acl], request: AccessRequest) -> None:
    table = AclTable(acls)
    principal, host, operation, (kind, _) = request
    if decide_access(table, (), request).is_allowed:
        assert decide_any_access(table, (), principal, host, operation, kind).is_allowed


@given(st.text(max_size=60))
def test_any_text_is_a_question_or_refused(text: str) -> None:
    for asked in (text, f"may alice read {text}"):
        try:
            question = parse_question(asked)
        except BrokerError as error:
            assert error.code == "InvalidRequest"
        else:
            answer = answer_question(AclTable(), (), question)
            assert not answer.decision.is_allowed
            assert all(line.isprintable() for line in answer.lines)
