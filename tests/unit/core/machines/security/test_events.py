"""Events of the security state: their records, and what is refused instead of being ignored."""

from __future__ import annotations

import json

import pytest

from penstock.core.authentication.scram import ScramMechanism, credential_of_salted
from penstock.core.errors import TornSegment
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
    is_security_key,
)
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission
from penstock.core.security.quota import user_client_entity

ACL = Acl(
    AclResourceType.GROUP, PatternType.PREFIXED, 'a"/ü', "User:alice", "*", AclOperation.READ, Permission.DENY
)
RECORD = credential_of_salted(ScramMechanism.SHA_256, b"s" * 32, b"0123456789", 4096)
EVENTS: list[tuple[SecurityEvent, bytes]] = [
    (AclSaved(ACL), 'acl/[3,4,"a\\"/ü","User:alice","*",3,2]'.encode()),
    (AclRemoved(ACL), 'acl/[3,4,"a\\"/ü","User:alice","*",3,2]'.encode()),
    (CredentialSaved("CN=a/b", RECORD), b"scram/SCRAM-SHA-256/CN=a/b"),
    (CredentialRemoved("alice", ScramMechanism.SHA_512), b"scram/SCRAM-SHA-512/alice"),
    (
        QuotaSaved(user_client_entity("alice", None), {"request_percentage": 0.5}),
        b'quota/[["user","alice"],["client-id",null]]',
    ),
    (QuotaSaved(user_client_entity("alice", None), {}), b'quota/[["user","alice"],["client-id",null]]'),
]


@pytest.mark.parametrize(("event", "key"), EVENTS)
def test_an_event_has_its_key_and_survives_its_bytes(event: SecurityEvent, key: bytes) -> None:
    assert encode(event)[0] == event.key == key
    assert is_security_key(key)
    assert decode(*encode(event)) == event
    assert is_removal(event) == (encode(event)[1] is None)


def test_an_acl_and_its_removal_are_different_events() -> None:
    assert AclSaved(ACL) != AclRemoved(ACL)


def test_keys_of_others_are_left_to_them() -> None:
    assert not any(is_security_key(key) for key in (b"topic/00", b"broker/1", b"features", b"acl", b""))


VALUE = b'{"version": 1}'


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"acl/", VALUE),
        (b"acl/[]", VALUE),
        (b"acl/{", VALUE),
        (b'acl/[3, 4,"a","User:a","*",3,2]', VALUE),
        (b'acl/[true,4,"a","User:a","*",3,2]', VALUE),
        (b'acl/[3,4,"a","User:a","*",99,2]', VALUE),
        (b'acl/[3,1,"a","User:a","*",3,2]', VALUE),
        (b'acl/[3,4,"a","alice","*",3,2]', VALUE),
        (b'acl/[3,4,"\\ud800","User:a","*",3,2]', VALUE),
        (b'acl/[3,4,"a","User:a","*",3,2]', b"{}"),
        (b'acl/[3,4,"a","User:a","*",3,2]', b'{"version": 2}'),
        (b"scram/SCRAM-SHA-256", None),
        (b"scram/SCRAM-SHA-1/alice", None),
        (b"scram/SCRAM-SHA-256/", None),
        (b"scram/SCRAM-SHA-256/alice", VALUE),
        (b"quota/[]", None),
        (b"quota/[1]", None),
        (b'quota/[["user",1]]', None),
        (b'quota/[["client-id","a"],["user","a"]]', None),
        (b'quota/[["ip","0:0:0:0:0:0:0:1"]]', None),
        (b'quota/[["user","a"]]', VALUE),
        (b'quota/[["user","a"]]', b'{"version": 1, "values": {}}'),
        (b'quota/[["user","a"]]', b'{"version": 1, "values": {"producer_byte_rate": 0}}'),
        (b'quota/[["user","a"]]', b'{"version": 1, "values": {"producer_byte_rate": true}}'),
        (b'quota/[["user","a"]]', b'{"version": 1, "values": {"producer_byte_rate": 1%s}}' % (b"0" * 400)),
        (b'quota/[["user","a"]]', b'{"version": 1, "values": {"request_percentage": NaN}}'),
    ],
)
def test_a_record_that_is_not_understood_is_refused(key: bytes, value: bytes | None) -> None:
    with pytest.raises(TornSegment):
        decode(key, value)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("iterations", 1),
        ("iterations", "4096"),
        ("salt", ""),
        ("stored_key", "ab"),
        ("server_key", "AB" * 32),
    ],
)
def test_a_damaged_credential_is_refused_without_quoting_secrets(field: str, wrong: object) -> None:
    key, value = encode(CredentialSaved("alice", RECORD))
    assert value is not None
    with pytest.raises(TornSegment) as refused:
        decode(key, json.dumps({**json.loads(value), field: wrong}).encode())
    for secret in (RECORD.salt, RECORD.stored_key, RECORD.server_key):
        assert secret.hex() not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    assert repr(CredentialSaved("alice", RECORD)) == (
        "CredentialSaved(user='alice', credential=ScramCredential(SCRAM-SHA-256, iterations=4096, …))"
    )
