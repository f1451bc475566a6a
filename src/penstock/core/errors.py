"""The one error tree. Raise at the cause, with data; translate once, at the door. Nothing else is raised on purpose.

BrokerError
├ Refused   the caller must change something
├ NotNow    try again, maybe elsewhere
└ Damaged   bytes or disk are wrong: that partition goes offline, loudly
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.limits import ERROR_CHARS_MAX


class BrokerError(Exception):
    """Everything that can go wrong on purpose. `retriable` says whether the same call may succeed later."""

    retriable = False

    @property
    def code(self) -> str:
        """The stable name of this error, used in logs and by the doors' translation tables."""
        return type(self).__name__


class Refused(BrokerError):
    """The caller must change something before trying again."""


class NotNow(BrokerError):
    """Nothing is wrong with the request; try again later, maybe elsewhere."""

    retriable = True


class Damaged(BrokerError):
    """Bytes or the disk are wrong. The partition that owns them goes offline."""


class UnknownTopic(Refused):
    """No topic or partition of that name or number."""


class UnknownTopicId(Refused):
    """No topic with that id."""


class TopicExists(Refused):
    """A topic of that name is there already."""


class InvalidTopic(Refused):
    """The name breaks the rules for topic names, or names an internal topic."""


class InvalidPartitions(Refused):
    """The number of partitions asked for cannot be."""


class InvalidReplication(Refused):
    """The replication factor cannot be met by this cluster."""


class InvalidAssignment(Refused):
    """The replicas named for partitions are not ones that this cluster can give them."""


class InvalidConfig(Refused):
    """An unknown setting, or a value that the setting does not allow."""


class AgainstPolicy(Refused):
    """The settings of the topic rule this out."""


class InvalidRequest(Refused):
    """The request contradicts itself or asks for something that cannot be."""


class Malformed(Refused):
    """Bytes that do not follow the protocol. The connection that sent them cannot be trusted further."""


class ForeignProtocol(Refused):
    """The client speaks another protocol than this port. `answer` tells it so in its own protocol; it may be empty."""

    def __init__(self, message: str, answer: bytes = b"") -> None:
        super().__init__(message)
        self.answer = answer


class UnsupportedVersion(Refused):
    """An API or version that this broker does not speak."""


class TooLarge(Refused):
    """A message or request is over its limit."""


