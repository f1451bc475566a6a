"""Public keys of an identity provider, from a JSON Web Key Set (RFC 7517). Takes keys that verify signatures only.

Symmetric keys, keys for encryption, short keys and private parts are ignored: a set never grants more than the
verification of asymmetric signatures.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.errors import InvalidConfig

if TYPE_CHECKING:
    from jwt import PyJWK

KEY_SET_BYTES_MAX = 1 << 20
KEYS_MAX = 100
KEY_ID_CHARS_MAX = 256
RSA_BITS = range(2048, 8193)
_EXPONENT_MAX = 2**32

ALGORITHMS = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Type and curve of the key of each signature algorithm. Neither `none` nor an HMAC is among them."""

_PUBLIC = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
"""The public parts of a key; all others are dropped."""


class VerificationKey(NamedTuple):
    """One key. `verifiers` holds it in the form of the library, by algorithm."""

    key_id: str | None
    verifiers: dict[str, PyJWK]


class KeySet:
    """The usable keys of a set, and why others are not."""

    def __init__(self, keys: tuple[VerificationKey, ...], ignored: tuple[str, ...] = ()) -> None:
        self._keys = keys
        self.ignored = ignored

    def __len__(self) -> int:
        return len(self._keys)

    def candidates(self, key_id: str | None, algorithm: str) -> list[PyJWK]:
        """The keys that may have signed a token. Without a key id, the algorithm must leave no choice."""
        fitting = [one for one in self._keys if algorithm in one.verifiers]
        if key_id is not None:
            fitting = [one for one in fitting if one.key_id == key_id]
        elif len(fitting) > 1:
            return []
        return [one.verifiers[algorithm] for one in fitting]


def decode_key_set(content: bytes) -> KeySet:
    """Raises InvalidConfig if this is not a key set, or has no key that can be used."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidConfig("the key set is not JSON") from None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list) or len(keys) > KEYS_MAX:
        raise InvalidConfig(f"the key set has no list of keys, or more than {KEYS_MAX}")
    usable, ignored = [], []
    for index, key in enumerate(keys):
        try:
            usable.append(_decode_key(key))
        except ValueError as error:
            ignored.append(f"key {index}: {error}")
    if not usable:
        raise InvalidConfig(f"the key set has no usable key: {'; '.join(ignored[:3]) or 'it is empty'}")
    return KeySet(tuple(usable), tuple(ignored))


def _decode_key(key: Any) -> VerificationKey:
    """Raises ValueError with the reason, without any part of the key."""
    if not isinstance(key, dict):
        raise ValueError("not an object")
    kind, key_id = key.get("kty"), key.get("kid")
    if not isinstance(kind, str) or kind not in _PUBLIC:
        raise ValueError(f"type {str(kind)[:20]!r} cannot verify signatures")
    if key_id is not None and not (isinstance(key_id, str) and 0 < len(key_id) <= KEY_ID_CHARS_MAX):
        raise ValueError("invalid kid")
    if key.get("use", "sig") != "sig":
        raise ValueError("not for signatures (use)")
    operations = key.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        raise ValueError("not for verification (key_ops)")
    public = {name: key.get(name) for name in _PUBLIC[kind]}
    if not all(isinstance(value, str) for value in public.values()):
        raise ValueError("a part of the key is missing")
    algorithms = [
        name
        for name, (its_kind, curve) in ALGORITHMS.items()
        if its_kind == kind and curve in (None, public.get("crv")) and key.get("alg", name) == name
    ]
    if not algorithms:
        raise ValueError("no supported algorithm fits its type, curve and alg")
    return VerificationKey(key_id, {name: _verifier({"kty": kind, **public}, name) for name in algorithms})


def _verifier(public: dict[str, Any], algorithm: str) -> PyJWK:
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        verifier = PyJWK(public, algorithm)
        if public["kty"] == "RSA":
            bits, numbers = verifier.key.key_size, verifier.key.public_numbers()
            if bits not in RSA_BITS or numbers.e > _EXPONENT_MAX:
                raise ValueError(
                    f"RSA keys have {RSA_BITS.start} to {RSA_BITS.stop - 1} bits, this one {bits}"
                )
    except PyJWTError:
        raise ValueError("its parts are not a valid key") from None
    return verifier
