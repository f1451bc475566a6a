"""Events of the security state and their record format. state.py applies them.

Each event is the full state of its key, as all events of the metadata log are. An ACL is its own key: removing one
cannot touch another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from penstock.core.authentication.scram import ScramCredential, ScramMechanism
from penstock.core.errors import TornSegment
from penstock.core.machine import event_type
from penstock.core.machines.json_fields import JsonFields, json_value
from penstock.core.security.acl import Acl, AclOperation, AclResourceType, PatternType, Permission, check_acl
from penstock.core.security.entry_error import EntryError
from penstock.core.security.quota import QuotaEntity, check_quota, parse_entity
from penstock.core.security.scram_checks import check_iterations, check_salt, check_user

ACL_PREFIX = b"acl/"
CREDENTIAL_PREFIX = b"scram/"
QUOTA_PREFIX = b"quota/"


@event_type
class AclSaved(NamedTuple):
    """An ACL was created."""

    acl: Acl

    @property
    def key(self) -> bytes:
        return _acl_key(self.acl)


@event_type
class AclRemoved(NamedTuple):
    """This ACL was deleted."""

    acl: Acl

    @property
    def key(self) -> bytes:
        return _acl_key(self.acl)


@event_type
class CredentialSaved(NamedTuple):
    """A user's credential of one mechanism was created or replaced."""

    user: str
    credential: ScramCredential

    @property
    def key(self) -> bytes:
        return _credential_key(self.user, self.credential.mechanism)


@event_type
class CredentialRemoved(NamedTuple):
    """A user's credential of one mechanism was deleted."""

    user: str
    mechanism: ScramMechanism

    @property
    def key(self) -> bytes:
        return _credential_key(self.user, self.mechanism)


@event_type
class QuotaSaved(NamedTuple):
    """All quotas of an entity, by key; empty means that it has none."""

    entity: QuotaEntity
    values: Mapping[str, float]

    @property
    def key(self) -> bytes:
        return _quota_key(self.entity)


SecurityEvent = AclSaved | AclRemoved | CredentialSaved | CredentialRemoved | QuotaSaved


def _acl_key(acl: Acl) -> bytes:
    return ACL_PREFIX + _canonical(list(acl))


def _credential_key(user: str, mechanism: ScramMechanism) -> bytes:
    return CREDENTIAL_PREFIX + f"{mechanism.value}/{user}".encode()


def _quota_key(entity: QuotaEntity) -> bytes:
    return QUOTA_PREFIX + _canonical([[kind.value, name] for kind, name in entity.parts])


def _canonical(content: list[object]) -> bytes:
    """The one JSON form of a list: two keys must not stand for the same thing."""
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()


def is_removal(event: SecurityEvent) -> bool:
    """Whether the event deletes its key."""
    return encode(event)[1] is None


def is_security_key(key: bytes) -> bool:
    """Whether the record belongs to the security state."""
    return key.startswith((ACL_PREFIX, CREDENTIAL_PREFIX, QUOTA_PREFIX))


def encode(event: SecurityEvent) -> tuple[bytes, bytes | None]:
    """Key and value of the event's record; a null value deletes the key."""
    match event:
        case AclSaved():
            return event.key, json_value({})
        case CredentialSaved(_, credential):
            return event.key, json_value(
                {
                    "iterations": credential.iterations,
                    "salt": credential.salt.hex(),
                    "stored_key": credential.stored_key.hex(),
                    "server_key": credential.server_key.hex(),
                }
            )
        case QuotaSaved(_, values):
            return event.key, json_value({"values": dict(values)}) if values else None
        case AclRemoved() | CredentialRemoved():
            return event.key, None


def decode(key: bytes, value: bytes | None) -> SecurityEvent:
    """Decode an event. Raises TornSegment on any error: a rule that is not understood must not be ignored."""
    if key.startswith(ACL_PREFIX):
        acl = _decode_acl(key)
        if value is None:
            return AclRemoved(acl)
        JsonFields(key, value)
        return AclSaved(acl)
    if key.startswith(CREDENTIAL_PREFIX):
        return _decode_credential(key, value)
    return _decode_quota(key, value)


