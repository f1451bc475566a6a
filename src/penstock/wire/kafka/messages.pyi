"""Kafka's messages as type checkers see them. Written by `make stubs` from the field tables: do not edit.

The comment after a field names the versions that have it, if some lack it. `None` is allowed where any version
allows it.
"""

from penstock.wire.kafka.classes import Buffer, KafkaMessage, KafkaRequest, Part

class ProduceResponse(KafkaMessage):
    """API 0, versions 3 to 13."""

    responses: list[ProduceResponse.TopicProduceResponse] = ...
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceResponse.NodeEndpoint] = ...  # v10+

    class TopicProduceResponse(KafkaMessage):
        name: str = ""  # v3-12
        topic_id: bytes = ...  # v13+
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...

    class PartitionProduceResponse(KafkaMessage):
        index: int = 0
        error_code: int = 0
        base_offset: int = 0
        log_append_time_ms: int = -1
        log_start_offset: int = -1  # v5+
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ...  # v8+
        error_message: str | None = None  # v8+
        current_leader: ProduceResponse.LeaderIdAndEpoch | None = None  # v10+

    class BatchIndexAndErrorMessage(KafkaMessage):
        batch_index: int = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(KafkaMessage):
        leader_id: int = -1
        leader_epoch: int = -1

    class NodeEndpoint(KafkaMessage):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

