"""The security state: the tables of ACLs and quotas, and the credentials of users. Decides nothing.

`apply` writes and never fails; the modules beside this one decide. Authorizers and meters hold the tables themselves:
`acls` and `quotas` are changed in place and never replaced, except in a draft.
"""

from __future__ import annotations

from copy import copy

from penstock.core.authentication.scram import ScramCredential, ScramMechanism
from penstock.core.machines.security.events import (
    AclRemoved,
    AclSaved,
    CredentialRemoved,
    CredentialSaved,
    QuotaSaved,
    SecurityEvent,
)
from penstock.core.security.acl_table import AclTable
from penstock.core.security.quota import QuotaTable, sort_key


class SecurityState:
    """All ACLs, credentials and quotas of a cluster."""

    def __init__(self) -> None:
        self.acls = AclTable()
        self.quotas = QuotaTable()
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self._users: dict[str, int] = {}
        """How many credentials each user has."""
        self._is_shared = False
        """In a draft: the tables are still those of the original."""

    # --- reading ---

    @property
    def users(self) -> list[str]:
        """Users with credentials, sorted."""
        return sorted(self._users)

    @property
    def credential_count(self) -> int:
        return len(self._credentials)

    def has_user(self, user: str) -> bool:
        return user in self._users

    def credential(self, user: str, mechanism: str) -> ScramCredential | None:
        """The credential of a user for a mechanism, by its SASL name."""
        return self._credentials.get((user, mechanism))

    # --- applying ---

    def draft(self) -> SecurityState:
        """A copy for tentative changes. The tables are copied with the first change, which most drafts do not make."""
        draft = copy(self)
        draft._is_shared = True
        return draft

    def removals(self) -> list[SecurityEvent]:
        """Events that would remove everything."""
        return [
            *(AclRemoved(acl) for acl in sorted(self.acls)),
            *(CredentialRemoved(user, ScramMechanism(name)) for user, name in sorted(self._credentials)),
            *(QuotaSaved(entity, {}) for entity in sorted(self.quotas, key=sort_key)),
        ]

    def apply(self, event: SecurityEvent) -> None:
        """Apply an event. Never fails: any event may follow any other, because the log may be compacted."""
        if self._is_shared:
            self._own()
        match event:
            case AclSaved(acl):
                self.acls.add(acl)
            case AclRemoved(acl):
                self.acls.remove(acl)
            case CredentialSaved(user, credential):
                self._remove_credential(user, credential.mechanism)
                self._credentials[user, credential.mechanism] = credential
                self._users[user] = self._users.get(user, 0) + 1
            case CredentialRemoved(user, mechanism):
                self._remove_credential(user, mechanism)
            case QuotaSaved(entity, values):
                self.quotas.put(entity, values)

    def _remove_credential(self, user: str, mechanism: ScramMechanism) -> None:
        if self._credentials.pop((user, mechanism), None) is not None:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]

    def _own(self) -> None:
        self.acls, self.quotas = self.acls.copy(), self.quotas.copy()
        self._credentials, self._users = dict(self._credentials), dict(self._users)
        self._is_shared = False
