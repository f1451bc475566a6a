"""Bad packets cost little: one log line a minute, and a limit per second."""

from __future__ import annotations

import pytest

from penstock.core.model import Address
from penstock.node.peers.packet_rejects import BAD_PACKETS_PER_S_MAX, LOG_INTERVAL_S, PacketRejects
from penstock.node.runtime.meters import GossipMeter
from penstock.wire.gossip.packets import Rejected, RejectReason

STRANGER = Address("10.9.9.9", 5)
UNSIGNED = Rejected(RejectReason.SIGNATURE, "the packet is not signed with this cluster's key")
REPLAYED = Rejected(RejectReason.REPLAY, "the packet was received before")


def test_a_reason_is_logged_once_a_minute_with_the_number_of_packets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    rejects = PacketRejects(GossipMeter())
    for _ in range(100):
        rejects.reject(UNSIGNED, STRANGER, 10.0)
    assert [record.getMessage() for record in caplog.records] == [
        "dropped 1 gossip packet(s), the last from 10.9.9.9:5: the packet is not signed with this cluster's key;"
        " configure the same cluster key on every broker, or stop the sender"
    ]
    rejects.reject(UNSIGNED, STRANGER, 10.0 + LOG_INTERVAL_S)
    assert "dropped 100 gossip packet(s)" in caplog.records[-1].getMessage()


def test_replays_are_counted_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    meter = GossipMeter()
    rejects = PacketRejects(meter)
    for _ in range(2 * BAD_PACKETS_PER_S_MAX):
        rejects.reject(REPLAYED, STRANGER, 10.0)
    assert meter.rejected == {"replay": 2 * BAD_PACKETS_PER_S_MAX}
    assert caplog.records == [] and not rejects.is_flooded(10.0)


def test_a_flood_shuts_out_strangers_until_the_second_is_over() -> None:
    rejects = PacketRejects(GossipMeter())
    for _ in range(BAD_PACKETS_PER_S_MAX):
        assert not rejects.is_flooded(10.5)
        rejects.reject(UNSIGNED, STRANGER, 10.0)
    assert rejects.is_flooded(10.5)
    assert not rejects.is_flooded(11.0)
    rejects.reject(UNSIGNED, STRANGER, 11.0)
    assert not rejects.is_flooded(11.1)
