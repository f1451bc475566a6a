"""SASL PLAIN, SCRAM and OAUTHBEARER (RFC 7628) as sequences of messages. No I/O, except to get a token."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Generator

from penstock.client.access import OAUTHBEARER, Credentials
from penstock.client.errors import AuthenticationFailed, BadArgument, Refused
from penstock.client.tokens import TokenSource

ITERATIONS_MAX = 1_000_000
"""Protects against a server that requests an excessive number of PBKDF2 rounds."""

Exchange = Generator[bytes, bytes, None]
"""Yields messages to send and receives the server's replies; ends when authentication is complete.

An AuthenticationFailed that the caller throws into it comes back with what the mechanism knows about the reason.
"""


def exchange(credentials: Credentials) -> Exchange:
    """The message exchange of the configured mechanism. Raises Refused."""
    if credentials.mechanism == OAUTHBEARER:
        assert credentials.token is not None, "checked with the options"
        return _oauthbearer(credentials.token)
    if credentials.mechanism == "PLAIN":
        return _plain(credentials)
    return _scram(credentials, "sha" + credentials.mechanism.removeprefix("SCRAM-SHA-"))


def _plain(credentials: Credentials) -> Exchange:
    yield f"\0{credentials.username}\0{credentials.password}".encode()


def _oauthbearer(source: TokenSource) -> Exchange:
    token = source.fetch().value
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadArgument(
            "the token has characters that a bearer token cannot have: check token or token_file"
        )
    problem = yield f"n,,\x01auth=Bearer {token}\x01\x01".encode()
    if not problem:
        return
    try:
        yield b"\x01"  # the server fails the exchange only after this acknowledgement of its challenge
    except AuthenticationFailed as error:
        raise AuthenticationFailed(f"{error.message} ({_status_in(problem)})", code=error.code) from None
    raise AuthenticationFailed(f"the broker rejected the token: {_status_in(problem)}")


def _status_in(problem: bytes) -> str:
    """`invalid_token` from `{"status":"invalid_token"}`."""
    try:
        return str(json.loads(problem)["status"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _scram(credentials: Credentials, digest: str, nonce: str | None = None) -> Exchange:
    nonce = nonce or secrets.token_urlsafe(24)
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    bare = f"n={name},r={nonce}"
    first = (yield f"n,,{bare}".encode()).decode()
    fields = _fields(first)
    iterations = fields.get("i", "")
    if not fields.get("r", "").startswith(nonce) or not iterations.isdecimal() or "s" not in fields:
        raise Refused("invalid SCRAM response from the broker: check for a proxy in between")
    if not 0 < int(iterations) <= ITERATIONS_MAX:
        raise Refused(f"the broker requests {iterations} SCRAM iterations; the limit is {ITERATIONS_MAX}")
    salted = hashlib.pbkdf2_hmac(
        digest, credentials.password.encode(), base64.b64decode(fields["s"]), int(iterations)
    )
    client_key = hmac.digest(salted, b"Client Key", digest)
    without_proof = f"c=biws,r={fields['r']}"
    auth_message = f"{bare},{first},{without_proof}".encode()
    signature = hmac.digest(hashlib.new(digest, client_key).digest(), auth_message, digest)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    last = _fields((yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode())
    expected = hmac.digest(hmac.digest(salted, b"Server Key", digest), auth_message, digest)
    if not hmac.compare_digest(base64.b64decode(last.get("v", "")), expected):
        raise Refused("invalid SCRAM server signature: the broker failed to prove that it knows the password")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}
