"""Translates broker errors to Kafka's error codes. The only such table of this door."""

from __future__ import annotations

from penstock.core import errors
from penstock.core.errors import BrokerError
from penstock.node.runtime.meters import count_error
from penstock.wire.kafka import ErrorCode

DOOR = "kafka"

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
    errors.NotEnoughReplicas: ErrorCode.NOT_ENOUGH_REPLICAS,
    errors.CoordinatorUnavailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotCoordinator: ErrorCode.NOT_COORDINATOR,
    errors.Rebalancing: ErrorCode.REBALANCE_IN_PROGRESS,
    errors.TransactionBusy: ErrorCode.CONCURRENT_TRANSACTIONS,
    errors.UnstableOffset: ErrorCode.UNSTABLE_OFFSET_COMMIT,
    errors.CorruptBatch: ErrorCode.CORRUPT_MESSAGE,
    errors.TornSegment: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DiskFull: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.DiskFailed: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.OutOfDescriptors: ErrorCode.KAFKA_STORAGE_ERROR,
    errors.Offline: ErrorCode.KAFKA_STORAGE_ERROR,
}


COORDINATOR_CODES: dict[type[BrokerError], ErrorCode] = {
    errors.NotLeader: ErrorCode.NOT_COORDINATOR,
    errors.LeaderNotAvailable: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.Offline: ErrorCode.NOT_COORDINATOR,
    errors.DiskFailed: ErrorCode.NOT_COORDINATOR,
    errors.TornSegment: ErrorCode.NOT_COORDINATOR,
    errors.CorruptBatch: ErrorCode.NOT_COORDINATOR,
    errors.DiskFull: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.OutOfDescriptors: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.NotEnoughReplicas: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    errors.TooLarge: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""Failures of a coordinator's own partition are reported as coordinator errors, so that clients look it up again."""


def coordinator_code_of(error: BrokerError) -> int:
    """Kafka's error code for a coordinator response."""
    count_error(DOOR, error)
    return int(COORDINATOR_CODES.get(type(error)) or CODES[type(error)])


def code_of(error: BrokerError) -> int:
    """Kafka's error code."""
    count_error(DOOR, error)
    return int(CODES[type(error)])
