"""One blocking Kafka connection: requests out, responses in the same order. Retries and routing: cluster.py.

    with BrokerConnection(Address("127.0.0.1", 9092), access) as connection:
        connection.call(ApiKey.METADATA, messages.MetadataRequest(topics=[]))

Not thread-safe.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from struct import Struct
from typing import Any, Self

from penstock.client.access import Access, Credentials
from penstock.client.errors import AuthenticationFailed, ClientError, Refused, TlsFailed, Unreachable
from penstock.client.raw.sasl import exchange
from penstock.client.tls import speaks_tls, start_tls, tls_failure
from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.wire.kafka import (
    API,
    ApiKey,
    KafkaRequest,
    ResponseT,
    decode_response,
    encode_request,
    error_name,
    messages,
)

RESPONSE_BYTES_MAX = 256 << 20
"""A larger size prefix means that the peer does not speak Kafka's protocol."""

PROBE_MS_MAX = 2_000
TIMED_OUT = "TIMED_OUT"
"""Code of an Unreachable whose peer is connected and does not answer."""

SESSION_PART = 0.85
"""Share of a session's lifetime after which a connection is replaced, before the broker closes it."""

_SIZE = Struct(">i")


class BrokerConnection:
    """An authenticated socket (TLS and SASL per `access`) and the API versions of its broker."""

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self._access = access
        self.is_closed = False
        self._calls = 0
        self._pending: deque[tuple[int, int, int]] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._expires_s: float | None = None
        access.security.check_secrecy(address.host)
        self._socket = self._open()
        try:
            self._versions = self._first_versions()
            self._authenticate()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.is_closed = True
        self._socket.close()

    # -- calls

    def call(
        self, api_key: int, body: KafkaRequest[ResponseT], *, version: int | None = None, wait_ms: int = 0
    ) -> ResponseT:
        """Send a request and return its response. `wait_ms` is how long the broker may delay it on request."""
        self.send(api_key, body, version=version)
        response: ResponseT = self.receive(wait_ms=wait_ms)
        return response

    def send(self, api_key: int, body: KafkaRequest[Any], *, version: int | None = None) -> None:
        """Send without waiting; `receive` returns the responses in the same order."""
        chosen = self.version_of(api_key) if version is None else version
        self._calls += 1
        frame = encode_request(api_key, chosen, self._calls, self._access.client_id, body)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error) from error
        self._pending.append((api_key, chosen, self._calls))

    def receive(self, *, wait_ms: int = 0) -> Any:
        """The response to the oldest pending request. Raises Unreachable."""
        api_key, version, expected_id = self._pending.popleft()
        try:
            self._socket.settimeout((self._access.request_ms_max + wait_ms) / 1000)
            (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
            if not 0 <= size <= RESPONSE_BYTES_MAX:
                raise ConnectionAbortedError(f"invalid response size {size}: the peer is not a Kafka broker")
            correlation_id, response = decode_response(api_key, version, self._exactly(size))
            if correlation_id != expected_id:
                raise ConnectionAbortedError(
                    f"response has correlation id {correlation_id}, expected {expected_id}"
                )
        except OSError as error:
            raise self._broken(error) from error
        except BrokerError as error:
            raise self._broken(
                ConnectionAbortedError(f"the peer does not speak Kafka's protocol: {error}")
            ) from error
        return response

    def fileno(self) -> int:
        """For `select`: readable once a response has started to arrive."""
        return self._socket.fileno()

    @property
    def is_expired(self) -> bool:
        """Whether the authenticated session ends soon, so that another connection should be opened."""
        return self._expires_s is not None and time.monotonic() >= self._expires_s

    @property
    def in_flight(self) -> int:
        """Number of requests without a response."""
        return len(self._pending)

    def version_of(self, api_key: int, at_most: int | None = None) -> int:
        """The newest API version that both sides support. Raises Refused if there is none."""
        api = API[api_key]
        low, high = self._versions.get(api_key, (0, -1))
        best = min(high, api.version_max, api.version_max if at_most is None else at_most)
        if best < max(low, api.version_min):
            raise Refused(
                f"{self.address} supports {api.name} versions {low} to {high}; "
                f"this client needs {api.version_min} to {api.version_max}. Upgrade the broker."
            )
        return best

    # -- opening

    def _open(self) -> socket.socket:
        encryption = self._access.encryption
        try:
            opened = socket.create_connection(self.address, timeout=self._access.connect_ms_max / 1000)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise Unreachable(
                f"no broker answers at {self.address}: {_reason(error)}. "
                "Check the address and that the broker is running (`penstock start`)."
            ) from error
        if encryption is None:
            return opened
        try:
            return start_tls(opened, self.address, encryption)
        except TlsFailed as error:
            if error.code == "HANDSHAKE" and self._speaks_plaintext():
                raise self._no_tls_here() from error
            raise
        except OSError as error:
            if not isinstance(error, TimeoutError) and self._speaks_plaintext():
                raise self._no_tls_here() from error
            raise Unreachable(
                f"connection to {self.address} lost during the TLS handshake: {_reason(error)}. "
                "Check that the broker is running and that this port expects TLS."
            ) from error

    def _speaks_plaintext(self) -> bool:
        """Whether the port answers Kafka requests without TLS."""
        plain = Access((self.address,), connect_ms_max=PROBE_MS_MAX, request_ms_max=PROBE_MS_MAX)
        try:
            BrokerConnection(self.address, plain).close()
        except ClientError:
            return False
        return True

    def _no_tls_here(self) -> TlsFailed:
        return TlsFailed(
            f"{self.address} is a port without TLS. Turn off tls (security.protocol=PLAINTEXT or SASL_PLAINTEXT), "
            "or use the broker's TLS port.",
            code="NO_TLS",
        )

    def _first_versions(self) -> dict[int, tuple[int, int]]:
        try:
            return self._fetch_versions()
        except Unreachable as error:
            if self._access.encryption is None and error.code != TIMED_OUT and speaks_tls(self.address):
                raise TlsFailed(
                    f"{self.address} is a TLS port. Turn on tls (security.protocol=SSL or SASL_SSL), or use the "
                    "broker's port without TLS.",
                    code="TLS_PORT",
                ) from error
            raise

    def _fetch_versions(self) -> dict[int, tuple[int, int]]:
        response = self.call(ApiKey.API_VERSIONS, messages.ApiVersionsRequest(), version=0)
        if response.error_code:
            raise Unreachable(
                f"{self.address} did not list its API versions: {error_name(response.error_code)}"
            )
        return {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}

    def _authenticate(self) -> None:
        credentials = self._access.credentials
        if credentials is None:
            return
        request = messages.SaslHandshakeRequest(mechanism=credentials.mechanism)
        handshake = self.call(ApiKey.SASL_HANDSHAKE, request, version=1)
        if handshake.error_code:
            offered = ", ".join(handshake.mechanisms) or "none"
            raise AuthenticationFailed(
                f"{self.address} does not support the SASL mechanism {credentials.mechanism}; it supports: {offered}. "
                "Set sasl_mechanism (sasl.mechanism) to one of them.",
                code=error_name(handshake.error_code),
            )
        steps = exchange(credentials)
        token = next(steps)
        while True:
            response = self.call(ApiKey.SASL_AUTHENTICATE, messages.SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code:
                reason = response.error_message or error_name(response.error_code)
                steps.throw(
                    AuthenticationFailed(
                        f"{self.address} rejected {credentials.who} ({credentials.mechanism}): "
                        f"{reason.rstrip('.')}. Check {_options_of(credentials)}.",
                        code=error_name(response.error_code),
                    )
                )
            if response.session_lifetime_ms > 0:
                self._expires_s = time.monotonic() + SESSION_PART * response.session_lifetime_ms / 1000
            try:
                token = steps.send(bytes(response.auth_bytes))
            except StopIteration:
                return

    # -- bytes

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError("closed by the broker")
            view = view[count:]
        return received

    def _broken(self, error: OSError) -> ClientError:
        self.close()
        if isinstance(error, ssl.SSLError) and "ALERT" in (error.reason or ""):
            return tls_failure(
                self.address, error
            )  # TLS 1.3 rejects a client certificate after the handshake
        return Unreachable(
            f"connection to {self.address} lost: {_reason(error)}. "
            "Check that the broker is running and that TLS and authentication are set as this port requires.",
            code=TIMED_OUT if isinstance(error, TimeoutError) else "",
        )


def _options_of(credentials: Credentials) -> str:
    if credentials.token is None:
        return "username and password"
    return "token, token_file or token_url" if credentials.token.url is None else "token_url and token_scope"


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror.lower() if error.strerror else str(error) or "connection closed"
