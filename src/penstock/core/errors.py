"""The error tree. Raise at the cause, with data; translate once, at the door. No other error is raised deliberately.

BrokerError
├ Refused   the caller must change something
├ NotNow    retry later, maybe on another broker
└ Damaged   data or disk is damaged: the partition goes offline
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.limits import ERROR_CHARS_MAX


class BrokerError(Exception):
    """Base of all errors. `retriable` says whether the same call may succeed later."""

    retriable = False

    @property
    def code(self) -> str:
        """The stable name of this error, used in logs and by the doors' translation tables."""
        return type(self).__name__


class Refused(BrokerError):
    """The caller must change the request before retrying."""


class NotNow(BrokerError):
    """The request is valid; retry later, maybe on another broker."""

    retriable = True


class Damaged(BrokerError):
    """Data or disk is damaged. The partition that owns it goes offline."""


class UnknownTopic(Refused):
    """There is no topic or partition with that name or number."""


class UnknownTopicId(Refused):
    """There is no topic with that id."""


class TopicExists(Refused):
    """A topic with that name already exists."""


class InvalidTopic(Refused):
    """The topic name is invalid or reserved for an internal topic."""


class InvalidPartitions(Refused):
    """The requested number of partitions is not allowed."""


class InvalidReplication(Refused):
    """The replication factor cannot be met by this cluster."""


class InvalidAssignment(Refused):
    """The requested replica assignment is not possible in this cluster."""


class InvalidConfig(Refused):
    """Unknown setting, or a value that the setting does not allow."""


class AgainstPolicy(Refused):
    """The topic's settings do not allow this."""


class InvalidRequest(Refused):
    """The request is inconsistent or asks for something impossible."""


class Malformed(Refused):
    """The bytes violate the protocol. The connection must be closed."""