class ProduceRequest(KafkaRequest[ProduceResponse]):
    """API 0, versions 3 to 13."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequest.TopicProduceData] = ...

    class TopicProduceData(KafkaMessage):
        name: str = ""  # v3-12
        topic_id: bytes = ...  # v13+
        partition_data: list[ProduceRequest.PartitionProduceData] = ...

    class PartitionProduceData(KafkaMessage):
        index: int = 0
        records: memoryview | None = ...

class FetchResponse(KafkaMessage):
    """API 1, versions 4 to 18."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v7+
    session_id: int = 0  # v7+
    responses: list[FetchResponse.FetchableTopicResponse] = ...
    node_endpoints: list[FetchResponse.NodeEndpoint] = ...  # v16+

    class FetchableTopicResponse(KafkaMessage):
        topic: str = ""  # v4-12
        topic_id: bytes = ...  # v13+
        partitions: list[FetchResponse.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        high_watermark: int = 0
        last_stable_offset: int = -1
        log_start_offset: int = -1  # v5+
        diverging_epoch: FetchResponse.EpochEndOffset | None = None  # v12+
        current_leader: FetchResponse.LeaderIdAndEpoch | None = None  # v12+
        snapshot_id: FetchResponse.SnapshotId | None = None  # v12+
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ...
        preferred_read_replica: int = -1  # v11+
        records: Part | None = ...

    class EpochEndOffset(KafkaMessage):
        epoch: int = -1
        end_offset: int = -1

    class LeaderIdAndEpoch(KafkaMessage):
        leader_id: int = -1
        leader_epoch: int = -1

    class SnapshotId(KafkaMessage):
        end_offset: int = -1
        epoch: int = -1

    class AbortedTransaction(KafkaMessage):
        producer_id: int = 0
        first_offset: int = 0

    class NodeEndpoint(KafkaMessage):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

class FetchRequest(KafkaRequest[FetchResponse]):
    """API 1, versions 4 to 18."""

    cluster_id: str | None = None  # v12+
    replica_id: int = -1  # v4-14
    replica_state: FetchRequest.ReplicaState | None = None  # v15+
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0  # v7+
    session_epoch: int = -1  # v7+
    topics: list[FetchRequest.FetchTopic] = ...
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ...  # v7+
    rack_id: str = ""  # v11+

    class ReplicaState(KafkaMessage):
        replica_id: int = -1
        replica_epoch: int = -1

    class FetchTopic(KafkaMessage):
        topic: str = ""  # v4-12
        topic_id: bytes = ...  # v13+
        partitions: list[FetchRequest.FetchPartition] = ...

    class FetchPartition(KafkaMessage):
        partition: int = 0
        current_leader_epoch: int = -1  # v9+
        fetch_offset: int = 0
        last_fetched_epoch: int = -1  # v12+
        log_start_offset: int = -1  # v5+
        partition_max_bytes: int = 0
        replica_directory_id: bytes = ...  # v17+
        high_watermark: int = 9223372036854775807  # v18+

    class ForgottenTopic(KafkaMessage):
        topic: str = ""  # v7-12
        topic_id: bytes = ...  # v13+
        partitions: list[int] = ...

class ListOffsetsResponse(KafkaMessage):
    """API 2, versions 1 to 11."""

    throttle_time_ms: int = 0  # v2+
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...

    class ListOffsetsTopicResponse(KafkaMessage):
        name: str = ""
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...

    class ListOffsetsPartitionResponse(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        timestamp: int = -1
        offset: int = -1
        leader_epoch: int = -1  # v4+

class ListOffsetsRequest(KafkaRequest[ListOffsetsResponse]):
    """API 2, versions 1 to 11."""

    replica_id: int = 0
    isolation_level: int = 0  # v2+
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = ...
    timeout_ms: int = 0  # v10+

    class ListOffsetsTopic(KafkaMessage):
        name: str = ""
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...

    class ListOffsetsPartition(KafkaMessage):
        partition_index: int = 0
        current_leader_epoch: int = -1  # v4+
        timestamp: int = 0

class MetadataResponse(KafkaMessage):
    """API 3, versions 0 to 13."""

    throttle_time_ms: int = 0  # v3+
    brokers: list[MetadataResponse.MetadataResponseBroker] = ...
    cluster_id: str | None = None  # v2+
    controller_id: int = -1  # v1+
    topics: list[MetadataResponse.MetadataResponseTopic] = ...
    cluster_authorized_operations: int = -2147483648  # v8-10
    error_code: int = 0  # v13+

    class MetadataResponseBroker(KafkaMessage):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None  # v1+

    class MetadataResponseTopic(KafkaMessage):
        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...  # v10+
        is_internal: bool = False  # v1+
        partitions: list[MetadataResponse.MetadataResponsePartition] = ...
        topic_authorized_operations: int = -2147483648  # v8+

    class MetadataResponsePartition(KafkaMessage):
        error_code: int = 0
        partition_index: int = 0
        leader_id: int = 0
        leader_epoch: int = -1  # v7+
        replica_nodes: list[int] = ...
        isr_nodes: list[int] = ...
        offline_replicas: list[int] = ...  # v5+

class MetadataRequest(KafkaRequest[MetadataResponse]):
    """API 3, versions 0 to 13."""

    topics: list[MetadataRequest.MetadataRequestTopic] | None = ...
    allow_auto_topic_creation: bool = True  # v4+
    include_cluster_authorized_operations: bool = False  # v8-10
    include_topic_authorized_operations: bool = False  # v8+

    class MetadataRequestTopic(KafkaMessage):
        topic_id: bytes = ...  # v10+
        name: str | None = ""

class OffsetCommitResponse(KafkaMessage):
    """API 8, versions 2 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...

    class OffsetCommitResponseTopic(KafkaMessage):
        name: str = ""  # v2-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...

    class OffsetCommitResponsePartition(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0

class OffsetCommitRequest(KafkaRequest[OffsetCommitResponse]):
    """API 8, versions 2 to 10."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # v7+
    retention_time_ms: int = -1  # v2-4
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...

    class OffsetCommitRequestTopic(KafkaMessage):
        name: str = ""  # v2-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...

    class OffsetCommitRequestPartition(KafkaMessage):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v6+
        committed_metadata: str | None = ""

class OffsetFetchResponse(KafkaMessage):
    """API 9, versions 1 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ...  # v1-7
    error_code: int = 0  # v2-7
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...  # v8+

    class OffsetFetchResponseTopic(KafkaMessage):
        name: str = ""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...

    class OffsetFetchResponsePartition(KafkaMessage):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v5-7
        metadata: str | None = ""
        error_code: int = 0

    class OffsetFetchResponseGroup(KafkaMessage):
        group_id: str = ""
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ...
        error_code: int = 0

    class OffsetFetchResponseTopics(KafkaMessage):
        name: str = ""  # v8-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...

    class OffsetFetchResponsePartitions(KafkaMessage):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1
        metadata: str | None = ""
        error_code: int = 0

class OffsetFetchRequest(KafkaRequest[OffsetFetchResponse]):
    """API 9, versions 1 to 10."""

    group_id: str = ""  # v1-7
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ...  # v1-7
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ...  # v8+
    require_stable: bool = False  # v7+

    class OffsetFetchRequestTopic(KafkaMessage):
        name: str = ""
        partition_indexes: list[int] = ...

    class OffsetFetchRequestGroup(KafkaMessage):
        group_id: str = ""
        member_id: str | None = None  # v9+
        member_epoch: int = -1  # v9+
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...

    class OffsetFetchRequestTopics(KafkaMessage):
        name: str = ""  # v8-9
        topic_id: bytes = ...  # v10+
        partition_indexes: list[int] = ...

class FindCoordinatorResponse(KafkaMessage):
    """API 10, versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0  # v0-3
    error_message: str | None = ""  # v1-3
    node_id: int = 0  # v0-3
    host: str = ""  # v0-3
    port: int = 0  # v0-3
    coordinators: list[FindCoordinatorResponse.Coordinator] = ...  # v4+

    class Coordinator(KafkaMessage):
        key: str = ""
        node_id: int = 0
        host: str = ""
        port: int = 0
        error_code: int = 0
        error_message: str | None = ""

class FindCoordinatorRequest(KafkaRequest[FindCoordinatorResponse]):
    """API 10, versions 0 to 6."""

    key: str = ""  # v0-3
    key_type: int = 0  # v1+
    coordinator_keys: list[str] = ...  # v4+

class JoinGroupResponse(KafkaMessage):
    """API 11, versions 0 to 9."""

    throttle_time_ms: int = 0  # v2+
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None  # v7+
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # v9+
    member_id: str = ""
    members: list[JoinGroupResponse.JoinGroupResponseMember] = ...

    class JoinGroupResponseMember(KafkaMessage):
        member_id: str = ""
        group_instance_id: str | None = None  # v5+
        metadata: Buffer = b""

class JoinGroupRequest(KafkaRequest[JoinGroupResponse]):
    """API 11, versions 0 to 9."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # v1+
    member_id: str = ""
    group_instance_id: str | None = None  # v5+
    protocol_type: str = ""
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ...
    reason: str | None = None  # v8+

    class JoinGroupRequestProtocol(KafkaMessage):
        name: str = ""
        metadata: Buffer = b""

class HeartbeatResponse(KafkaMessage):
    """API 12, versions 0 to 4."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0

class HeartbeatRequest(KafkaRequest[HeartbeatResponse]):
    """API 12, versions 0 to 4."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+

class LeaveGroupResponse(KafkaMessage):
    """API 13, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    members: list[LeaveGroupResponse.MemberResponse] = ...  # v3+

    class MemberResponse(KafkaMessage):
        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: int = 0

class LeaveGroupRequest(KafkaRequest[LeaveGroupResponse]):
    """API 13, versions 0 to 5."""

    group_id: str = ""
    member_id: str = ""  # v0-2
    members: list[LeaveGroupRequest.MemberIdentity] = ...  # v3+

    class MemberIdentity(KafkaMessage):
        member_id: str = ""
        group_instance_id: str | None = None
        reason: str | None = None  # v5+

class SyncGroupResponse(KafkaMessage):
    """API 14, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignment: Buffer = b""

class SyncGroupRequest(KafkaRequest[SyncGroupResponse]):
    """API 14, versions 0 to 5."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...

    class SyncGroupRequestAssignment(KafkaMessage):
        member_id: str = ""
        assignment: Buffer = b""

class DescribeGroupsResponse(KafkaMessage):
    """API 15, versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    groups: list[DescribeGroupsResponse.DescribedGroup] = ...

    class DescribedGroup(KafkaMessage):
        error_code: int = 0
        error_message: str | None = None  # v6+
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[DescribeGroupsResponse.DescribedGroupMember] = ...
        authorized_operations: int = -2147483648  # v3+

    class DescribedGroupMember(KafkaMessage):
        member_id: str = ""
        group_instance_id: str | None = None  # v4+
        client_id: str = ""
        client_host: str = ""
        member_metadata: Buffer = b""
        member_assignment: Buffer = b""

class DescribeGroupsRequest(KafkaRequest[DescribeGroupsResponse]):
    """API 15, versions 0 to 6."""

    groups: list[str] = ...
    include_authorized_operations: bool = False  # v3+

class ListGroupsResponse(KafkaMessage):
    """API 16, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    groups: list[ListGroupsResponse.ListedGroup] = ...

    class ListedGroup(KafkaMessage):
        group_id: str = ""
        protocol_type: str = ""
        group_state: str = ""  # v4+
        group_type: str = ""  # v5+

class ListGroupsRequest(KafkaRequest[ListGroupsResponse]):
    """API 16, versions 0 to 5."""

    states_filter: list[str] = ...  # v4+
    types_filter: list[str] = ...  # v5+

class SaslHandshakeResponse(KafkaMessage):
    """API 17, versions 0 to 1."""

    error_code: int = 0
    mechanisms: list[str] = ...

class SaslHandshakeRequest(KafkaRequest[SaslHandshakeResponse]):
    """API 17, versions 0 to 1."""

    mechanism: str = ""

class ApiVersionsResponse(KafkaMessage):
    """API 18, versions 0 to 4."""

    error_code: int = 0
    api_keys: list[ApiVersionsResponse.ApiVersion] = ...
    throttle_time_ms: int = 0  # v1+
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ...  # v3+
    finalized_features_epoch: int = -1  # v3+
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ...  # v3+
    zk_migration_ready: bool = False  # v3+

    class ApiVersion(KafkaMessage):
        api_key: int = 0
        min_version: int = 0
        max_version: int = 0

    class SupportedFeatureKey(KafkaMessage):
        name: str = ""
        min_version: int = 0
        max_version: int = 0

    class FinalizedFeatureKey(KafkaMessage):
        name: str = ""
        max_version_level: int = 0
        min_version_level: int = 0

class ApiVersionsRequest(KafkaRequest[ApiVersionsResponse]):
    """API 18, versions 0 to 4."""

    client_software_name: str = ""  # v3+
    client_software_version: str = ""  # v3+

class CreateTopicsResponse(KafkaMessage):
    """API 19, versions 2 to 7."""

    throttle_time_ms: int = 0
    topics: list[CreateTopicsResponse.CreatableTopicResult] = ...

    class CreatableTopicResult(KafkaMessage):
        name: str = ""
        topic_id: bytes = ...  # v7+
        error_code: int = 0
        error_message: str | None = ""
        topic_config_error_code: int = 0  # v5+
        num_partitions: int = -1  # v5+
        replication_factor: int = -1  # v5+
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...  # v5+

    class CreatableTopicConfigs(KafkaMessage):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: int = -1
        is_sensitive: bool = False

class CreateTopicsRequest(KafkaRequest[CreateTopicsResponse]):
    """API 19, versions 2 to 7."""

    topics: list[CreateTopicsRequest.CreatableTopic] = ...
    timeout_ms: int = 60000
    validate_only: bool = False

    class CreatableTopic(KafkaMessage):
        name: str = ""
        num_partitions: int = 0
        replication_factor: int = 0
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ...
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...

    class CreatableReplicaAssignment(KafkaMessage):
        partition_index: int = 0
        broker_ids: list[int] = ...

    class CreatableTopicConfig(KafkaMessage):
        name: str = ""
        value: str | None = ""

class DeleteTopicsResponse(KafkaMessage):
    """API 20, versions 1 to 6."""

    throttle_time_ms: int = 0
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...

    class DeletableTopicResult(KafkaMessage):
        name: str | None = ""
        topic_id: bytes = ...  # v6+
        error_code: int = 0
        error_message: str | None = None  # v5+

class DeleteTopicsRequest(KafkaRequest[DeleteTopicsResponse]):
    """API 20, versions 1 to 6."""

    topics: list[DeleteTopicsRequest.DeleteTopicState] = ...  # v6+
    topic_names: list[str] = ...  # v1-5
    timeout_ms: int = 0

    class DeleteTopicState(KafkaMessage):
        name: str | None = None
        topic_id: bytes = ...

class DeleteRecordsResponse(KafkaMessage):
    """API 21, versions 0 to 2."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...

    class DeleteRecordsTopicResult(KafkaMessage):
        name: str = ""
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...

    class DeleteRecordsPartitionResult(KafkaMessage):
        partition_index: int = 0
        low_watermark: int = 0
        error_code: int = 0

class DeleteRecordsRequest(KafkaRequest[DeleteRecordsResponse]):
    """API 21, versions 0 to 2."""

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ...
    timeout_ms: int = 0

    class DeleteRecordsTopic(KafkaMessage):
        name: str = ""
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...

    class DeleteRecordsPartition(KafkaMessage):
        partition_index: int = 0
        offset: int = 0

class InitProducerIdResponse(KafkaMessage):
    """API 22, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0

class InitProducerIdRequest(KafkaRequest[InitProducerIdResponse]):
    """API 22, versions 0 to 5."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # v3+
    producer_epoch: int = -1  # v3+

class OffsetForLeaderEpochResponse(KafkaMessage):
    """API 23, versions 2 to 4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...

    class OffsetForLeaderTopicResult(KafkaMessage):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...

    class EpochEndOffset(KafkaMessage):
        error_code: int = 0
        partition: int = 0
        leader_epoch: int = -1
        end_offset: int = -1

class OffsetForLeaderEpochRequest(KafkaRequest[OffsetForLeaderEpochResponse]):
    """API 23, versions 2 to 4."""

    replica_id: int = -2  # v3+
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...

    class OffsetForLeaderTopic(KafkaMessage):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...

    class OffsetForLeaderPartition(KafkaMessage):
        partition: int = 0
        current_leader_epoch: int = -1
        leader_epoch: int = 0

class AddPartitionsToTxnResponse(KafkaMessage):
    """API 24, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v4+
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ...  # v4+
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...

    class AddPartitionsToTxnResult(KafkaMessage):
        transactional_id: str = ""
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...

    class AddPartitionsToTxnTopicResult(KafkaMessage):
        name: str = ""
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...

    class AddPartitionsToTxnPartitionResult(KafkaMessage):
        partition_index: int = 0
        partition_error_code: int = 0

class AddPartitionsToTxnRequest(KafkaRequest[AddPartitionsToTxnResponse]):
    """API 24, versions 0 to 5."""

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ...  # v4+
    v3_and_below_transactional_id: str = ""  # v0-3
    v3_and_below_producer_id: int = 0  # v0-3
    v3_and_below_producer_epoch: int = 0  # v0-3
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...  # v0-3

    class AddPartitionsToTxnTransaction(KafkaMessage):
        transactional_id: str = ""
        producer_id: int = 0
        producer_epoch: int = 0
        verify_only: bool = False
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...

    class AddPartitionsToTxnTopic(KafkaMessage):
        name: str = ""
        partitions: list[int] = ...

class AddOffsetsToTxnResponse(KafkaMessage):
    """API 25, versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0

class AddOffsetsToTxnRequest(KafkaRequest[AddOffsetsToTxnResponse]):
    """API 25, versions 0 to 4."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

class EndTxnResponse(KafkaMessage):
    """API 26, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1  # v5+
    producer_epoch: int = -1  # v5+

class EndTxnRequest(KafkaRequest[EndTxnResponse]):
    """API 26, versions 0 to 5."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False

class WriteTxnMarkersResponse(KafkaMessage):
    """API 27, versions 1 to 2."""

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...

    class WritableTxnMarkerResult(KafkaMessage):
        producer_id: int = 0
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...

    class WritableTxnMarkerTopicResult(KafkaMessage):
        name: str = ""
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...

    class WritableTxnMarkerPartitionResult(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0

class WriteTxnMarkersRequest(KafkaRequest[WriteTxnMarkersResponse]):
    """API 27, versions 1 to 2."""

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...

    class WritableTxnMarker(KafkaMessage):
        producer_id: int = 0
        producer_epoch: int = 0
        transaction_result: bool = False
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ...
        coordinator_epoch: int = 0
        transaction_version: int = 0  # v2+

    class WritableTxnMarkerTopic(KafkaMessage):
        name: str = ""
        partition_indexes: list[int] = ...

class TxnOffsetCommitResponse(KafkaMessage):
    """API 28, versions 0 to 5."""

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...

    class TxnOffsetCommitResponseTopic(KafkaMessage):
        name: str = ""
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...

    class TxnOffsetCommitResponsePartition(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0

class TxnOffsetCommitRequest(KafkaRequest[TxnOffsetCommitResponse]):
    """API 28, versions 0 to 5."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1  # v3+
    member_id: str = ""  # v3+
    group_instance_id: str | None = None  # v3+
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...

    class TxnOffsetCommitRequestTopic(KafkaMessage):
        name: str = ""
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...

    class TxnOffsetCommitRequestPartition(KafkaMessage):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v2+
        committed_metadata: str | None = ""

class DescribeAclsResponse(KafkaMessage):
    """API 29, versions 1 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResponse.DescribeAclsResource] = ...

    class DescribeAclsResource(KafkaMessage):
        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        acls: list[DescribeAclsResponse.AclDescription] = ...

    class AclDescription(KafkaMessage):
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class DescribeAclsRequest(KafkaRequest[DescribeAclsResponse]):
    """API 29, versions 1 to 3."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

class CreateAclsResponse(KafkaMessage):
    """API 30, versions 1 to 3."""

    throttle_time_ms: int = 0
    results: list[CreateAclsResponse.AclCreationResult] = ...

    class AclCreationResult(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""

class CreateAclsRequest(KafkaRequest[CreateAclsResponse]):
    """API 30, versions 1 to 3."""

    creations: list[CreateAclsRequest.AclCreation] = ...

    class AclCreation(KafkaMessage):
        resource_type: int = 0
        resource_name: str = ""
        resource_pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class DeleteAclsResponse(KafkaMessage):
    """API 31, versions 1 to 3."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...

    class DeleteAclsFilterResult(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...

    class DeleteAclsMatchingAcl(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class DeleteAclsRequest(KafkaRequest[DeleteAclsResponse]):
    """API 31, versions 1 to 3."""

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...

    class DeleteAclsFilter(KafkaMessage):
        resource_type_filter: int = 0
        resource_name_filter: str | None = ""
        pattern_type_filter: int = 3
        principal_filter: str | None = ""
        host_filter: str | None = ""
        operation: int = 0
        permission_type: int = 0

class DescribeConfigsResponse(KafkaMessage):
    """API 32, versions 1 to 4."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...

    class DescribeConfigsResult(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...

    class DescribeConfigsResourceResult(KafkaMessage):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: int = -1
        is_sensitive: bool = False
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ...
        config_type: int = 0  # v3+
        documentation: str | None = ""  # v3+

    class DescribeConfigsSynonym(KafkaMessage):
        name: str = ""
        value: str | None = ""
        source: int = 0

class DescribeConfigsRequest(KafkaRequest[DescribeConfigsResponse]):
    """API 32, versions 1 to 4."""

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ...
    include_synonyms: bool = False
    include_documentation: bool = False  # v3+

    class DescribeConfigsResource(KafkaMessage):
        resource_type: int = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = ...

class AlterConfigsResponse(KafkaMessage):
    """API 33, versions 0 to 2."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...

    class AlterConfigsResourceResponse(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

class AlterConfigsRequest(KafkaRequest[AlterConfigsResponse]):
    """API 33, versions 0 to 2."""

    resources: list[AlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False

    class AlterConfigsResource(KafkaMessage):
        resource_type: int = 0
        resource_name: str = ""
        configs: list[AlterConfigsRequest.AlterableConfig] = ...

    class AlterableConfig(KafkaMessage):
        name: str = ""
        value: str | None = ""

class DescribeLogDirsResponse(KafkaMessage):
    """API 35, versions 1 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v3+
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...

    class DescribeLogDirsResult(KafkaMessage):
        error_code: int = 0
        log_dir: str = ""
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ...
        total_bytes: int = -1  # v4+
        usable_bytes: int = -1  # v4+
        is_cordoned: bool = False  # v5+

    class DescribeLogDirsTopic(KafkaMessage):
        name: str = ""
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...

    class DescribeLogDirsPartition(KafkaMessage):
        partition_index: int = 0
        partition_size: int = 0
        offset_lag: int = 0
        is_future_key: bool = False

class DescribeLogDirsRequest(KafkaRequest[DescribeLogDirsResponse]):
    """API 35, versions 1 to 5."""

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...

    class DescribableLogDirTopic(KafkaMessage):
        topic: str = ""
        partitions: list[int] = ...

class SaslAuthenticateResponse(KafkaMessage):
    """API 36, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: Buffer = b""
    session_lifetime_ms: int = 0  # v1+

class SaslAuthenticateRequest(KafkaRequest[SaslAuthenticateResponse]):
    """API 36, versions 0 to 2."""

    auth_bytes: Buffer = b""

class CreatePartitionsResponse(KafkaMessage):
    """API 37, versions 0 to 3."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...

    class CreatePartitionsTopicResult(KafkaMessage):
        name: str = ""
        error_code: int = 0
        error_message: str | None = None

class CreatePartitionsRequest(KafkaRequest[CreatePartitionsResponse]):
    """API 37, versions 0 to 3."""

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ...
    timeout_ms: int = 0
    validate_only: bool = False

    class CreatePartitionsTopic(KafkaMessage):
        name: str = ""
        count: int = 0
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...

    class CreatePartitionsAssignment(KafkaMessage):
        broker_ids: list[int] = ...

class DeleteGroupsResponse(KafkaMessage):
    """API 42, versions 0 to 2."""

    throttle_time_ms: int = 0
    results: list[DeleteGroupsResponse.DeletableGroupResult] = ...

    class DeletableGroupResult(KafkaMessage):
        group_id: str = ""
        error_code: int = 0

class DeleteGroupsRequest(KafkaRequest[DeleteGroupsResponse]):
    """API 42, versions 0 to 2."""

    groups_names: list[str] = ...

class ElectLeadersResponse(KafkaMessage):
    """API 43, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v1+
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...

    class ReplicaElectionResult(KafkaMessage):
        topic: str = ""
        partition_result: list[ElectLeadersResponse.PartitionResult] = ...

    class PartitionResult(KafkaMessage):
        partition_id: int = 0
        error_code: int = 0
        error_message: str | None = ""

class ElectLeadersRequest(KafkaRequest[ElectLeadersResponse]):
    """API 43, versions 0 to 2."""

    election_type: int = 0  # v1+
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ...
    timeout_ms: int = 60000

    class TopicPartitions(KafkaMessage):
        topic: str = ""
        partitions: list[int] = ...

class IncrementalAlterConfigsResponse(KafkaMessage):
    """API 44, versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...

    class AlterConfigsResourceResponse(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

class IncrementalAlterConfigsRequest(KafkaRequest[IncrementalAlterConfigsResponse]):
    """API 44, versions 0 to 1."""

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False

    class AlterConfigsResource(KafkaMessage):
        resource_type: int = 0
        resource_name: str = ""
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...

    class AlterableConfig(KafkaMessage):
        name: str = ""
        config_operation: int = 0
        value: str | None = ""

class AlterPartitionReassignmentsResponse(KafkaMessage):
    """API 45, versions 0 to 1."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True  # v1+
    error_code: int = 0
    error_message: str | None = ""
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...

    class ReassignableTopicResponse(KafkaMessage):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...

    class ReassignablePartitionResponse(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = ""

class AlterPartitionReassignmentsRequest(KafkaRequest[AlterPartitionReassignmentsResponse]):
    """API 45, versions 0 to 1."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True  # v1+
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...

    class ReassignableTopic(KafkaMessage):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...

    class ReassignablePartition(KafkaMessage):
        partition_index: int = 0
        replicas: list[int] | None = None

class ListPartitionReassignmentsResponse(KafkaMessage):
    """API 46, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...

    class OngoingTopicReassignment(KafkaMessage):
        name: str = ""
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...

    class OngoingPartitionReassignment(KafkaMessage):
        partition_index: int = 0
        replicas: list[int] = ...
        adding_replicas: list[int] = ...
        removing_replicas: list[int] = ...

class ListPartitionReassignmentsRequest(KafkaRequest[ListPartitionReassignmentsResponse]):
    """API 46, versions 0 to 0."""

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None

    class ListPartitionReassignmentsTopics(KafkaMessage):
        name: str = ""
        partition_indexes: list[int] = ...

class OffsetDeleteResponse(KafkaMessage):
    """API 47, versions 0 to 0."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...

    class OffsetDeleteResponseTopic(KafkaMessage):
        name: str = ""
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...

    class OffsetDeleteResponsePartition(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0

class OffsetDeleteRequest(KafkaRequest[OffsetDeleteResponse]):
    """API 47, versions 0 to 0."""

    group_id: str = ""
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...

    class OffsetDeleteRequestTopic(KafkaMessage):
        name: str = ""
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...

    class OffsetDeleteRequestPartition(KafkaMessage):
        partition_index: int = 0

class DescribeClientQuotasResponse(KafkaMessage):
    """API 48, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[DescribeClientQuotasResponse.EntryData] | None = ...

    class EntryData(KafkaMessage):
        entity: list[DescribeClientQuotasResponse.EntityData] = ...
        values: list[DescribeClientQuotasResponse.ValueData] = ...

    class EntityData(KafkaMessage):
        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(KafkaMessage):
        key: str = ""
        value: float = 0.0

class DescribeClientQuotasRequest(KafkaRequest[DescribeClientQuotasResponse]):
    """API 48, versions 0 to 1."""

    components: list[DescribeClientQuotasRequest.ComponentData] = ...
    strict: bool = False

    class ComponentData(KafkaMessage):
        entity_type: str = ""
        match_type: int = 0
        match: str | None = ""

class AlterClientQuotasResponse(KafkaMessage):
    """API 49, versions 0 to 1."""

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponse.EntryData] = ...

    class EntryData(KafkaMessage):
        error_code: int = 0
        error_message: str | None = ""
        entity: list[AlterClientQuotasResponse.EntityData] = ...

    class EntityData(KafkaMessage):
        entity_type: str = ""
        entity_name: str | None = ""

class AlterClientQuotasRequest(KafkaRequest[AlterClientQuotasResponse]):
    """API 49, versions 0 to 1."""

    entries: list[AlterClientQuotasRequest.EntryData] = ...
    validate_only: bool = False

    class EntryData(KafkaMessage):
        entity: list[AlterClientQuotasRequest.EntityData] = ...
        ops: list[AlterClientQuotasRequest.OpData] = ...

    class EntityData(KafkaMessage):
        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(KafkaMessage):
        key: str = ""
        value: float = 0.0
        remove: bool = False

class DescribeUserScramCredentialsResponse(KafkaMessage):
    """API 50, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...

    class DescribeUserScramCredentialsResult(KafkaMessage):
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...

    class CredentialInfo(KafkaMessage):
        mechanism: int = 0
        iterations: int = 0

class DescribeUserScramCredentialsRequest(KafkaRequest[DescribeUserScramCredentialsResponse]):
    """API 50, versions 0 to 0."""

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...

    class UserName(KafkaMessage):
        name: str = ""

class AlterUserScramCredentialsResponse(KafkaMessage):
    """API 51, versions 0 to 0."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...

    class AlterUserScramCredentialsResult(KafkaMessage):
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""

class AlterUserScramCredentialsRequest(KafkaRequest[AlterUserScramCredentialsResponse]):
    """API 51, versions 0 to 0."""

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ...
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...

    class ScramCredentialDeletion(KafkaMessage):
        name: str = ""
        mechanism: int = 0

    class ScramCredentialUpsertion(KafkaMessage):
        name: str = ""
        mechanism: int = 0
        iterations: int = 0
        salt: Buffer = b""
        salted_password: Buffer = b""

class DescribeQuorumResponse(KafkaMessage):
    """API 55, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""  # v2+
    topics: list[DescribeQuorumResponse.TopicData] = ...
    nodes: list[DescribeQuorumResponse.Node] = ...  # v2+

    class TopicData(KafkaMessage):
        topic_name: str = ""
        partitions: list[DescribeQuorumResponse.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = ""  # v2+
        leader_id: int = 0
        leader_epoch: int = 0
        high_watermark: int = 0
        current_voters: list[DescribeQuorumResponse.ReplicaState] = ...
        observers: list[DescribeQuorumResponse.ReplicaState] = ...

    class ReplicaState(KafkaMessage):
        replica_id: int = 0
        replica_directory_id: bytes = ...  # v2+
        log_end_offset: int = 0
        last_fetch_timestamp: int = -1  # v1+
        last_caught_up_timestamp: int = -1  # v1+

    class Node(KafkaMessage):
        node_id: int = 0
        listeners: list[DescribeQuorumResponse.Listener] = ...

    class Listener(KafkaMessage):
        name: str = ""
        host: str = ""
        port: int = 0

class DescribeQuorumRequest(KafkaRequest[DescribeQuorumResponse]):
    """API 55, versions 0 to 2."""

    topics: list[DescribeQuorumRequest.TopicData] = ...

    class TopicData(KafkaMessage):
        topic_name: str = ""
        partitions: list[DescribeQuorumRequest.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0

class AlterPartitionResponse(KafkaMessage):
    """API 56, versions 2 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[AlterPartitionResponse.TopicData] = ...

    class TopicData(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[AlterPartitionResponse.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        leader_id: int = 0
        leader_epoch: int = 0
        isr: list[int] = ...
        leader_recovery_state: int = 0
        partition_epoch: int = 0

class AlterPartitionRequest(KafkaRequest[AlterPartitionResponse]):
    """API 56, versions 2 to 3."""

    broker_id: int = 0
    broker_epoch: int = -1
    topics: list[AlterPartitionRequest.TopicData] = ...

    class TopicData(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[AlterPartitionRequest.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0
        leader_epoch: int = 0
        new_isr: list[int] = ...  # v2-2
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ...  # v3+
        leader_recovery_state: int = 0
        partition_epoch: int = 0

    class BrokerState(KafkaMessage):
        broker_id: int = 0
        broker_epoch: int = -1

class UpdateFeaturesResponse(KafkaMessage):
    """API 57, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...  # v0-1

    class UpdatableFeatureResult(KafkaMessage):
        feature: str = ""
        error_code: int = 0
        error_message: str | None = ""

class UpdateFeaturesRequest(KafkaRequest[UpdateFeaturesResponse]):
    """API 57, versions 0 to 2."""

    timeout_ms: int = 60000
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ...
    validate_only: bool = False  # v1+

    class FeatureUpdateKey(KafkaMessage):
        feature: str = ""
        max_version_level: int = 0
        allow_downgrade: bool = False  # v0-0
        upgrade_type: int = 1  # v1+

class EnvelopeResponse(KafkaMessage):
    """API 58, versions 0 to 0."""

    response_data: Buffer | None = None
    error_code: int = 0

class EnvelopeRequest(KafkaRequest[EnvelopeResponse]):
    """API 58, versions 0 to 0."""

    request_data: Buffer = b""
    request_principal: Buffer | None = b""
    client_host_address: Buffer = b""

class DescribeClusterResponse(KafkaMessage):
    """API 60, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # v1+
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ...
    cluster_authorized_operations: int = -2147483648

    class DescribeClusterBroker(KafkaMessage):
        broker_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None
        is_fenced: bool = False  # v2+

class DescribeClusterRequest(KafkaRequest[DescribeClusterResponse]):
    """API 60, versions 0 to 2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # v1+
    include_fenced_brokers: bool = False  # v2+

class DescribeProducersResponse(KafkaMessage):
    """API 61, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeProducersResponse.TopicResponse] = ...

    class TopicResponse(KafkaMessage):
        name: str = ""
        partitions: list[DescribeProducersResponse.PartitionResponse] = ...

    class PartitionResponse(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = None
        active_producers: list[DescribeProducersResponse.ProducerState] = ...

    class ProducerState(KafkaMessage):
        producer_id: int = 0
        producer_epoch: int = 0
        last_sequence: int = -1
        last_timestamp: int = -1
        coordinator_epoch: int = 0
        current_txn_start_offset: int = -1

class DescribeProducersRequest(KafkaRequest[DescribeProducersResponse]):
    """API 61, versions 0 to 0."""

    topics: list[DescribeProducersRequest.TopicRequest] = ...

    class TopicRequest(KafkaMessage):
        name: str = ""
        partition_indexes: list[int] = ...

class UnregisterBrokerResponse(KafkaMessage):
    """API 64, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class UnregisterBrokerRequest(KafkaRequest[UnregisterBrokerResponse]):
    """API 64, versions 0 to 0."""

    broker_id: int = 0

class DescribeTransactionsResponse(KafkaMessage):
    """API 65, versions 0 to 0."""

    throttle_time_ms: int = 0
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...

    class TransactionState(KafkaMessage):
        error_code: int = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        transaction_start_time_ms: int = 0
        producer_id: int = 0
        producer_epoch: int = 0
        topics: list[DescribeTransactionsResponse.TopicData] = ...

    class TopicData(KafkaMessage):
        topic: str = ""
        partitions: list[int] = ...

class DescribeTransactionsRequest(KafkaRequest[DescribeTransactionsResponse]):
    """API 65, versions 0 to 0."""

    transactional_ids: list[str] = ...

class ListTransactionsResponse(KafkaMessage):
    """API 66, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = ...
    transaction_states: list[ListTransactionsResponse.TransactionState] = ...

    class TransactionState(KafkaMessage):
        transactional_id: str = ""
        producer_id: int = 0
        transaction_state: str = ""

class ListTransactionsRequest(KafkaRequest[ListTransactionsResponse]):
    """API 66, versions 0 to 2."""

    state_filters: list[str] = ...
    producer_id_filters: list[int] = ...
    duration_filter: int = -1  # v1+
    transactional_id_pattern: str | None = None  # v2+

class ConsumerGroupHeartbeatResponse(KafkaMessage):
    """API 68, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None

    class Assignment(KafkaMessage):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...

    class TopicPartitions(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ConsumerGroupHeartbeatRequest(KafkaRequest[ConsumerGroupHeartbeatResponse]):
    """API 68, versions 0 to 1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None  # v1+
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None

    class TopicPartitions(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ConsumerGroupDescribeResponse(KafkaMessage):
    """API 69, versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...

    class DescribedGroup(KafkaMessage):
        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[ConsumerGroupDescribeResponse.Member] = ...
        authorized_operations: int = -2147483648

    class Member(KafkaMessage):
        member_id: str = ""
        instance_id: str | None = None
        rack_id: str | None = None
        member_epoch: int = 0
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = ...
        subscribed_topic_regex: str | None = None
        assignment: ConsumerGroupDescribeResponse.Assignment = ...
        target_assignment: ConsumerGroupDescribeResponse.Assignment = ...
        member_type: int = -1  # v1+

    class Assignment(KafkaMessage):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...

    class TopicPartitions(KafkaMessage):
        topic_id: bytes = ...
        topic_name: str = ""
        partitions: list[int] = ...

class ConsumerGroupDescribeRequest(KafkaRequest[ConsumerGroupDescribeResponse]):
    """API 69, versions 0 to 1."""

    group_ids: list[str] = ...
    include_authorized_operations: bool = False

class ListConfigResourcesResponse(KafkaMessage):
    """API 74, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...

    class ConfigResource(KafkaMessage):
        resource_name: str = ""
        resource_type: int = 16  # v1+

class ListConfigResourcesRequest(KafkaRequest[ListConfigResourcesResponse]):
    """API 74, versions 0 to 1."""

    resource_types: list[int] = ...  # v1+

class DescribeTopicPartitionsResponse(KafkaMessage):
    """API 75, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ...
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None

    class DescribeTopicPartitionsResponseTopic(KafkaMessage):
        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...
        is_internal: bool = False
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ...
        topic_authorized_operations: int = -2147483648

    class DescribeTopicPartitionsResponsePartition(KafkaMessage):
        error_code: int = 0
        partition_index: int = 0
        leader_id: int = 0
        leader_epoch: int = -1
        replica_nodes: list[int] = ...
        isr_nodes: list[int] = ...
        eligible_leader_replicas: list[int] | None = ...
        last_known_elr: list[int] | None = ...
        offline_replicas: list[int] = ...

    class Cursor(KafkaMessage):
        topic_name: str = ""
        partition_index: int = 0

class DescribeTopicPartitionsRequest(KafkaRequest[DescribeTopicPartitionsResponse]):
    """API 75, versions 0 to 0."""

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ...
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None

    class TopicRequest(KafkaMessage):
        name: str = ""

    class Cursor(KafkaMessage):
        topic_name: str = ""
        partition_index: int = 0

class ShareGroupHeartbeatResponse(KafkaMessage):
    """API 76, versions 1 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatResponse.Assignment | None = None

    class Assignment(KafkaMessage):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...

    class TopicPartitions(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ShareGroupHeartbeatRequest(KafkaRequest[ShareGroupHeartbeatResponse]):
    """API 76, versions 1 to 1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None

class ShareFetchResponse(KafkaMessage):
    """API 78, versions 1 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ...
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...

    class ShareFetchableTopicResponse(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[ShareFetchResponse.PartitionData] = ...

    class PartitionData(KafkaMessage):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = None
        acknowledge_error_code: int = 0
        acknowledge_error_message: str | None = None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = ...
        records: Part = ...
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...

    class LeaderIdAndEpoch(KafkaMessage):
        leader_id: int = 0
        leader_epoch: int = 0

    class AcquiredRecords(KafkaMessage):
        first_offset: int = 0
        last_offset: int = 0
        delivery_count: int = 0

    class NodeEndpoint(KafkaMessage):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

class ShareFetchRequest(KafkaRequest[ShareFetchResponse]):
    """API 78, versions 1 to 2."""

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0  # v2+
    is_renew_ack: bool = False  # v2+
    topics: list[ShareFetchRequest.FetchTopic] = ...
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...

    class FetchTopic(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[ShareFetchRequest.FetchPartition] = ...

    class FetchPartition(KafkaMessage):
        partition_index: int = 0
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...

    class AcknowledgementBatch(KafkaMessage):
        first_offset: int = 0
        last_offset: int = 0
        acknowledge_types: list[int] = ...

    class ForgottenTopic(KafkaMessage):
        topic_id: bytes = ...
        partitions: list[int] = ...

class RangeChecksumResponse(KafkaMessage):
    """API 15000, versions 0 to 0."""

    error_code: int = 0
    error_message: str | None = None
    digest: Buffer = b""
    size_bytes: int = 0

class RangeChecksumRequest(KafkaRequest[RangeChecksumResponse]):
    """API 15000, versions 0 to 0."""

    topic_id: bytes = ...
    partition: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    end_offset: int = -1
    expected: Buffer | None = None

class ScrubReplicasResponse(KafkaMessage):
    """API 15001, versions 0 to 0."""

    error_code: int = 0
    error_message: str | None = None
    is_running: bool = False
    rounds: int = 0
    scrubbed_bytes: int = 0
    differences: int = 0
    repairs: int = 0

class ScrubReplicasRequest(KafkaRequest[ScrubReplicasResponse]):
    """API 15001, versions 0 to 0."""

    is_started: bool = False
    topic: str | None = None

class ManageSubscriptionResponse(KafkaMessage):
    """API 15002, versions 0 to 0."""

    error_code: int = 0
    error_message: str | None = None
    is_new: bool = False
    count: int = 0
    content: Buffer = b""

class ManageSubscriptionRequest(KafkaRequest[ManageSubscriptionResponse]):
    """API 15002, versions 0 to 0."""

    principal: str = ""
    client_host: str = ""
    client_id: str | None = None
    operation: int = 0
    name: str = ""
    topic: str = ""
    start_offset: int = 0
    hold_ms: int = -1
    deliveries_max: int = -1
    count: int = -1
