"""Probes brokers that seem to have died, and ends the sessions of those that have. Fences nobody: the controller does.

A hint (a lost link, a suspicion of gossip) makes this broker connect to the Kafka port of the other. If the connection
is refused, no process listens there any more: its sessions are ended at the store at once, also the controller session,
so that another broker takes over. Any other outcome proves nothing, and a broker that is slow, paused or cut off is
left to the time limit of its session.

A broker registers before its port accepts connections. Therefore a refusal counts only after this broker has reached
the same registration once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import KAFKA_LISTENER, BrokerRegistration
from penstock.core.model import Address
from penstock.node.cluster.metadata_log import LiveSession, MetadataLog, broker_session_name
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.controller")

PROBE_S_MAX = 1.0
"""For one attempt to connect."""
SUSPENSE_S_MAX = 0.3
"""How long answers about leaders wait while a broker is suspected to be dead."""
SUSPENSE_AGAIN_S = 10.0
"""They do not wait for the same broker again before this time, unless it has registered and was reached again: one that
this broker cannot reach may serve others."""
GREETING_S_MIN, GREETING_S_MAX = 0.1, 2.0
"""Pause between attempts to reach a broker that has just registered; it doubles."""


class Knock(Enum):
    """What a probe finds out."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    """Nobody listens there."""
    UNANSWERED = "unanswered"
    """Nothing is known: a slow machine, a lost packet, a name that cannot be looked up."""


class _Ended(NamedTuple):
    """A process whose session was ended because of a probe."""

    incarnation_id: str
    session: int


class PeerProbes:
    """The probes of one broker. `live_sessions` tells all sessions that are known to be alive."""

    def __init__(
        self,
        log: MetadataLog,
        catalog: Catalog,
        broker_id: int,
        live_sessions: Callable[[], Iterable[LiveSession]],
    ) -> None:
        self._log = log
        self._catalog = catalog
        self._broker_id = broker_id
        self._live_sessions = live_sessions
        self._reached: dict[int, int] = {}
        """The epoch of the last registration of each broker that has accepted a connection."""
        self._greeting: set[int] = set()
        self._hinted: dict[int, bool] = {}
        """Brokers that are being probed; True if another hint came meanwhile."""
        self._ended: dict[int, _Ended] = {}
        self._suspected_s: dict[int, float] = {}
        """When answers last began to wait for each broker."""
        self._calm = asyncio.Event()
        """Nobody is suspected."""
        self._calm.set()
        self._tasks = Tasks()
        self._is_running = False
        self.ended_count = 0
        """How often this broker has ended the session of another."""

    def start(self) -> None:
        self._is_running = True
        for broker in self._catalog.cluster.brokers:
            self.follow_registration(broker)

    async def stop(self) -> None:
        self._is_running = False
        await self._tasks.stop()

    # -- who is reachable

    def follow_registration(self, broker: BrokerRegistration) -> None:
        """A broker has registered or changed. It is contacted once, to know that its port can be reached."""
        self._calm_down()
        is_new = self._is_running and self._reached.get(broker.broker_id) != broker.epoch
        if is_new and self._is_probed(broker) and broker.broker_id not in self._greeting:
            self._greeting.add(broker.broker_id)
            self._tasks.spawn(self._greet(broker.broker_id))

    async def _greet(self, broker_id: int) -> None:
        pause_s = GREETING_S_MIN
        while (broker := self._find(broker_id)) is not None and self._reached.get(broker_id) != broker.epoch:
            if await _knock(broker.listeners[KAFKA_LISTENER]) is Knock.ACCEPTED:
                self._reached[broker_id] = broker.epoch
                self._suspected_s.pop(broker_id, None)
                continue
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, GREETING_S_MAX)
        self._greeting.discard(broker_id)

    def _find(self, broker_id: int) -> BrokerRegistration | None:
        """A broker that may be probed."""
        found = self._catalog.cluster.find_broker(broker_id)
        return found if found is not None and self._is_probed(found) else None

    def _is_probed(self, broker: BrokerRegistration) -> bool:
        """A broker that is stopping closes its port before it has left the cluster."""
        is_other = broker.broker_id != self._broker_id
        return (
            is_other and not (broker.is_fenced or broker.is_stopping) and KAFKA_LISTENER in broker.listeners
        )

    # -- who is dead

    def suspect(self, broker_id: int) -> None:
        """Something suggests that this broker has died: probe it, once at a time."""
        if not self._is_running:
            return
        if broker_id in self._hinted:
            self._hinted[broker_id] = True
        elif self._find(broker_id) is not None:
            self._hinted[broker_id] = True
            now_s = asyncio.get_running_loop().time()
            if now_s - self._suspected_s.get(broker_id, -SUSPENSE_AGAIN_S) >= SUSPENSE_AGAIN_S:
                self._suspected_s[broker_id] = now_s
                self._calm.clear()
            self._tasks.spawn(self._probe(broker_id))

    @property
    def has_suspects(self) -> bool:
        """Whether a broker that is called a leader may be dead."""
        return not self._calm.is_set()

    async def suspense(self) -> None:
        """Wait until it is known who is dead, and others lead instead; for a moment only."""
        try:
            async with asyncio.timeout(SUSPENSE_S_MAX):
                await self._calm.wait()
        except TimeoutError:
            return

    def _calm_down(self) -> None:
        """A broker whose session was ended stays a suspect until it is fenced."""
        if not self._hinted and not any(map(self._is_condemned, self._ended)):
            self._calm.set()

    def _is_condemned(self, broker_id: int) -> bool:
        broker, ended = self._find(broker_id), self._ended[broker_id]
        return broker is not None and (broker.incarnation_id, broker.session) == ended

    async def _probe(self, broker_id: int) -> None:
        try:
            while self._hinted[broker_id]:
                self._hinted[broker_id] = False
                await self._probe_once(broker_id)
        except BrokerError as error:
            logger.warning(
                "cannot end the session of broker %d, which is dead; it runs out: %s",
                broker_id,
                error,
                extra={"broker": broker_id},
            )
        finally:
            del self._hinted[broker_id]
            self._calm_down()

    async def _probe_once(self, broker_id: int) -> None:
        broker = self._find(broker_id)
        if broker is None or self._reached.get(broker_id) != broker.epoch:
            return
        # What the dead process holds is known before the probe, so that a process that starts meanwhile is not hit.
        sessions = self._sessions_of(broker)
        if not sessions or self._is_known(broker):
            return
        if await _knock(broker.listeners[KAFKA_LISTENER]) is not Knock.REFUSED:
            return
        logger.warning(
            "broker %d refuses connections at %s, so its process has ended: ending its session",
            broker_id,
            broker.listeners[KAFKA_LISTENER],
            extra={"broker": broker_id, "broker_epoch": broker.epoch, "session": broker.session},
        )
        for live in sessions:
            await self._log.end_session(live)
        self._ended[broker_id] = _Ended(broker.incarnation_id, broker.session)
        self.ended_count += 1

    def _sessions_of(self, broker: BrokerRegistration) -> list[LiveSession]:
        """All sessions of the process that has registered; none if another process has opened one since."""
        held = [one for one in self._live_sessions() if one.holder == broker.broker_id]
        name = broker_session_name(broker.broker_id)
        is_other = any(one.name == name and one.number != broker.session for one in held)
        return [] if is_other else held

    def _is_known(self, broker: BrokerRegistration) -> bool:
        """Whether the session of this process was ended before. A process that came back after that lives, and its
        port refuses this broker: ending its sessions again and again would only fence it each time."""
        ended = self._ended.get(broker.broker_id)
        if ended is None or ended.incarnation_id != broker.incarnation_id:
            return False
        if ended.session != broker.session:
            logger.error(
                "broker %d is alive but refuses connections at %s: check its advertised address and the firewall."
                " Its death will be noticed by the time limit of its session only",
                broker.broker_id,
                broker.listeners[KAFKA_LISTENER],
                extra={"broker": broker.broker_id},
            )
        return True


async def _knock(address: Address) -> Knock:
    """Connect and disconnect. A name refuses if all its addresses do."""
    try:
        async with asyncio.timeout(PROBE_S_MAX):
            return await _connect(address)
    except TimeoutError:
        return Knock.UNANSWERED


async def _connect(address: Address) -> Knock:
    loop = asyncio.get_running_loop()
    try:
        transport, _ = await loop.create_connection(asyncio.Protocol, address.host, address.port)
    except ConnectionRefusedError:
        return Knock.REFUSED
    except OSError as error:
        # If several addresses failed, asyncio raises one error without a number.
        return Knock.UNANSWERED if error.errno is not None else await _connect_each(address)
    transport.close()
    return Knock.ACCEPTED


async def _connect_each(address: Address) -> Knock:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port)
    except OSError:
        return Knock.UNANSWERED
    hosts = sorted({str(one[4][0]) for one in found} - {address.host})
    outcomes = {await _connect(Address(host, address.port)) for host in hosts}
    return Knock.REFUSED if outcomes == {Knock.REFUSED} else Knock.UNANSWERED
