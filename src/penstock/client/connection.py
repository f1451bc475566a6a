"""One blocking connection to one broker: calls out, answers back in the same order. Never retries, never routes.

    with Connection(Address("127.0.0.1", 9092), access) as connection:
        connection.call(ApiKey.METADATA, messages.MetadataRequest(topics=[]))

Not for two threads at once.
"""

from __future__ import annotations

import socket
import ssl
from collections import deque
from struct import Struct
from typing import Any, Self

from penstock.client.access import Access
from penstock.client.errors import Refused, Unreachable
from penstock.client.sasl import exchange
from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.wire.kafka import (
    API,
    ApiKey,
    ErrorCode,
    KafkaRequest,
    ResponseT,
    decode_response,
    encode_request,
    messages,
)

ANSWER_BYTES_MAX = 256 << 20
"""No broker answers more than it was asked for; a larger size means that it is not one."""

_SIZE = Struct(">i")


class BrokerConnection:
    """A socket, wrapped and authenticated as the access says, and the versions that the broker at its end speaks."""

    def __init__(self, address: Address, access: Access) -> None:
        self.address = address
        self._access = access
        self.is_closed = False
        self._calls = 0
        self._waiting: deque[tuple[int, int, int]] = deque()
        self._versions: dict[int, tuple[int, int]] = {}
        self._socket = self._open()
        try:
            self._versions = self._ask_versions()
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
        """Send a request and wait for its answer. `wait_ms` is how long the broker was asked to hold it."""
        self.send(api_key, body, version=version)
        answer: ResponseT = self.receive(wait_ms=wait_ms)
        return answer

    def send(self, api_key: int, body: KafkaRequest[Any], *, version: int | None = None) -> None:
        """Send without waiting; `receive` gives the answers in the same order."""
        chosen = self.version_of(api_key) if version is None else version
        self._calls += 1
        frame = encode_request(api_key, chosen, self._calls, self._access.client_id, body)
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._broken(error) from error
        self._waiting.append((api_key, chosen, self._calls))

    def receive(self, *, wait_ms: int = 0) -> Any:
        """The answer to the oldest call that has none yet."""
        api_key, version, call = self._waiting.popleft()
        try:
            self._socket.settimeout((self._access.request_ms_max + wait_ms) / 1000)
            (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
            if not 0 <= size <= ANSWER_BYTES_MAX:
                raise ConnectionAbortedError(f"an answer of {size} bytes cannot be: that is no Kafka broker")
            correlation_id, answer = decode_response(api_key, version, self._exactly(size))
            if correlation_id != call:
                raise ConnectionAbortedError("it answers another call than it was asked")
        except OSError as error:
            raise self._broken(error) from error
        except BrokerError as error:
            raise self._broken(ConnectionAbortedError(f"that is not Kafka's protocol: {error}")) from error
        return answer

    def fileno(self) -> int:
        """For `select`: readable when an answer has begun to arrive."""
        return self._socket.fileno()

    @property
    def in_flight(self) -> int:
        """How many calls have no answer yet."""
        return len(self._waiting)

    def version_of(self, api_key: int, at_most: int | None = None) -> int:
        """The newest version that both sides speak. Raises Refused when there is none."""
        api = API[api_key]
        low, high = self._versions.get(api_key, (0, -1))
        best = min(high, api.version_max, api.version_max if at_most is None else at_most)
        if best < max(low, api.version_min):
            raise Refused(
                f"{self.address} speaks {api.name} in versions {low} to {high}; "
                f"this client needs {api.version_min} to {api.version_max}. Use a newer broker."
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
                f"{self.address} is not trusted: {error.verify_message}. Check ssl.ca.location "
                "(or ssl.truststore.location) and that the certificate is for this name."
            ) from error
        except ssl.SSLError as error:
            raise Unreachable(
                f"{self.address} does not speak TLS as asked: {error.reason}. Check security.protocol."
            ) from error
        except OSError as error:
            raise Unreachable(
                f"no broker answers at {self.address}: {_words(error)}. "
                "Check the address and that the broker runs (`penstock start`)."
            ) from error
        return opened

    def _ask_versions(self) -> dict[int, tuple[int, int]]:
        answer = self.call(ApiKey.API_VERSIONS, messages.ApiVersionsRequest(), version=0)
        if answer.error_code:
            raise Unreachable(
                f"{self.address} does not say which versions it speaks: {word(answer.error_code)}"
            )
        return {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}

    def _authenticate(self) -> None:
        credentials = self._access.credentials
        if credentials is None:
            return
        wanted = messages.SaslHandshakeRequest(mechanism=credentials.mechanism)
        greeting = self.call(ApiKey.SASL_HANDSHAKE, wanted, version=1)
        if greeting.error_code:
            offered = ", ".join(greeting.mechanisms) or "none"
            raise Refused(
                f"{self.address} refuses sasl.mechanism {credentials.mechanism}: it offers {offered}"
            )
        talk = exchange(credentials)
        said = next(talk)
        while True:
            answer = self.call(ApiKey.SASL_AUTHENTICATE, messages.SaslAuthenticateRequest(auth_bytes=said))
            if answer.error_code:
                raise Refused(
                    f"{self.address} does not let {credentials.username} in: "
                    f"{answer.error_message or word(answer.error_code)}. Check sasl.username and sasl.password."
                )
            try:
                said = talk.send(bytes(answer.auth_bytes))
            except StopIteration:
                return

    # -- bytes

    def _exactly(self, size: int) -> bytearray:
        received = bytearray(size)
        view = memoryview(received)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError("it closed the connection")
            view = view[count:]
        return received

    def _broken(self, error: OSError) -> Unreachable:
        self.close()
        return Unreachable(
            f"the connection to {self.address} broke: {_words(error)}. "
            "Check that the broker runs, and that security.protocol is the one of this port."
        )


def word(code: int) -> str:
    """Kafka's name of an error code."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "it did not answer in time"
    return error.strerror.lower() if error.strerror else str(error) or "it hung up"
