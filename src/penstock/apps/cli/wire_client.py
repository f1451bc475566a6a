"""Kafka's own calls over a socket, for what the client library has no words for. One call at a time; never retries."""

from __future__ import annotations

import socket
from struct import Struct
from typing import Any

from penstock.apps.cli.client import CONNECT_SECONDS_MAX, REQUEST_SECONDS_MAX, no_broker, split_address
from penstock.apps.cli.failures import RefusedByBroker
from penstock.core.errors import BrokerError
from penstock.wire.kafka import ErrorCode, decode_response, encode_request

_SIZE = Struct(">i")
_CLIENT_ID = "penstock-cli"
_ANSWER_BYTES_MAX = 100 << 20


class WireClient:
    """A connection to one broker. Raises NoBroker when it cannot be had or breaks."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._socket = self._connect()
        self._calls = 0

    def _connect(self) -> socket.socket:
        why = "no address was given"
        for part in self.bootstrap.split(","):
            try:
                opened = socket.create_connection(split_address(part.strip()), timeout=CONNECT_SECONDS_MAX)
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                continue
            opened.settimeout(REQUEST_SECONDS_MAX)
            return opened
        raise no_broker(self.bootstrap, why)

    def call(self, api_key: int, version: int, body: Any) -> Any:
        """Send a request and wait for its answer."""
        self._calls += 1
        try:
            self._socket.sendall(encode_request(api_key, version, self._calls, _CLIENT_ID, body))
            (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
            if not 0 <= size <= _ANSWER_BYTES_MAX:
                raise RefusedByBroker(f"{self.bootstrap} answers {size} bytes: that is no Kafka broker.")
            _, answer = decode_response(api_key, version, self._exactly(size))
        except OSError as error:
            raise no_broker(self.bootstrap, (error.strerror or str(error) or "it hung up").lower()) from error
        except BrokerError as error:
            raise RefusedByBroker(f"{self.bootstrap} answers something else: {error}.") from error
        return answer

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            part = self._socket.recv(size - len(received))
            if not part:
                raise ConnectionResetError("it closed the connection; does it speak this call?")
            received += part
        return bytes(received)

    def close(self) -> None:
        self._socket.close()


def check(code: int, about: str) -> None:
    """Raise unless the answer says that all is well."""
    if code:
        word = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
        raise RefusedByBroker(f"{about}: {word}")