class InvalidRecord(Refused):
    """A record breaks the rules of its topic. `indexes` names the records inside the batch, if known."""

    def __init__(self, message: str, indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indexes = indexes


class InvalidTimestamp(Refused):
    """A record's timestamp lies outside what its topic allows. `indexes` as in InvalidRecord."""

    def __init__(self, message: str, indexes: tuple[int, ...] = ()) -> None:
        super().__init__(message)
        self.indexes = indexes


class UnsupportedCompression(Refused):
    """The compression of a batch is not known here."""


class OffsetOutOfRange(Refused):
    """The offset lies before the first or after the last record of the partition."""


class Fenced(Refused):
    """The caller speaks for an older epoch than the one known here."""


class OutOfOrder(Refused):
    """A producer's sequence number leaves a gap."""


class StaleProducer(Refused):
    """A newer epoch of this producer id has written already."""


class UnknownProducer(Refused):
    """Nothing is known of this producer id although its sequence says it wrote before."""


class FencedProducer(Refused):
    """A newer producer has taken over this transactional id, or its transaction took too long."""


class WrongProducer(Refused):
    """The producer id is not the one that this transactional id stands for."""


class InvalidTransactionState(Refused):
    """The transaction is not in a state in which this can be done."""


class TransactionAbortable(Refused):
    """The transaction cannot go on; its producer may abort it and start another."""


class InvalidTransactionTimeout(Refused):
    """A transaction may not take as long as the producer wants."""


class UnknownTransaction(Refused):
    """There is no such transactional id."""


class NoTransactionalId(Refused):
    """Records of a transaction came without the transactional id that they belong to."""


class StaleCoordinator(Refused):
    """A later transaction coordinator has written already."""


class Forbidden(Refused):
    """The caller lacks a permission; the leaves say for which kind of resource."""


class TopicForbidden(Forbidden):
    """The caller lacks a permission for this topic."""


class GroupForbidden(Forbidden):
    """The caller lacks a permission for this group or subscription."""


class ClusterForbidden(Forbidden):
    """The caller lacks a permission for the cluster as a whole."""


class TransactionalIdForbidden(Forbidden):
    """The caller lacks a permission for this transactional id."""


class UnknownBroker(Refused):
    """No broker of that id is registered."""


class SecurityDisabled(Refused):
    """The call is about permissions, and no authorizer is configured."""


class IllegalMove(Refused):
    """A state machine has no such transition from where it stands."""


class InvalidGroup(Refused):
    """A group id that cannot be, such as an empty one."""


class UnknownGroup(Refused):
    """There is no group of that id, or it is of another kind."""


class UnknownMember(Refused):
    """The group has no such member; it has to join again as a new one."""


class StaleGeneration(Refused):
    """The member speaks for another generation of its group than the present one."""


class FencedInstance(Refused):
    """Another member has taken over this static member's name."""


class FencedMember(Refused):
    """The member speaks for an epoch that it is not in; it has to give everything up and join again."""


class StaleMember(Refused):
    """The member's epoch has moved on meanwhile; it finds the new one in the answer to its next heartbeat."""


class UnreleasedInstance(Refused):
    """The static member of this name has not left yet."""


class UnknownAssignor(Refused):
    """No assignor of that name on this broker."""


class InvalidRegex(Refused):
    """A regular expression that does not follow the syntax, or is too large."""


class NotHeld(Refused):
    """The message is not, or no longer, with this member: its time was up, or it was settled before."""


class MemberIdRequired(Refused):
    """The member has been given an id and is to join again with it."""

    def __init__(self, member_id: str) -> None:
        super().__init__(f"join again as {member_id!r}")
        self.member_id = member_id


class InconsistentProtocol(Refused):
    """The member has no protocol in common with its group, or states another than the chosen one."""


class InvalidSession(Refused):
    """A session timeout outside of what this broker allows."""


class GroupFull(Refused):
    """The group has as many members as it may have."""


class GroupNotEmpty(Refused):
    """The group has members, so it cannot be removed or changed from outside."""


class GroupSubscribed(Refused):
    """A member of the group reads this topic, so its offsets cannot be removed."""


class MetadataTooLarge(Refused):
    """The text that goes with a committed offset is over its limit."""


class NotLeader(NotNow):
    """This node does not lead that partition."""


class UnknownEpoch(NotNow):
    """The caller knows a newer epoch than this node does."""


class Loading(NotNow):
    """The state needed to answer is still being read."""


class Throttled(NotNow):
    """A limit on memory, connections or rate is reached."""


class TimedOut(NotNow):
    """It did not happen within the time that the caller gave."""


class NotEnoughReplicas(NotNow):
    """Fewer replicas are in sync than the topic demands."""


class CoordinatorUnavailable(NotNow):
    """What keeps groups is not there yet; ask again who coordinates."""


class NotCoordinator(NotNow):
    """This node no longer coordinates that group; ask again who does."""


class Rebalancing(NotNow):
    """The group is agreeing on a new assignment; the member has to join again."""


class TransactionBusy(NotNow):
    """The transaction before is still being completed."""


class UnstableOffset(NotNow):
    """A transaction that is still open is about to change this committed offset."""


class CorruptBatch(Damaged):
    """A batch whose bytes contradict its checksum or header."""


class TornSegment(Damaged):
    """A file of the log is missing, short or inconsistent where it must not be."""


class DiskFull(Damaged):
    """No space is left. Nothing was written; writing works again as soon as there is space."""

    retriable = True


class DiskFailed(Damaged):
    """The disk refused a read, a write or a flush: read-only, gone, or broken."""


class OutOfDescriptors(NotNow):
    """A file could not be opened because the process or the system has no descriptor left. Nothing was lost."""


class Offline(Damaged):
    """The partition was taken offline by an earlier failure; restart the broker after repairing it."""


def message_of(error: BrokerError) -> str:
    """The error in words, short enough for every version of every response."""
    words = str(error)
    return words if len(words) <= ERROR_CHARS_MAX else f"{words[:ERROR_CHARS_MAX]}…"


def leaves(root: type[BrokerError] = BrokerError) -> Iterator[type[BrokerError]]:
    """Every error that can actually be raised: the classes without subclasses."""
    children = root.__subclasses__()
    if not children:
        yield root
    for child in children:
        yield from leaves(child)
