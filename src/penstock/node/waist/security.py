"""Verbs for ACLs, quotas and credentials, of which this node has none. Checks permissions only."""

from __future__ import annotations

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import SecurityDisabled
from penstock.core.session import Session
from penstock.node.waist.authorization import Authorization


class SecurityVerbs:
    """Serves calls about ACLs, quotas and credentials."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def describe_acls(self, session: Session) -> None:
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        raise SecurityDisabled("No Authorizer is configured on the broker")

    def alter_acls(self, session: Session) -> None:
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        raise SecurityDisabled("No Authorizer is configured.")

    def describe_quotas(self, session: Session) -> None:
        """Returns normally: no entity has a quota."""
        self._authorization.authorize(session, Operation.DESCRIBE_CONFIGS, CLUSTER)

    def describe_credentials(self, session: Session) -> None:
        """Returns normally: no user has credentials."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
