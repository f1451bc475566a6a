"""Requests about SCRAM credentials: results per user, duplicates, limits, and secrets that are not shown."""

from __future__ import annotations

import pytest

from penstock.core.authentication.scram import ScramMechanism, credential_of_salted
from penstock.core.machines.security import credentials
from penstock.core.machines.security.credentials import (
    CredentialDeletion,
    CredentialDescription,
    CredentialUpsertion,
    decide_alter_credentials,
    describe_credentials,
)
from penstock.core.machines.security.events import CredentialRemoved, CredentialSaved
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.entry_error import EntryErrorCode

SALT, SALTED = b"0123456789abcdef", b"s" * 32
ALICE = CredentialUpsertion("alice", 1, 4096, SALT, SALTED)
RECORD = credential_of_salted(ScramMechanism.SHA_256, SALTED, SALT, 4096)


def state_of(*users: str) -> SecurityState:
    state = SecurityState()
    for user in users:
        state.apply(CredentialSaved(user, RECORD))
    return state


def test_an_upsertion_stores_keys_instead_of_the_password() -> None:
    view = ALICE._replace(salt=memoryview(SALT), salted_password=memoryview(SALTED))
    decision = decide_alter_credentials(SecurityState(), [], [view])
    assert decision == ([CredentialSaved("alice", RECORD)], {"alice": None})
    assert type(decision.events[0].credential.salt) is bytes


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"user": ""}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"user": "*"}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 0}, EntryErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"iterations": 4095}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b""}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b""}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 2}, EntryErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_an_invalid_upsertion_is_refused(change: dict[str, object], code: EntryErrorCode) -> None:
    wrong = ALICE._replace(**change)
    decision = decide_alter_credentials(SecurityState(), [], [wrong])
    error = decision.results[wrong.user]
    assert decision.events == [] and error is not None and error.code is code


def test_a_user_that_is_named_twice_is_not_altered() -> None:
    state = state_of("alice", "bob")
    deletions = [CredentialDeletion("alice", 1), CredentialDeletion("bob", 1)]
    decision = decide_alter_credentials(state, deletions, [ALICE, ALICE._replace(user="carol")])
    assert [type(event) for event in decision.events] == [CredentialRemoved, CredentialSaved]
    codes = {user: error and error.code for user, error in decision.results.items()}
    assert codes == {"alice": EntryErrorCode.DUPLICATE_RESOURCE, "bob": None, "carol": None}


def test_what_does_not_exist_cannot_be_deleted() -> None:
    deletions = [CredentialDeletion("alice", 2), CredentialDeletion("bob", 9), CredentialDeletion("", 1)]
    decision = decide_alter_credentials(state_of("alice"), deletions, [])
    assert decision.events == []
    assert [error and error.code for error in decision.results.values()] == [
        EntryErrorCode.RESOURCE_NOT_FOUND,
        EntryErrorCode.UNSUPPORTED_SASL_MECHANISM,
        EntryErrorCode.UNACCEPTABLE_CREDENTIAL,
    ]


def test_the_number_of_credentials_is_limited_and_replacing_one_needs_no_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(credentials, "CREDENTIALS_MAX", 2)
    wanted = [ALICE, *(ALICE._replace(user=user) for user in ("bob", "carol"))]
    decision = decide_alter_credentials(state_of("alice"), [], wanted)
    codes = [error and error.code for error in decision.results.values()]
    assert codes == [None, None, EntryErrorCode.POLICY_VIOLATION]


def test_a_description_tells_mechanisms_and_iterations_only() -> None:
    state = state_of("bob", "alice")
    stronger = credential_of_salted(ScramMechanism.SHA_512, b"t" * 64, SALT, 8192)
    state.apply(CredentialSaved("alice", stronger))
    both = ((ScramMechanism.SHA_256, 4096), (ScramMechanism.SHA_512, 8192))
    everybody = [CredentialDescription("alice", both), CredentialDescription("bob", both[:1])]
    assert describe_credentials(state, None) == describe_credentials(state, []) == everybody
    repeated, unknown = describe_credentials(state, ["bob", "carol", "bob"])
    assert repeated.error is not None and repeated.error.code is EntryErrorCode.DUPLICATE_RESOURCE
    assert unknown.error is not None and unknown.error.code is EntryErrorCode.RESOURCE_NOT_FOUND


def test_secrets_are_not_shown() -> None:
    shown = repr((ALICE, decide_alter_credentials(SecurityState(), [], [ALICE])))
    for secret in (SALT, SALTED, RECORD.stored_key, RECORD.server_key):
        assert repr(secret)[2:-1] not in shown and secret.hex() not in shown
    assert "alice" in shown
