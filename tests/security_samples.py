"""Users, certificates and tokens for tests of security. Keys are new in every run; nothing is valid elsewhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from penstock.apps.security.security_directory import SecurityPlan, make_security_directory
from penstock.client.access import Credentials
from penstock.client.raw.sasl import exchange
from penstock.core.authentication.scram import (
    CredentialLookup,
    ScramCredential,
    ScramMechanism,
    derive_credential,
)
from penstock.core.authentication.secret import Secret
from penstock.node.security.tls_material import TlsPaths

SALT = b"0123456789abcdef01234567"
NONCE = "0123456789abcdefghijklmnop"
ISSUER = "https://id.example.com"
AUDIENCE = "penstock"


class SampleUsers:
    """Users with passwords."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._credentials = {
            (user, mechanism): derive_credential(mechanism, Secret(password), SALT, 4096)
            for user, password in passwords.items()
            for mechanism in ScramMechanism
        }

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return self._credentials.get((user, mechanism))


LOOKUP = CredentialLookup(SampleUsers({"alice": "wonderland", "a=b,c": "pass=word,"}), b"d" * 32)


def log_in(server: Any, mechanism: str, user: str, password: str) -> Any:
    """Run our own client against a server exchange; the last step of the server. Raises what either side raises."""
    client = exchange(Credentials(mechanism, user, password))
    step = server.receive(next(client))
    while True:
        try:
            token = client.send(step.token)
        except StopIteration:
            return step
        step = server.receive(token)


def make_tls_files(directory: Path, *hosts: str, now: datetime | None = None, days: int = 30) -> Path:
    """A directory with `ca`, `server`, `admin` and `client` certificates."""
    plan = SecurityPlan(directory, hosts, ("client",), days, force=True)
    return make_security_directory(plan, now or datetime.now(UTC)).directory


def server_paths(directory: Path) -> TlsPaths:
    return TlsPaths(directory / "server.crt", directory / "server.key", directory / "ca.crt")


def client_paths(directory: Path, name: str | None = "client") -> TlsPaths:
    if name is None:
        return TlsPaths(authorities=directory / "ca.crt")
    return TlsPaths(directory / f"{name}.crt", directory / f"{name}.key", directory / "ca.crt")


class SampleProvider:
    """An identity provider with one key per type."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self._keys: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
            "ed": ed25519.Ed25519PrivateKey.generate(),
        }

    def key(self, name: str) -> Any:
        return self._keys[name]

    def jwks(self, *names: str) -> list[dict[str, Any]]:
        """Public keys, all if none are named."""
        forms = {"rsa": RSAAlgorithm, "ec": ECAlgorithm, "ed": OKPAlgorithm}
        return [
            {
                **json.loads(forms[name].to_jwk(self._keys[name].public_key())),
                "kid": self.prefix + name,
                "use": "sig",
                "key_ops": ["verify"],
            }
            for name in names or self._keys
        ]

    def key_set(self, *names: str) -> bytes:
        return json.dumps({"keys": self.jwks(*names)}).encode()

    def token(
        self, claims: Mapping[str, Any], name: str = "rsa", algorithm: str = "RS256", **header: Any
    ) -> Secret:
        headers = {"kid": self.prefix + name, **header}
        headers = {key: value for key, value in headers.items() if value is not None}
        return Secret(jwt.encode(dict(claims), self._keys[name], algorithm, headers))


def claims_at(now_s: float, **changes: Any) -> dict[str, Any]:
    """Valid claims at a time; a change to None removes a claim."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": now_s + 60, "iat": now_s, **changes}
    return {key: value for key, value in claims.items() if value is not None}
