"""Decisions about SCRAM credentials: upsert, delete, describe. Messages are Kafka's where Kafka has one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.authentication.scram import ScramMechanism, credential_of_salted
from penstock.core.machines.security.events import CredentialRemoved, CredentialSaved
from penstock.core.machines.security.security_decision import SecurityDecision
from penstock.core.machines.security.state import SecurityState
from penstock.core.security.entry_error import EntryError, EntryErrorCode
from penstock.core.security.scram_checks import (
    SCRAM_MECHANISMS,
    check_iterations,
    check_salt,
    check_salted_password,
    check_user,
)
from penstock.core.security.security_limits import CREDENTIALS_MAX


class CredentialDeletion(NamedTuple):
    """A credential to delete. `mechanism` is the number that the client sent, valid or not."""

    user: str
    mechanism: int


class CredentialUpsertion(NamedTuple):
    """A credential to create or replace. `mechanism` is the number that the client sent, valid or not."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __repr__(self) -> str:
        """The salted password is as good as the password."""
        return f"CredentialUpsertion({self.user!r}, {self.mechanism}, iterations={self.iterations}, …)"


class CredentialDescription(NamedTuple):
    """What may be told about a user's credentials: mechanisms and iterations, or why there is nothing to tell."""

    user: str
    credentials: tuple[tuple[ScramMechanism, int], ...] = ()
    error: EntryError | None = None


def decide_alter_credentials(
    state: SecurityState, deletions: Sequence[CredentialDeletion], upsertions: Sequence[CredentialUpsertion]
) -> SecurityDecision[dict[str, EntryError | None]]:
    """Delete and upsert credentials. There is one result for each user, None for success.

    As in Kafka a request may name each user once, because its response has one result per user.
    """
    changes: list[CredentialDeletion | CredentialUpsertion] = [*deletions, *upsertions]
    named = Counter(one.user for one in changes)
    events: list[CredentialSaved | CredentialRemoved] = []
    results: dict[str, EntryError | None] = {}
    room = CREDENTIALS_MAX - state.credential_count
    for change in changes:
        user = change.user
        if user in results:
            continue
        event = _repeated(named[user]) or _decide_one(state, change)
        if isinstance(event, CredentialSaved) and state.credential(user, event.credential.mechanism) is None:
            room -= 1
            if room < 0:
                event = EntryError(
                    EntryErrorCode.POLICY_VIOLATION,
                    f"The limit of {CREDENTIALS_MAX} credentials is reached; delete users that are not needed",
                )
        if isinstance(event, EntryError):
            results[user] = event
        else:
            results[user] = None
            events.append(event)
    return SecurityDecision(list(events), results)


def _decide_one(
    state: SecurityState, change: CredentialDeletion | CredentialUpsertion
) -> CredentialSaved | CredentialRemoved | EntryError:
    mechanism = SCRAM_MECHANISMS.get(change.mechanism)
    if isinstance(change, CredentialDeletion):
        return _decide_delete(state, change.user, mechanism)
    return _decide_upsert(change, mechanism)


def _decide_delete(
    state: SecurityState, user: str, mechanism: ScramMechanism | None
) -> CredentialRemoved | EntryError:
    if not user:
        return EntryError(EntryErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism is None:
        return _unknown_mechanism()
    if state.credential(user, mechanism) is None:
        return EntryError(
            EntryErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
        )
    return CredentialRemoved(user, mechanism)


def _decide_upsert(
    change: CredentialUpsertion, mechanism: ScramMechanism | None
) -> CredentialSaved | EntryError:
    error = check_user(change.user)
    if error is not None:
        return error
    if mechanism is None:
        return _unknown_mechanism()
    error = (
        check_iterations(change.iterations)
        or check_salt(change.salt)
        or check_salted_password(mechanism, change.salted_password)
    )
    if error is not None:
        return error
    # The request may be a view of the connection's buffer.
    salt, salted_password = bytes(change.salt), bytes(change.salted_password)
    credential = credential_of_salted(mechanism, salted_password, salt, change.iterations)
    return CredentialSaved(change.user, credential)


def _repeated(count: int) -> EntryError | None:
    if count == 1:
        return None
    return EntryError(
        EntryErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    )


def _unknown_mechanism() -> EntryError:
    return EntryError(EntryErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def describe_credentials(state: SecurityState, users: Sequence[str] | None) -> list[CredentialDescription]:
    """Mechanisms and iterations of the named users, or of all if none is named."""
    if not users:
        return [_describe(state, user) for user in state.users]
    return [_describe(state, user, count) for user, count in Counter(users).items()]


def _describe(state: SecurityState, user: str, count: int = 1) -> CredentialDescription:
    if count > 1:
        message = "Cannot describe SCRAM credentials for the same user twice in a single request: "
        return CredentialDescription(
            user, error=EntryError(EntryErrorCode.DUPLICATE_RESOURCE, message + user)
        )
    found = [(one, state.credential(user, one)) for one in ScramMechanism]
    told = tuple((one, record.iterations) for one, record in found if record is not None)
    if told:
        return CredentialDescription(user, told)
    message = "Attempt to describe a user credential that does not exist: "
    return CredentialDescription(user, error=EntryError(EntryErrorCode.RESOURCE_NOT_FOUND, message + user))
