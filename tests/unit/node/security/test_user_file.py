"""The file of users: what is written is read again; what is damaged is refused without showing it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.authentication.scram import ScramMechanism, derive_credential
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import write_private
from penstock.node.security.user_file import FileUser, encode_users, load_users
from security_samples import SALT

CREDENTIALS = tuple(derive_credential(one, Secret("secret"), SALT, 4096) for one in ScramMechanism)
USERS = (FileUser("admin", True, CREDENTIALS), FileUser("äpp", False, CREDENTIALS[:1]))


def test_users_survive_the_file(tmp_path: Path) -> None:
    write_private(tmp_path / "users.json", encode_users(USERS))
    assert load_users(tmp_path / "users.json") == USERS
    assert b"secret" not in (tmp_path / "users.json").read_bytes()


def test_the_file_must_be_private(tmp_path: Path) -> None:
    write_private(tmp_path / "users.json", encode_users(USERS))
    (tmp_path / "users.json").chmod(0o644)
    with pytest.raises(InvalidConfig, match="user file: other users can access"):
        load_users(tmp_path / "users.json")


def edited(change: Any) -> bytes:
    content = json.loads(encode_users(USERS))
    change(content)
    return json.dumps(content).encode()


def scram(content: Any) -> Any:
    return content["users"][0]["scram"]["SCRAM-SHA-256"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is not a user file of version 1"),
        (edited(lambda found: found.update(version=2)), "is not a user file of version 1"),
        (edited(lambda found: found["users"].append(found["users"][0])), "a user twice"),
        (edited(lambda found: found["users"].append(5)), "number 2: TypeError"),
        (edited(lambda found: found["users"][0].pop("name")), "number 0: KeyError"),
        (edited(lambda found: found["users"][0].update(name="a\nb")), "number 0: authentication failed"),
        (edited(lambda found: found["users"][0].update(super_user="yes")), "number 0: TypeError"),
        (edited(lambda found: found["users"][0]["scram"].update({"MD5": {}})), "number 0: ValueError"),
        (edited(lambda found: scram(found).update(iterations=1)), "1 iterations are not from 4096"),
        (edited(lambda found: scram(found).update(stored_key="AAAA")), "must have 32 bytes"),
        (edited(lambda found: scram(found).update(salt="!")), "number 0: "),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, content: bytes, words: str) -> None:
    write_private(tmp_path / "users.json", content)
    with pytest.raises(InvalidConfig, match=words):
        load_users(tmp_path / "users.json")
