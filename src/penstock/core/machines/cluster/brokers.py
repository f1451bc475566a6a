"""Membership decisions: link key, register, unfence, stop, fence, drain, unregister.

Each decision about a registered broker checks its epoch. A broker registers fenced, is unfenced once it has caught up
with the metadata log, announces a controlled shutdown, and is fenced at its end; a broker whose session ends is fenced
by the controller. The death of a broker is one decision, however many partitions it leads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from penstock.core.errors import DuplicateBroker, InvalidRequest, WrongCluster
from penstock.core.limits import BROKER_ID_MAX, LINK_KEY_BYTES
from penstock.core.machines.cluster.events import (
    BrokerRemoved,
    BrokerSaved,
    ClusterEvent,
    ClusterSaved,
    LinkKeySaved,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.transition import Prospect, changed_all
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH, BrokerRegistration
from penstock.core.model import Address


class RegistrationRequest(NamedTuple):
    """What a broker says about itself."""

    cluster_id: str
    broker_id: int
    incarnation_id: str
    """A random id of the process."""
    listeners: Mapping[str, Address] = {}
    rack: str = ""
    session: int = 0
    previous_epoch: int = NO_BROKER_EPOCH
    """The broker epoch of its last run, if no record of that run can be missing; else NO_BROKER_EPOCH."""
    flushed_epoch: int = NO_BROKER_EPOCH
    """The same, if no record of that run can be missing that was flushed to disk."""
    takes_share: bool = False
    """Whether it gets its share of the partitions if the cluster does not know it yet."""
    attempts: Sequence[str] = ()
    """The incarnations since its last run that may have registered, but were not active and so wrote nothing."""

    def continues(self, present: BrokerRegistration, epoch: int) -> bool:
        """Whether nothing was written under the present registration since the run with this epoch."""
        return epoch != NO_BROKER_EPOCH and (
            present.epoch == epoch or present.incarnation_id in self.attempts
        )


def decide_link_key(cluster: ClusterState, link_key: bytes) -> list[ClusterEvent]:
    """Give the cluster its link key, unless it has one: the first broker that joins chooses it."""
    if len(link_key) != LINK_KEY_BYTES:
        raise InvalidRequest(f"a link key has {LINK_KEY_BYTES} bytes, not {len(link_key)}")
    return [] if cluster.link_key is not None else [LinkKeySaved(link_key)]


def decide_register(cluster: ClusterState, request: RegistrationRequest) -> list[ClusterEvent]:
    """Register a broker, fenced. A repeated request of the same process at most names its new session.

    Its epoch is in the state afterwards. An earlier registration must have been fenced: a process that holds the
    broker's session may do that itself.
    """
    broker_id, epoch = request.broker_id, cluster.broker_epoch + 1
    if not 0 <= broker_id <= BROKER_ID_MAX:
        raise InvalidRequest(f"broker id {broker_id} is not between 0 and {BROKER_ID_MAX}")
    if cluster.cluster_id not in (None, request.cluster_id):
        raise WrongCluster(
            f"broker {broker_id} belongs to cluster {request.cluster_id}, but this is cluster {cluster.cluster_id}:"
            " check the address of the metadata log and the data directory"
        )
    present = cluster.find_broker(broker_id)
    if present is not None and present.incarnation_id == request.incarnation_id:
        renewed = replace(present, session=request.session)
        return [] if renewed == present else [BrokerSaved(renewed)]
    if present is not None and not present.is_fenced:
        raise DuplicateBroker(
            f"another process is registered as broker {broker_id} and is not fenced: give each broker its own"
            " node id, or wait until the session of the other process has expired"
        )
    broker = BrokerRegistration(
        broker_id,
        epoch,
        request.incarnation_id,
        dict(request.listeners),
        request.rack,
        request.session,
        is_draining=present is not None and present.is_draining,
        is_joining=request.takes_share and cluster.has_brokers if present is None else present.is_joining,
    )
    events: list[ClusterEvent] = [ClusterSaved(request.cluster_id, epoch), BrokerSaved(broker)]
    if present is not None and not request.continues(present, request.previous_epoch):
        is_flushed = request.continues(present, request.flushed_epoch)
        lost = [
            one for one in cluster.held_by(broker_id) if not (is_flushed and cluster.is_fsync(one.topic_id))
        ]
        events += changed_all(lost, Prospect(cluster), incomplete=[broker_id])
    return events


def decide_unfence(cluster: ClusterState, broker_id: int, epoch: int) -> list[ClusterEvent]:
    """The broker has caught up: it leads the partitions that waited for it, and may join ISRs."""
    broker = cluster.broker(broker_id, epoch)
    if not broker.is_fenced:
        return []
    prospect = Prospect(cluster, active=[broker_id])
    return [
        BrokerSaved(replace(broker, is_fenced=False)),
        *changed_all(cluster.held_by(broker_id), prospect),
    ]


def decide_stop(
    cluster: ClusterState, broker_id: int, epoch: int, recent: Sequence[int] = ()
) -> list[ClusterEvent]:
    """Begin a controlled shutdown: other replicas take over, those on brokers that returned lately (`recent`, in this
    order) only if there is no other. Partitions without another replica stay until the end."""
    broker = cluster.broker(broker_id, epoch)
    if broker.is_fenced or broker.is_stopping:
        return []
    prospect = Prospect(cluster, stopping=[broker_id], recent=recent)
    return [
        BrokerSaved(replace(broker, is_stopping=True)),
        *changed_all(cluster.held_by(broker_id), prospect),
    ]


def decide_fence(
    cluster: ClusterState, broker_id: int, epoch: int, recent: Sequence[int] = ()
) -> list[ClusterEvent]:
    """Fence a broker: it stopped, or its session ended. It leaves every ISR, and others lead what it led; `recent` as
    in `decide_stop`."""
    broker = cluster.broker(broker_id, epoch)
    if broker.is_fenced:
        return []
    prospect = Prospect(cluster, fenced=[broker_id], recent=recent)
    return [
        BrokerSaved(replace(broker, is_fenced=True, is_stopping=False)),
        *changed_all(cluster.held_by(broker_id), prospect),
    ]


def decide_drain(cluster: ClusterState, broker_id: int, *, is_draining: bool) -> list[ClusterEvent]:
    """Exclude a broker from placement, or include it again. Moving its replicas away takes reassignments."""
    broker = cluster.broker(broker_id)
    if broker.is_draining == is_draining:
        return []
    return [BrokerSaved(replace(broker, is_draining=is_draining))]


def decide_unregister(cluster: ClusterState, broker_id: int) -> list[ClusterEvent]:
    """Remove a broker that is stopped and empty."""
    broker = cluster.broker(broker_id)
    if not broker.is_fenced:
        raise InvalidRequest(f"broker {broker_id} is running: stop it before it is unregistered")
    held = cluster.held_by(broker_id)
    if held:
        raise InvalidRequest(
            f"broker {broker_id} holds replicas of {len(held)} partitions, the first being {held[0].place}: drain it"
            " before it is unregistered"
        )
    return [BrokerRemoved(broker_id)]