def _torn(key: bytes, reason: str) -> TornSegment:
    return TornSegment(f"catalog record {key!r} cannot be read: {reason}")


def _refuse(key: bytes, error: EntryError | None) -> None:
    if error is not None:
        raise _torn(key, error.message)


def _decode_list(key: bytes, prefix: bytes) -> list[object]:
    """The list in a key, in the one form that `encode` writes."""
    try:
        content = json.loads(key[len(prefix) :].decode())
        if isinstance(content, list) and _canonical(content) == key[len(prefix) :]:
            return content
    except (ValueError, RecursionError):
        pass
    raise _torn(key, "its key is not a canonical list")


def _decode_acl(key: bytes) -> Acl:
    match _decode_list(key, ACL_PREFIX):
        case [
            int(resource_type),
            int(pattern),
            str(name),
            str(principal),
            str(host),
            int(operation),
            int(permission),
        ]:
            try:
                acl = Acl(
                    AclResourceType(resource_type),
                    PatternType(pattern),
                    name,
                    principal,
                    host,
                    AclOperation(operation),
                    Permission(permission),
                )
            except ValueError as error:
                raise _torn(key, str(error)) from None
            if _acl_key(acl) == key:
                _refuse(key, check_acl(acl))
                return acl
    raise _torn(key, "its key is not an ACL")


def _decode_credential(key: bytes, value: bytes | None) -> CredentialSaved | CredentialRemoved:
    try:
        name, slash, user = key[len(CREDENTIAL_PREFIX) :].decode().partition("/")
        mechanism = ScramMechanism(name)
    except ValueError:
        slash = ""
    if not slash:
        raise _torn(key, "its key does not name a mechanism and a user")
    _refuse(key, check_user(user))
    if value is None:
        return CredentialRemoved(user, mechanism)
    fields = _Fields(key, value)
    credential = ScramCredential(
        mechanism,
        fields.whole("iterations", 1),
        fields.secret("salt"),
        fields.secret("stored_key", mechanism.key_bytes),
        fields.secret("server_key", mechanism.key_bytes),
    )
    _refuse(key, check_iterations(credential.iterations) or check_salt(credential.salt))
    return CredentialSaved(user, credential)


def _decode_quota(key: bytes, value: bytes | None) -> QuotaSaved:
    parts: list[tuple[str, str | None]] = []
    for part in _decode_list(key, QUOTA_PREFIX):
        match part:
            case [str(kind), str() | None as name]:
                parts.append((kind, name))
            case _:
                raise _torn(key, "its key is not a quota entity")
    entity = parse_entity(parts)
    if isinstance(entity, EntryError):
        raise _torn(key, entity.message)
    if _quota_key(entity) != key:
        raise _torn(key, "its key is not in canonical form")
    if value is None:
        return QuotaSaved(entity, {})
    values = _Fields(key, value).numbers("values")
    if not values:
        raise _torn(key, "it has no quotas")
    for name, number in values.items():
        _refuse(key, check_quota(entity, name, number))
    return QuotaSaved(entity, values)


class _Fields(JsonFields):
    """The fields of one value, with those that only the security state has."""

    def secret(self, name: str, size: int | None = None) -> bytes:
        """Bytes in hexadecimal, so many if `size` is given. The error does not quote the value."""
        value = self.content.get(name)
        try:
            found = bytes.fromhex(value) if isinstance(value, str) else b""
        except ValueError:
            found = b""
        if not found or size not in (None, len(found)) or found.hex() != value:
            raise self.torn(f"{name} is not {'' if size is None else f'{2 * size} '}hexadecimal digits")
        return found

    def numbers(self, name: str) -> dict[str, float]:
        """Numbers by name."""
        value = self.content.get(name)
        if not isinstance(value, dict):
            raise self.torn(f"{name} is {value!r}, not an object of numbers")
        for number in value.values():
            if not isinstance(number, int | float) or isinstance(number, bool):
                raise self.torn(f"{name} contains {number!r}, not a number")
        return {one: _float(self, number) for one, number in value.items()}


def _float(fields: _Fields, number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        raise fields.torn("a number is too large") from None
