"""Proving who we are: PLAIN and SCRAM as sequences of messages. Never touches a socket."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Generator

from penstock.client.access import Credentials
from penstock.client.errors import Refused

ITERATIONS_MAX = 1_000_000
"""A server that asks for more wants our processor, not our password."""

Exchange = Generator[bytes, bytes, None]
"""Yields what to send and is given what came back; ends when both sides are content."""


def exchange(credentials: Credentials) -> Exchange:
    """The messages of the mechanism that the credentials name."""
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    return _scram(credentials, "sha" + credentials.mechanism.removeprefix("SCRAM-SHA-"))


def _plain(credentials: Credentials) -> Exchange:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _scram(credentials: Credentials, digest: str, nonce: str | None = None) -> Exchange:
    nonce = nonce or secrets.token_urlsafe(24)
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode()
    said = _fields(first)
    iterations = said.get("i", "")
    if not said.get("r", "").startswith(nonce) or not iterations.isdecimal() or "s" not in said:
        raise Refused("the broker's SCRAM answer does not fit our question: is something between us and it?")
    if not 0 < int(iterations) <= ITERATIONS_MAX:
        raise Refused(f"the broker asks for {iterations} rounds of SCRAM, at most {ITERATIONS_MAX} are done")
    salted = hashlib.pbkdf2_hmac(
        digest, credentials.password.encode(), base64.b64decode(said["s"]), int(iterations)
    )
    client_key = hmac.digest(salted, b"Client Key", digest)
    unproven = f"c=biws,r={said['r']}"
    agreed = f"{bare},{first},{unproven}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), agreed, digest)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    last = _fields((yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), agreed, digest)
    if not hmac.compare_digest(base64.b64decode(last.get("v", "")), expected):
        raise Refused("the broker does not know our password itself: it is not the one it claims to be")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}
