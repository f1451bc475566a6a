"""Which user names become principals."""

from __future__ import annotations

import pytest

from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.principal import NAME_CHARS_MAX, user_principal


@pytest.mark.parametrize(
    "name", ["alice", "CN=alice,O=Example", "spiffe://example/ns/a", "名前", "a:b", "Broker:1"]
)
def test_names_become_users(name: str) -> None:
    assert user_principal(name) == f"User:{name}"


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        " alice",
        "alice\n",
        "a\x1b[31m",
        "a\0b",
        "x" * (NAME_CHARS_MAX + 1),
        "ANONYMOUS",
        "*",
        "a\u202eb",
    ],
)
def test_names_that_mislead_are_refused(name: str) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        user_principal(name)
    assert raised.value.reason.isprintable()
