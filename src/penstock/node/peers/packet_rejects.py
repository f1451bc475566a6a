"""Counts gossip packets that are dropped, and limits what they cost: log lines and time spent on verifying them."""

from __future__ import annotations

import logging

from penstock.core.model import Address
from penstock.core.printable import escape
from penstock.node.runtime.meters import GossipMeter
from penstock.wire.gossip.packets import Rejected, RejectReason

logger = logging.getLogger("penstock.gossip")

LOG_INTERVAL_S = 60.0
"""One line per reason in this time."""
BAD_PACKETS_PER_S_MAX = 200
"""After so many bad packets within a second, packets from addresses that are not peers are dropped unread until the
second is over: verifying one takes about ten microseconds."""

_REMEDIES = {
    RejectReason.SIGNATURE: "configure the same cluster key on every broker, or stop the sender",
    RejectReason.CLUSTER: "remove this broker from the sender's seeds",
    RejectReason.VERSION: "run versions of Penstock that can talk to each other",
    RejectReason.PROTOCOL: "another program sends to this port; check its configuration",
}


class PacketRejects:
    """Bad packets of one socket."""

    def __init__(self, meter: GossipMeter) -> None:
        self._meter = meter
        self._second_ends_s = 0.0
        self._in_second = 0
        self._logged: dict[RejectReason, tuple[float, int]] = {}
        """Reason → when it was logged, and how many there were by then."""

    def is_flooded(self, now_s: float) -> bool:
        """Whether strangers are dropped unread for now."""
        return self._in_second >= BAD_PACKETS_PER_S_MAX and now_s < self._second_ends_s

    def reject(self, rejected: Rejected, source: Address, now_s: float) -> None:
        """Count and maybe log a packet."""
        reason = rejected.reason
        self._meter.rejected[reason.value] += 1
        if reason is RejectReason.REPLAY:
            return  # networks duplicate packets
        if now_s >= self._second_ends_s:
            self._second_ends_s = now_s + 1
            self._in_second = 0
        self._in_second += 1
        logged_s, logged_count = self._logged.get(reason, (now_s - LOG_INTERVAL_S, 0))
        if now_s - logged_s < LOG_INTERVAL_S:
            return
        total = self._meter.rejected[reason.value]
        self._logged[reason] = now_s, total
        remedy = _REMEDIES.get(reason)
        logger.warning(
            "dropped %d gossip packet(s), the last from %s: %s%s",
            total - logged_count,
            escape(str(source)),
            rejected.detail,
            f"; {remedy}" if remedy else "",
            extra={"peer": str(source), "reason": reason.value},
        )
