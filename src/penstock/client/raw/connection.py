"""One blocking Kafka connection: requests out, responses in the same order. Retries and routing: cluster.py.

    with BrokerConnection(Address("127.0.0.1", 9092), access) as connection:
        connection.call(ApiKey.METADATA, messages.MetadataRequest(topics=[]))

Not thread-safe.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from struct import Struct
from typing import Any, Self

from penstock.client.access import Access
from penstock.client.errors import Refused, Unreachable
from penstock.client.raw.sasl import exchange
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
        self._socket = self._open()
        try:
            self._versions = self._fetch_versions()
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
        try:
            opened = socket.create_connection(self.address, timeout=self._access.connect_ms_max / 1000)
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._access.encryption is not None:
                return self._access.encryption.context().wrap_socket(
                    opened, server_hostname=self.address.host
                )
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                f"certificate of {self.address} cannot be verified: {error.verify_message}. Check ssl.ca.location "
                "(or ssl.truststore.location) and that the certificate matches this host name."
            ) from error
        except ssl.SSLError as error:
            raise Unreachable(
                f"TLS handshake with {self.address} failed: {error.reason}. Check security.protocol."
            ) from error
        except OSError as error:
            raise Unreachable(
                f"no broker answers at {self.address}: {_reason(error)}. "
                "Check the address and that the broker is running (`penstock start`)."
            ) from error
        return opened

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
            raise Refused(
                f"{self.address} rejected sasl.mechanism {credentials.mechanism}; it supports: {offered}"
            )
        steps = exchange(credentials)
        token = next(steps)
        while True:
            response = self.call(ApiKey.SASL_AUTHENTICATE, messages.SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code:
                raise Refused(
                    f"{self.address} rejected user {credentials.username}: "
                    f"{response.error_message or error_name(response.error_code)}. "
                    "Check sasl.username and sasl.password."
                )
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

    def _broken(self, error: OSError) -> Unreachable:
        self.close()
        return Unreachable(
            f"connection to {self.address} lost: {_reason(error)}. "
            "Check that the broker is running and that security.protocol matches this port."
        )


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return error.strerror.lower() if error.strerror else str(error) or "connection closed"
