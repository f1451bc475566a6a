"""What clients leave behind when they go: memory comes back, and waiting calls are cheap again."""

from __future__ import annotations

import struct
from contextlib import ExitStack

from conditions import until
from hostile.harness import Harness
from penstock.wire.kafka import ApiKey, encode_request, messages

BROKER_FLAGS = {"connections_max": 4_000, "connections_per_address_max": 4_000, "frame_ms_max": 1_000}
CONNECTIONS = 800
PIPELINED = 200
DROPPED_JOINS, JOINS_PER_CONNECTION = 4_000, 400
LEFT_MIB_MAX = 8.0
"""What may stay of the connections' buffers: 800 of them take up 16 MiB."""

VERSIONS = struct.pack(">ihhih", 10, ApiKey.API_VERSIONS, 0, 1, -1)


def test_memory_comes_back_when_many_clients_have_left(harness: Harness) -> None:
    broker = harness.broker
    before_mib = broker.memory_mib("VmRSS")
    with harness.case("kafka", f"{CONNECTIONS} connections come and go"), ExitStack() as stack:
        connections = [stack.enter_context(harness.connect()) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.sendall(VERSIONS)
        assert all(connection.recv(4) for connection in connections)
    until(
        lambda: broker.memory_mib("VmRSS") - before_mib < LEFT_MIB_MAX,
        "the buffers of connections that left are still there",
    )


def test_pipelined_producer_ids_are_cheap(harness: Harness) -> None:
    """Each waits for the one before it, so each must come out of a reserved block without a flush."""
    body = messages.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    request = encode_request(ApiKey.INIT_PRODUCER_ID, 1, 7, "attacker", body)
    with harness.case("kafka", f"{PIPELINED} pipelined InitProducerId"), harness.connect() as connection:
        connection.sendall(request * PIPELINED)
        received, wanted = 0, PIPELINED * (4 + 4 + 4 + 2 + 8 + 2)
        while received < wanted:
            part = connection.recv(1 << 16)
            assert part, "the broker closed the connection"
            received += len(part)
    assert harness.rows[-1].loop_cpu_s < 1.0


def test_timers_of_many_groups_fire_in_slices(harness: Harness) -> None:
    """Members that asked to join and left: all their groups' rounds end in the same moment."""
    join = messages.JoinGroupRequest
    protocols = [join.JoinGroupRequestProtocol(name="range", metadata=b"")]
    with harness.connect() as connection:
        find = messages.FindCoordinatorRequest(key="g", key_type=0)
        connection.sendall(encode_request(ApiKey.FIND_COORDINATOR, 1, 7, "attacker", find))
        assert connection.recv(4)
    with harness.case("kafka", f"{DROPPED_JOINS:,} joins, dropped"):
        for first in range(0, DROPPED_JOINS, JOINS_PER_CONNECTION):
            with harness.connect() as connection:
                for number in range(first, first + JOINS_PER_CONNECTION):
                    body = join(
                        group_id=f"dropped-{number}",
                        session_timeout_ms=10_000,
                        rebalance_timeout_ms=10_000,
                        protocol_type="consumer",
                        protocols=protocols,
                    )
                    connection.sendall(encode_request(ApiKey.JOIN_GROUP, 3, 1, "attacker", body))
        afterwards = encode_request(ApiKey.API_VERSIONS, 0, 1, None, messages.ApiVersionsRequest())
        with harness.connect() as connection:
            connection.sendall(afterwards)
            assert connection.recv(4)
