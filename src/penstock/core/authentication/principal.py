"""Principals of authenticated users: `User:` and a name that is safe to log, to store and to match in ACLs."""

from __future__ import annotations

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated

USER_TYPE = "User:"
NAME_CHARS_MAX = 1024
"""Names of certificates are longer than those of users."""


def user_principal(name: str) -> str:
    """The principal of a user name from a certificate, a token or a login. Raises NotAuthenticated.

    `ANONYMOUS` and `*` have a meaning in ACLs, which no proof of identity may claim.
    """
    if not name or len(name) > NAME_CHARS_MAX or not name.isprintable() or name != name.strip():
        raise NotAuthenticated(
            AuthFailureKind.CREDENTIALS,
            "authentication failed: the user name is empty, too long, or has characters that cannot be printed",
            f"invalid user name {name[:NAME_CHARS_MAX]!r}",
        )
    if name in ("ANONYMOUS", "*"):
        raise NotAuthenticated(
            AuthFailureKind.CREDENTIALS, f"authentication failed: the user name {name!r} is reserved"
        )
    return USER_TYPE + name
