"""The security state: credentials by user, drafts, and events that remove everything."""

from __future__ import annotations

from penstock.core.authentication.scram import ScramMechanism, credential_of_salted
from penstock.core.machines.security.events import (
    AclSaved,
    CredentialRemoved,
    CredentialSaved,
    QuotaSaved,
)
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.quota import user_entity

ACL = Acl(
    AclResourceType.TOPIC, PatternType.LITERAL, "a", "User:alice", "*", AclOperation.READ, Permission.ALLOW
)
WEAK = credential_of_salted(ScramMechanism.SHA_256, b"s" * 32, b"0123456789", 4096)
STRONG = credential_of_salted(ScramMechanism.SHA_512, b"s" * 64, b"0123456789", 4096)


def filled() -> SecurityState:
    state = SecurityState()
    for event in (
        AclSaved(ACL),
        CredentialSaved("alice", WEAK),
        CredentialSaved("alice", STRONG),
        QuotaSaved(user_entity("alice"), {"producer_byte_rate": 5.0}),
    ):
        state.apply(event)
    return state


def test_a_user_exists_while_it_has_a_credential() -> None:
    state = filled()
    state.apply(CredentialSaved("alice", WEAK))
    assert state.users == ["alice"] and state.credential_count == 2
    state.apply(CredentialRemoved("alice", ScramMechanism.SHA_256))
    state.apply(CredentialRemoved("alice", ScramMechanism.SHA_256))
    assert state.has_user("alice") and state.credential("alice", "SCRAM-SHA-256") is None
    assert state.credential("alice", "SCRAM-SHA-512") == STRONG
    state.apply(CredentialRemoved("alice", ScramMechanism.SHA_512))
    assert not state.has_user("alice") and state.users == []


def test_a_draft_shares_the_tables_until_it_changes() -> None:
    state = filled()
    draft = state.draft()
    assert draft.acls is state.acls
    for event in draft.removals():
        draft.apply(event)
    assert (len(draft.acls), draft.users, len(draft.quotas)) == (0, [], 0)
    assert (len(state.acls), state.users, len(state.quotas)) == (1, ["alice"], 1)
    assert state.credential_count == 2


def test_the_tables_of_a_state_stay_the_same_objects() -> None:
    state = filled()
    acls, quotas = state.acls, state.quotas
    for event in state.removals():
        state.apply(event)
    assert state.acls is acls and state.quotas is quotas
    assert state.removals() == []
