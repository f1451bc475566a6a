"""Encodes errors for the queue door: a code for programs and a message for people."""

from __future__ import annotations

from penstock.core import errors
from penstock.core.errors import BrokerError
from penstock.core.limits import ERROR_CHARS_MAX
from penstock.node.runtime.meters import count_error
from penstock.wire.queue.properties import Properties
from penstock.wire.queue.request_properties import CODE, ERROR, FAILURE, FALSE, RETRIABLE, STATUS, TRUE

DOOR = "queue"

UNKNOWN_TOPIC = "UNKNOWN_TOPIC"
UNKNOWN_SUBSCRIPTION = "UNKNOWN_SUBSCRIPTION"
UNKNOWN_MEMBER = "UNKNOWN_MEMBER"
ALREADY_EXISTS = "ALREADY_EXISTS"
INVALID_REQUEST = "INVALID_REQUEST"
INVALID_RECORD = "INVALID_RECORD"
MALFORMED = "MALFORMED"
TOO_LARGE = "TOO_LARGE"
OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
NOT_HELD = "NOT_HELD"
FORBIDDEN = "FORBIDDEN"
CONFLICT = "CONFLICT"
TRY_AGAIN = "TRY_AGAIN"
TIMED_OUT = "TIMED_OUT"
DISK_FULL = "DISK_FULL"
BROKER_FAILED = "BROKER_FAILED"

CODES: dict[type[BrokerError], str] = {
    errors.AgainstPolicy: FORBIDDEN,
    errors.CoordinatorUnavailable: TRY_AGAIN,
    errors.CorruptBatch: BROKER_FAILED,
    errors.DiskFailed: BROKER_FAILED,
    errors.DiskFull: DISK_FULL,
    errors.Fenced: CONFLICT,
    errors.FencedInstance: CONFLICT,
    errors.FencedMember: CONFLICT,
    errors.FencedProducer: CONFLICT,
    errors.TopicForbidden: FORBIDDEN,
    errors.GroupForbidden: FORBIDDEN,
    errors.ClusterForbidden: FORBIDDEN,
    errors.TransactionalIdForbidden: FORBIDDEN,
    errors.UnknownBroker: INVALID_REQUEST,
    errors.StaleBrokerEpoch: CONFLICT,
    errors.DuplicateBroker: CONFLICT,
    errors.WrongCluster: CONFLICT,
    errors.StalePartitionEpoch: CONFLICT,
    errors.IneligibleReplica: CONFLICT,
    errors.NoReassignment: INVALID_REQUEST,
    errors.ElectionNotNeeded: INVALID_REQUEST,
    errors.NotController: TRY_AGAIN,
    errors.LeaderNotAvailable: TRY_AGAIN,
    errors.NoEligibleLeader: TRY_AGAIN,
    errors.PreferredLeaderUnavailable: TRY_AGAIN,
    errors.SecurityDisabled: INVALID_REQUEST,
    errors.GroupFull: CONFLICT,
    errors.GroupNotEmpty: CONFLICT,
    errors.GroupSubscribed: CONFLICT,
    errors.SingleBroker: INVALID_REQUEST,
    errors.IllegalMove: CONFLICT,
    errors.InconsistentProtocol: CONFLICT,
    errors.InvalidAssignment: INVALID_REQUEST,
    errors.InvalidConfig: INVALID_REQUEST,
    errors.InvalidGroup: INVALID_REQUEST,
    errors.InvalidPartitions: INVALID_REQUEST,
    errors.InvalidRecord: INVALID_RECORD,
    errors.InvalidRegex: INVALID_REQUEST,
    errors.InvalidReplication: INVALID_REQUEST,
    errors.InvalidRequest: INVALID_REQUEST,
    errors.InvalidSession: INVALID_REQUEST,
    errors.InvalidTimestamp: INVALID_RECORD,
    errors.InvalidTopic: INVALID_REQUEST,
    errors.InvalidTransactionState: CONFLICT,
    errors.InvalidTransactionTimeout: INVALID_REQUEST,
    errors.Loading: TRY_AGAIN,
    errors.Malformed: MALFORMED,
    errors.ForeignProtocol: MALFORMED,
    errors.MemberIdRequired: CONFLICT,
    errors.MetadataTooLarge: TOO_LARGE,
    errors.MetadataUnavailable: TRY_AGAIN,
    errors.NoTransactionalId: CONFLICT,
    errors.NotCoordinator: TRY_AGAIN,
    errors.NotEnoughReplicas: TRY_AGAIN,
    errors.NotHeld: NOT_HELD,
    errors.NotLeader: TRY_AGAIN,
    errors.Offline: BROKER_FAILED,
    errors.OffsetOutOfRange: OFFSET_OUT_OF_RANGE,
    errors.OutOfDescriptors: TRY_AGAIN,
    errors.OutOfOrder: CONFLICT,
    errors.PeerUnavailable: TRY_AGAIN,
    errors.Rebalancing: TRY_AGAIN,
    errors.StaleCoordinator: CONFLICT,
    errors.StaleGeneration: CONFLICT,
    errors.StaleMember: CONFLICT,
    errors.StaleProducer: CONFLICT,
    errors.Throttled: TRY_AGAIN,
    errors.TimedOut: TIMED_OUT,
    errors.TooLarge: TOO_LARGE,
    errors.TopicExists: ALREADY_EXISTS,
    errors.TornSegment: BROKER_FAILED,
    errors.TransactionAbortable: CONFLICT,
    errors.TransactionBusy: TRY_AGAIN,
    errors.UnknownAssignor: INVALID_REQUEST,
    errors.UnknownEpoch: TRY_AGAIN,
    errors.UnknownGroup: UNKNOWN_SUBSCRIPTION,
    errors.UnknownMember: UNKNOWN_MEMBER,
    errors.UnknownProducer: CONFLICT,
    errors.UnknownTopic: UNKNOWN_TOPIC,
    errors.UnknownTopicId: UNKNOWN_TOPIC,
    errors.UnknownTransaction: CONFLICT,
    errors.UnreleasedInstance: CONFLICT,
    errors.OffsetNotAvailable: TRY_AGAIN,
    errors.UnstableOffset: TRY_AGAIN,
    errors.UnsupportedCompression: INVALID_RECORD,
    errors.UnsupportedVersion: INVALID_REQUEST,
    errors.WrongProducer: CONFLICT,
}


def error_properties(error: BrokerError, code: str | None = None) -> Properties:
    """The properties of an error response; `code` replaces the usual one."""
    count_error(DOOR, error)
    text = str(error).replace("\0", "\\0")[:ERROR_CHARS_MAX].encode(errors="replace").decode()
    return (
        (STATUS, FAILURE),
        (CODE, code or CODES[type(error)]),
        (RETRIABLE, TRUE if error.retriable else FALSE),
        (ERROR, text),
    )
