"""Asks the processes of a cluster whether they serve: one short connection each. Draws no conclusions over time.

A broker answers ApiVersions on its Kafka port, the metadata process a handshake, a gRPC service a health call. What is
not in sync is asked over the HTTP door of one broker, for all of them.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from penstock.apps.control.grpc_health import HEALTH_REQUEST, read_health
from penstock.apps.control.services import Health
from penstock.core.errors import BrokerError, Malformed
from penstock.core.model import Address
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.metadata_link import CoordinatorAccess, connect_coordinator
from penstock.node.cluster.metadata_target import CoordinatorTarget
from penstock.node.runtime.clock import SystemRng

ANSWER_S_MAX = 3.0
"""Longer than a busy process lets a request wait; a process that is stopped or stuck takes longer."""
_API_VERSIONS, _CORRELATION_ID = 18, 7
_CLIENT = b"penstock-health"
_REQUEST = struct.pack(">hhih", _API_VERSIONS, 0, _CORRELATION_ID, len(_CLIENT)) + _CLIENT
_FRAME = struct.pack(">i", len(_REQUEST)) + _REQUEST
_ANSWER_HEAD = struct.Struct(">iih")
"""Length, correlation id, error code."""
LAGGING_PATH = "/api/v1/cluster/topics?under_replicated=true&internal=true"
LAGGING_BYTES_MAX = 16 << 20

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[str]]
"""Asks and reads the answer; returns what is wrong with it, empty if nothing is."""


class ProbeResult(NamedTuple):
    """UNREACHABLE, NOT_SERVING or HEALTHY, and why."""

    health: Health
    detail: str = ""


SERVES = ProbeResult(Health.HEALTHY)


async def probe_broker(address: Address) -> ProbeResult:
    """Whether a broker answers its clients."""
    return await _probe(address, _ask_versions)


async def probe_service(address: Address) -> ProbeResult:
    """Whether a gRPC service reports SERVING: it does while a broker answers it."""
    return await _probe(address, _ask_health)


async def probe_metadata(target: CoordinatorTarget, broker_id: int) -> ProbeResult:
    """Whether the metadata process lets a broker in."""
    try:
        access = CoordinatorAccess(target.address, read_secret(Path(target.secret_file)), broker_id)
        async with asyncio.timeout(ANSWER_S_MAX):
            link = await connect_coordinator(access, SystemRng())
    except ConnectionRefusedError:
        return ProbeResult(Health.UNREACHABLE, f"refuses connections to {target.address}")
    except TimeoutError:
        return _no_answer(target.address)
    except (OSError, EOFError, BrokerError) as error:
        return ProbeResult(Health.NOT_SERVING, f"does not answer on {target.address}: {error or 'closed'}")
    link.close("done")
    return SERVES


async def find_lagging(address: Address) -> Counter[int] | None:
    """How many replicas of each broker are not in sync, as the broker with this HTTP address says; None if it does not
    say."""
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            try:
                writer.write(
                    f"GET {LAGGING_PATH} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode()
                )
                answer = await _read_all(reader)
            finally:
                writer.transport.abort()
        head, _, body = answer.partition(b"\r\n\r\n")
        return count_lagging(json.loads(body)) if head.startswith(b"HTTP/1.1 200 ") else None
    except (OSError, EOFError, ValueError, KeyError, Malformed):
        return None  # the broker's own health says what is wrong with it


def count_lagging(content: dict[str, list[dict[str, list[int]]]]) -> Counter[int]:
    """Replicas that are not in sync, by broker."""
    return Counter(
        broker_id
        for partition in content["partitions"]
        for broker_id in partition["replicas"]
        if broker_id not in partition["isr"]
    )


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    pieces, size = list[bytes](), 0
    while piece := await reader.read(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > LAGGING_BYTES_MAX:
            raise Malformed(f"the answer is longer than {LAGGING_BYTES_MAX} bytes")
    return b"".join(pieces)


async def _probe(address: Address, talk: Talk) -> ProbeResult:
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            reader, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        return ProbeResult(Health.UNREACHABLE, f"does not accept connections to {address}")
    except OSError as error:
        reason = "refused" if isinstance(error, ConnectionRefusedError) else error.strerror or error
        return ProbeResult(Health.UNREACHABLE, f"cannot connect to {address}: {reason}")
    try:
        async with asyncio.timeout(ANSWER_S_MAX):
            wrong = await talk(reader, writer)
    except TimeoutError:
        return _no_answer(address)
    except (OSError, EOFError):
        return ProbeResult(Health.NOT_SERVING, f"closed the connection to {address}")
    except Malformed as error:
        return ProbeResult(Health.NOT_SERVING, f"answers nonsense on {address}: {error}")
    finally:
        writer.transport.abort()
    return ProbeResult(Health.NOT_SERVING, wrong) if wrong else SERVES


def _no_answer(address: Address) -> ProbeResult:
    return ProbeResult(Health.NOT_SERVING, f"no answer on {address} within {ANSWER_S_MAX:.0f} s")


async def _ask_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(_FRAME)
    _, correlation_id, code = _ANSWER_HEAD.unpack(await reader.readexactly(_ANSWER_HEAD.size))
    if correlation_id != _CORRELATION_ID:
        raise Malformed(f"correlation id {correlation_id}, expected {_CORRELATION_ID}")
    return f"ApiVersions failed with error {code}" if code else ""


async def _ask_health(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    writer.write(HEALTH_REQUEST)
    return "" if await read_health(reader.readexactly) else "reports NOT_SERVING: no broker answers it"
