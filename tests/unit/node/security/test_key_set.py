"""Key sets: which keys are taken, which are ignored, and which fit a token."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from penstock.core.errors import InvalidConfig
from penstock.node.security.key_set import KEYS_MAX, decode_key_set
from security_samples import SampleProvider

PROVIDER = SampleProvider()
RSA, EC, ED = PROVIDER.jwks("rsa", "ec", "ed")


def encoded(*keys: Any) -> bytes:
    return json.dumps({"keys": keys}).encode()


def test_keys_are_found_by_id_and_algorithm() -> None:
    keys = decode_key_set(PROVIDER.key_set())
    assert len(keys) == 3
    assert keys.ignored == ()
    for key_id, algorithm in (("rsa", "RS256"), ("rsa", "PS512"), ("ec", "ES256"), ("ed", "EdDSA")):
        (found,) = keys.candidates(key_id, algorithm)
        assert found.algorithm_name == algorithm


@pytest.mark.parametrize(
    ("key_id", "algorithm"),
    [("rsa", "ES256"), ("ec", "ES384"), ("ec", "RS256"), ("x", "RS256"), ("rsa", "HS256"), ("rsa", "none")],
)
def test_no_key_for_another_algorithm(key_id: str, algorithm: str) -> None:
    assert decode_key_set(PROVIDER.key_set()).candidates(key_id, algorithm) == []


def test_without_a_key_id_there_must_be_no_choice() -> None:
    assert len(decode_key_set(PROVIDER.key_set()).candidates(None, "RS256")) == 1
    both = decode_key_set(encoded(RSA, {**SampleProvider("b").jwks("rsa")[0]}))
    assert both.candidates(None, "RS256") == []


def test_the_alg_of_a_key_is_binding() -> None:
    keys = decode_key_set(encoded({**RSA, "alg": "PS256"}))
    assert keys.candidates("rsa", "RS256") == []
    assert len(keys.candidates("rsa", "PS256")) == 1


def rsa_key(bits: int) -> dict[str, Any]:
    return {**json.loads(RSAAlgorithm.to_jwk(rsa.generate_private_key(65537, bits).public_key())), "kid": "s"}


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ({"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}, "type 'oct' cannot verify"),
        ({"kty": "XYZ"}, "type 'XYZ'"),
        ({"kty": ["RSA"]}, "cannot verify"),
        ({}, "type 'None'"),
        ("RSA", "not an object"),
        ({**RSA, "use": "enc"}, r"\(use\)"),
        ({**RSA, "key_ops": ["sign"]}, r"\(key_ops\)"),
        ({**RSA, "key_ops": "verify"}, r"\(key_ops\)"),
        ({**RSA, "kid": 5}, "invalid kid"),
        ({**RSA, "kid": ""}, "invalid kid"),
        ({**RSA, "kid": "x" * 257}, "invalid kid"),
        ({**RSA, "n": 5}, "is missing"),
        ({**RSA, "n": "!!"}, "not a valid key|RSA keys have"),
        ({**RSA, "alg": "HS256"}, "no supported algorithm"),
        ({**RSA, "alg": "none"}, "no supported algorithm"),
        ({**EC, "crv": "P-384"}, "not a valid key"),
        ({**EC, "crv": "secp256k1"}, "no supported algorithm"),
        ({**EC, "x": EC["y"]}, "not a valid key"),
        ({**ED, "crv": "X25519"}, "no supported algorithm"),
        ({**ED, "x": "AAAA"}, "not a valid key"),
        (rsa_key(1024), "2048 to 8192 bits, this one 1024"),
    ],
)
def test_keys_that_are_ignored(key: Any, words: str) -> None:
    with pytest.raises(InvalidConfig, match=f"no usable key: key 0: .*{words}"):
        decode_key_set(encoded(key))
    keys = decode_key_set(encoded(key, ED))
    assert len(keys) == 1
    assert len(keys.ignored) == 1


def test_private_parts_are_dropped() -> None:
    private = json.loads(ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP256R1())))
    assert "d" in private
    (found,) = decode_key_set(encoded({**private, "kid": "p"})).candidates("p", "ES256")
    assert isinstance(found.key, ec.EllipticCurvePublicKey)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b"[" * 100_000,
        b"\xff",
        encoded(*[RSA] * (KEYS_MAX + 1)),
    ],
)
def test_other_contents_are_refused(content: bytes) -> None:
    with pytest.raises(InvalidConfig):
        decode_key_set(content)
