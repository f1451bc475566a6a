"""Broker errors as Kafka's error codes, and back. The Kafka door translates with it, links to other brokers undo it.

The only such table. Where several errors share a code, the way back leads to the one that promises least.
"""

from __future__ import annotations

from penstock.core import errors
from penstock.core.errors import BrokerError
from penstock.wire.kafka.error_codes import ErrorCode

CODES: dict[type[BrokerError], ErrorCode] = {
    errors.UnknownTopic: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    errors.UnknownTopicId: ErrorCode.UNKNOWN_TOPIC_ID,
    errors.TopicExists: ErrorCode.TOPIC_ALREADY_EXISTS,
    errors.InvalidTopic: ErrorCode.INVALID_TOPIC_EXCEPTION,
    errors.InvalidPartitions: ErrorCode.INVALID_PARTITIONS,
    errors.InvalidReplication: ErrorCode.INVALID_REPLICATION_FACTOR,
    errors.InvalidAssignment: ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    errors.AgainstPolicy: ErrorCode.POLICY_VIOLATION,
    errors.InvalidConfig: ErrorCode.INVALID_CONFIG,
    errors.InvalidRequest: ErrorCode.INVALID_REQUEST,
    errors.Malformed: ErrorCode.INVALID_REQUEST,
    errors.ForeignProtocol: ErrorCode.INVALID_REQUEST,
    errors.UnsupportedVersion: ErrorCode.UNSUPPORTED_VERSION,
    errors.TooLarge: ErrorCode.MESSAGE_TOO_LARGE,
    errors.InvalidRecord: ErrorCode.INVALID_RECORD,
    errors.InvalidTimestamp: ErrorCode.INVALID_TIMESTAMP,
    errors.UnsupportedCompression: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    errors.OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    errors.Fenced: ErrorCode.FENCED_LEADER_EPOCH,
    errors.OutOfOrder: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    errors.StaleProducer: ErrorCode.INVALID_PRODUCER_EPOCH,
    errors.UnknownProducer: ErrorCode.UNKNOWN_PRODUCER_ID,
    errors.FencedProducer: ErrorCode.PRODUCER_FENCED,
    errors.WrongProducer: ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    errors.InvalidTransactionState: ErrorCode.INVALID_TXN_STATE,
    errors.TransactionAbortable: ErrorCode.TRANSACTION_ABORTABLE,
    errors.InvalidTransactionTimeout: ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    errors.UnknownTransaction: ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
    errors.NoTransactionalId: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.StaleCoordinator: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    errors.TopicForbidden: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    errors.GroupForbidden: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    errors.ClusterForbidden: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    errors.TransactionalIdForbidden: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    errors.UnknownBroker: ErrorCode.BROKER_ID_NOT_REGISTERED,
    errors.StaleBrokerEpoch: ErrorCode.STALE_BROKER_EPOCH,
    errors.DuplicateBroker: ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    errors.WrongCluster: ErrorCode.INCONSISTENT_CLUSTER_ID,
    errors.StalePartitionEpoch: ErrorCode.INVALID_UPDATE_VERSION,
    errors.IneligibleReplica: ErrorCode.INELIGIBLE_REPLICA,
    errors.NoReassignment: ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    errors.ElectionNotNeeded: ErrorCode.ELECTION_NOT_NEEDED,
    errors.SecurityDisabled: ErrorCode.SECURITY_DISABLED,
    errors.SingleBroker: ErrorCode.INVALID_REQUEST,
    errors.IllegalMove: ErrorCode.INVALID_REQUEST,
    errors.InvalidGroup: ErrorCode.INVALID_GROUP_ID,
    errors.UnknownGroup: ErrorCode.GROUP_ID_NOT_FOUND,
    errors.UnknownMember: ErrorCode.UNKNOWN_MEMBER_ID,
    errors.StaleGeneration: ErrorCode.ILLEGAL_GENERATION,
    errors.FencedInstance: ErrorCode.FENCED_INSTANCE_ID,
    errors.FencedMember: ErrorCode.FENCED_MEMBER_EPOCH,
    errors.StaleMember: ErrorCode.STALE_MEMBER_EPOCH,
    errors.UnreleasedInstance: ErrorCode.UNRELEASED_INSTANCE_ID,
    errors.UnknownAssignor: ErrorCode.UNSUPPORTED_ASSIGNOR,
    errors.InvalidRegex: ErrorCode.INVALID_REGULAR_EXPRESSION,
    errors.NotHeld: ErrorCode.INVALID_RECORD_STATE,
    errors.MemberIdRequired: ErrorCode.MEMBER_ID_REQUIRED,
    errors.InconsistentProtocol: ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    errors.InvalidSession: ErrorCode.INVALID_SESSION_TIMEOUT,
    errors.GroupFull: ErrorCode.GROUP_MAX_SIZE_REACHED,
    errors.GroupNotEmpty: ErrorCode.NON_EMPTY_GROUP,
    errors.GroupSubscribed: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    errors.MetadataTooLarge: ErrorCode.OFFSET_METADATA_TOO_LARGE,
    errors.NotLeader: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    errors.LeaderNotAvailable: ErrorCode.LEADER_NOT_AVAILABLE,
    errors.NotController: ErrorCode.NOT_CONTROLLER,
    errors.NoEligibleLeader: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
    errors.PreferredLeaderUnavailable: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    errors.UnknownEpoch: ErrorCode.UNKNOWN_LEADER_EPOCH,
    errors.Loading: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    errors.Throttled: ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    errors.TimedOut: ErrorCode.REQUEST_TIMED_OUT,
    errors.MetadataUnavailable: ErrorCode.REQUEST_TIMED_OUT,
    errors.PeerUnavailable: ErrorCode.NETWORK_EXCEPTION,
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.CoordinatorUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.Rebalancing: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.TransactionBusy: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.OffsetNotAvailable: ErrorCode.OFFSET_NOT_AVAILABLE,
    errors.UnstableOffset: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.TornSegment: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DiskFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.OutOfDescriptors: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.Offline: ErrorCode.KAFKA_STORAGE_ERROR,
}
"""Every leaf of the error tree."""

_SHARED: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.INVALID_REQUEST: errors.InvalidRequest,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: errors.TransactionalIdForbidden,
    ErrorCode.REQUEST_TIMED_OUT: errors.TimedOut,
    ErrorCode.KAFKA_STORAGE_ERROR: errors.Offline,
}
"""Codes of several errors."""

_FURTHER: dict[ErrorCode, type[BrokerError]] = {
    ErrorCode.REPLICA_NOT_AVAILABLE: errors.NotLeader,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: errors.TimedOut,
    ErrorCode.INVALID_REQUIRED_ACKS: errors.InvalidRequest,
    ErrorCode.INCONSISTENT_TOPIC_ID: errors.UnknownTopicId,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: errors.UnsupportedVersion,
    ErrorCode.ILLEGAL_SASL_STATE: errors.InvalidRequest,
    ErrorCode.SASL_AUTHENTICATION_FAILED: errors.ClusterForbidden,
}
"""Codes that no error of ours has. Records that may still be committed count as an unknown outcome."""

ERRORS: dict[int, type[BrokerError]] = {
    **{int(code): error for code, error in _FURTHER.items()},
    **{int(code): error for error, code in CODES.items()},
    **{int(code): error for code, error in _SHARED.items()},
}


def error_from_code(code: int, message: str) -> BrokerError:
    """The error that a broker answered. A code that is unknown here is an unknown outcome."""
    found = ERRORS.get(code)
    if found is None:
        return errors.TimedOut(f"{message} (error code {code} is unknown here, the outcome is unknown)")
    return found(message)


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