class ForeignProtocol(Refused):
    """The client speaks another protocol than this port. `answer` is the response in its protocol; it may be empty."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class UnsupportedVersion(Refused):
    """This broker does not support the API or its version."""


class TooLarge(Refused):
    """A message or request exceeds its size limit."""


class InvalidRecord(Refused):
    """A record violates its topic's rules. `indexes` lists the invalid records of the batch, if known."""

    def __init__(self, message: str, indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indexes = indexes


class InvalidTimestamp(Refused):
    """A record's timestamp is outside its topic's limits. `indexes` as in InvalidRecord."""

    def __init__(self, message: str, indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indexes = indexes


class UnsupportedCompression(Refused):
    """The batch's compression codec is not supported."""


class OffsetOutOfRange(Refused):
    """The offset is before the start or after the end of the partition."""


class Fenced(Refused):
    """The caller's epoch is older than the current one."""


class OutOfOrder(Refused):
    """A producer's sequence number leaves a gap."""


class StaleProducer(Refused):
    """A producer with a newer epoch of this producer id has already written."""


class UnknownProducer(Refused):
    """The producer id is unknown, although its sequence number says that it wrote before."""


class FencedProducer(Refused):
    """A newer producer uses this transactional id, or its transaction timed out."""


class WrongProducer(Refused):
    """The producer id does not belong to this transactional id."""


class InvalidTransactionState(Refused):
    """The transaction's current state does not allow this."""


class TransactionAbortable(Refused):
    """The transaction cannot continue; the producer must abort it and may start another."""


class InvalidTransactionTimeout(Refused):
    """The requested transaction timeout exceeds the broker's limit."""


class UnknownTransaction(Refused):
    """There is no such transactional id."""


class NoTransactionalId(Refused):
    """A transactional batch was produced without a transactional id."""


class StaleCoordinator(Refused):
    """A transaction coordinator with a newer epoch has already written."""


class Forbidden(Refused):
    """The caller lacks a permission; subclasses name the resource type."""


class TopicForbidden(Forbidden):
    """The caller lacks a permission for this topic."""


class GroupForbidden(Forbidden):
    """The caller lacks a permission for this group or subscription."""


class ClusterForbidden(Forbidden):
    """The caller lacks a permission for the cluster as a whole."""


class TransactionalIdForbidden(Forbidden):
    """The caller lacks a permission for this transactional id."""


class UnknownBroker(Refused):
    """No broker with that id is registered."""


class StaleBrokerEpoch(Refused):
    """The request is from an earlier registration of the broker."""


class DuplicateBroker(Refused):
    """Another process is registered under this broker id and is not fenced."""


class WrongCluster(Refused):
    """The broker belongs to another cluster."""


class StalePartitionEpoch(Refused):
    """The partition changed since the leader made this request."""


class IneligibleReplica(Refused):
    """A broker cannot join the ISR: it is fenced, stopping, or registered again since."""


class NoReassignment(Refused):
    """The partition has no reassignment in progress."""


class ElectionNotNeeded(Refused):
    """The partition has the wanted leader already."""


class SecurityDisabled(Refused):
    """The call needs an authorizer, and none is configured."""


class SingleBroker(Refused):
    """The call needs a cluster, and this broker is alone."""


class IllegalMove(Refused):
    """A state machine has no such transition from its current state."""


class InvalidGroup(Refused):
    """The group id is invalid, for example empty."""


class UnknownGroup(Refused):
    """There is no group with that id, or it is of another type."""


class UnknownMember(Refused):
    """The group has no such member; the client must rejoin as a new member."""


class StaleGeneration(Refused):
    """The member's generation is not the group's current generation."""


class FencedInstance(Refused):
    """Another member has taken over this static member's instance id."""


class FencedMember(Refused):
    """The member's epoch is invalid; it must revoke all partitions and rejoin."""


class StaleMember(Refused):
    """The member's epoch is stale; its next heartbeat returns the new one."""


class UnreleasedInstance(Refused):
    """The static member with this instance id has not left yet."""


class UnknownAssignor(Refused):
    """This broker has no assignor with that name."""


class InvalidRegex(Refused):
    """The regular expression is invalid or too large."""


class NotHeld(Refused):
    """The member does not hold the message: its acknowledgement deadline passed, or it was settled before."""


class MemberIdRequired(Refused):
    """The member was assigned an id and must rejoin with it."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id!r}")
        self.member_id = member_id


class InconsistentProtocol(Refused):
    """The member shares no protocol with its group, or names another than the selected one."""


class InvalidSession(Refused):
    """The session timeout is outside the broker's limits."""


class GroupFull(Refused):
    """The group has reached its maximum number of members."""


class GroupNotEmpty(Refused):
    """The group has active members, so it cannot be deleted or changed by an administrator."""


class GroupSubscribed(Refused):
    """A member is subscribed to this topic, so its offsets cannot be deleted."""


class MetadataTooLarge(Refused):
    """The metadata of a committed offset exceeds its size limit."""


class NotLeader(NotNow):
    """This broker does not lead the partition. The attributes name the broker that does; -1 if unknown."""

    def __init__(
        self,
        message: str,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        leader_address: tuple[str, int] | None = None,
    ) -> None:
        super().__init__(message)
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.leader_address = leader_address
        """Where Kafka clients reach it."""


class LeaderNotAvailable(NotNow):
    """The partition has no leader at the moment."""


class NotController(NotNow):
    """The request refers to a later state than this broker has seen."""


class NoEligibleLeader(NotNow):
    """No replica that may lead the partition is available."""


class PreferredLeaderUnavailable(NotNow):
    """The preferred replica is not in sync or not available."""


class UnknownEpoch(NotNow):
    """The caller's epoch is newer than this broker's."""


class Loading(NotNow):
    """The coordinator is still loading its state."""


class Throttled(NotNow):
    """A limit on memory, connections or rate is reached."""


class TimedOut(NotNow):
    """The operation did not complete within the caller's timeout."""


class MetadataUnavailable(NotNow):
    """The metadata store cannot be reached, or has no majority. Nothing was changed."""


class PeerUnavailable(NotNow):
    """Another broker cannot be reached, or refuses this one. The request was not sent: nothing was changed there."""


class NotEnoughReplicas(NotNow):
    """Fewer replicas are in sync than the topic requires."""


class CoordinatorUnavailable(NotNow):
    """The coordinator is not available yet; look it up again."""


class NotCoordinator(NotNow):
    """This broker does not coordinate the group; look up the coordinator again."""


class Rebalancing(NotNow):
    """The group is rebalancing; the member must rejoin."""


class TransactionBusy(NotNow):
    """The previous transaction is still being completed."""


class OffsetNotAvailable(NotNow):
    """The new leader does not know yet up to which offset records are committed."""


class UnstableOffset(NotNow):
    """An open transaction has a pending commit for this offset."""


class CorruptBatch(Damaged):
    """The batch does not match its checksum or header."""


class TornSegment(Damaged):
    """A file of the log is missing, truncated or inconsistent."""


class DiskFull(Damaged):
    """No space left on the disk. Nothing was written; writes succeed again once there is space."""

    retriable = True


class DiskFailed(Damaged):
    """A read, write or flush failed: the disk is read-only, detached or broken."""


class OutOfDescriptors(NotNow):
    """A file could not be opened: the process or the system is out of file descriptors. No data was lost."""


class Offline(Damaged):
    """The partition is offline after an earlier failure; repair it, then restart the broker."""


def message_of(error: BrokerError) -> str:
    """The error message, truncated to fit every version of every response."""
    words = str(error)
    return words if len(words) <= ERROR_CHARS_MAX else f"{words[:ERROR_CHARS_MAX]}…"


def leaves(root: type[BrokerError] = BrokerError) -> Iterator[type[BrokerError]]:
    """The concrete error classes: those without subclasses."""
    children = root.__subclasses__()
    if not children:
        yield root
    for child in children:
        yield from leaves(child)
