"""Kafka's messages as type checkers see them. Written by `make stubs` from the field tables: do not edit.

The comment after a field names the versions that have it, if some lack it. `None` is allowed where any version
allows it.
"""

from penstock.wire.kafka.classes import Buffer, Message, Part, Request

class ProduceRequest(Request[ProduceResponse]):
    """API 0, versions 3 to 13."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[ProduceRequest.TopicProduceData] = ...

    class TopicProduceData(Message):
        name: str = ""  # v3-12
        topic_id: bytes = ...  # v13+
        partition_data: list[ProduceRequest.PartitionProduceData] = ...

    class PartitionProduceData(Message):
        index: int = 0
        records: Buffer | None = b""

class ProduceResponse(Message):
    """API 0, versions 3 to 13."""

    responses: list[ProduceResponse.TopicProduceResponse] = ...
    throttle_time_ms: int = 0
    node_endpoints: list[ProduceResponse.NodeEndpoint] = ...  # v10+

    class TopicProduceResponse(Message):
        name: str = ""  # v3-12
        topic_id: bytes = ...  # v13+
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...

    class PartitionProduceResponse(Message):
        index: int = 0
        error_code: int = 0
        base_offset: int = 0
        log_append_time_ms: int = -1
        log_start_offset: int = -1  # v5+
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ...  # v8+
        error_message: str | None = None  # v8+
        current_leader: ProduceResponse.LeaderIdAndEpoch | None = None  # v10+

    class BatchIndexAndErrorMessage(Message):
        batch_index: int = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(Message):
        leader_id: int = -1
        leader_epoch: int = -1

    class NodeEndpoint(Message):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

class FetchRequest(Request[FetchResponse]):
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

    class ReplicaState(Message):
        replica_id: int = -1
        replica_epoch: int = -1

    class FetchTopic(Message):
        topic: str = ""  # v4-12
        topic_id: bytes = ...  # v13+
        partitions: list[FetchRequest.FetchPartition] = ...

    class FetchPartition(Message):
        partition: int = 0
        current_leader_epoch: int = -1  # v9+
        fetch_offset: int = 0
        last_fetched_epoch: int = -1  # v12+
        log_start_offset: int = -1  # v5+
        partition_max_bytes: int = 0
        replica_directory_id: bytes = ...  # v17+
        high_watermark: int = 9223372036854775807  # v18+

    class ForgottenTopic(Message):
        topic: str = ""  # v7-12
        topic_id: bytes = ...  # v13+
        partitions: list[int] = ...

class FetchResponse(Message):
    """API 1, versions 4 to 18."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v7+
    session_id: int = 0  # v7+
    responses: list[FetchResponse.FetchableTopicResponse] = ...
    node_endpoints: list[FetchResponse.NodeEndpoint] = ...  # v16+

    class FetchableTopicResponse(Message):
        topic: str = ""  # v4-12
        topic_id: bytes = ...  # v13+
        partitions: list[FetchResponse.PartitionData] = ...

    class PartitionData(Message):
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
        records: Part | None = b""

    class EpochEndOffset(Message):
        epoch: int = -1
        end_offset: int = -1

    class LeaderIdAndEpoch(Message):
        leader_id: int = -1
        leader_epoch: int = -1

    class SnapshotId(Message):
        end_offset: int = -1
        epoch: int = -1

    class AbortedTransaction(Message):
        producer_id: int = 0
        first_offset: int = 0

    class NodeEndpoint(Message):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None

class ListOffsetsRequest(Request[ListOffsetsResponse]):
    """API 2, versions 1 to 11."""

    replica_id: int = 0
    isolation_level: int = 0  # v2+
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = ...
    timeout_ms: int = 0  # v10+

    class ListOffsetsTopic(Message):
        name: str = ""
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...

    class ListOffsetsPartition(Message):
        partition_index: int = 0
        current_leader_epoch: int = -1  # v4+
        timestamp: int = 0

class ListOffsetsResponse(Message):
    """API 2, versions 1 to 11."""

    throttle_time_ms: int = 0  # v2+
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...

    class ListOffsetsTopicResponse(Message):
        name: str = ""
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...

    class ListOffsetsPartitionResponse(Message):
        partition_index: int = 0
        error_code: int = 0
        timestamp: int = -1
        offset: int = -1
        leader_epoch: int = -1  # v4+

class MetadataRequest(Request[MetadataResponse]):
    """API 3, versions 0 to 13."""

    topics: list[MetadataRequest.MetadataRequestTopic] | None = ...
    allow_auto_topic_creation: bool = True  # v4+
    include_cluster_authorized_operations: bool = False  # v8-10
    include_topic_authorized_operations: bool = False  # v8+

    class MetadataRequestTopic(Message):
        topic_id: bytes = ...  # v10+
        name: str | None = ""

class MetadataResponse(Message):
    """API 3, versions 0 to 13."""

    throttle_time_ms: int = 0  # v3+
    brokers: list[MetadataResponse.MetadataResponseBroker] = ...
    cluster_id: str | None = None  # v2+
    controller_id: int = -1  # v1+
    topics: list[MetadataResponse.MetadataResponseTopic] = ...
    cluster_authorized_operations: int = -2147483648  # v8-10
    error_code: int = 0  # v13+

    class MetadataResponseBroker(Message):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None  # v1+

    class MetadataResponseTopic(Message):
        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...  # v10+
        is_internal: bool = False  # v1+
        partitions: list[MetadataResponse.MetadataResponsePartition] = ...
        topic_authorized_operations: int = -2147483648  # v8+

    class MetadataResponsePartition(Message):
        error_code: int = 0
        partition_index: int = 0
        leader_id: int = 0
        leader_epoch: int = -1  # v7+
        replica_nodes: list[int] = ...
        isr_nodes: list[int] = ...
        offline_replicas: list[int] = ...  # v5+

class OffsetCommitRequest(Request[OffsetCommitResponse]):
    """API 8, versions 2 to 10."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # v7+
    retention_time_ms: int = -1  # v2-4
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...

    class OffsetCommitRequestTopic(Message):
        name: str = ""  # v2-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...

    class OffsetCommitRequestPartition(Message):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v6+
        committed_metadata: str | None = ""

class OffsetCommitResponse(Message):
    """API 8, versions 2 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...

    class OffsetCommitResponseTopic(Message):
        name: str = ""  # v2-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...

    class OffsetCommitResponsePartition(Message):
        partition_index: int = 0
        error_code: int = 0

class OffsetFetchRequest(Request[OffsetFetchResponse]):
    """API 9, versions 1 to 10."""

    group_id: str = ""  # v1-7
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ...  # v1-7
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ...  # v8+
    require_stable: bool = False  # v7+

    class OffsetFetchRequestTopic(Message):
        name: str = ""
        partition_indexes: list[int] = ...

    class OffsetFetchRequestGroup(Message):
        group_id: str = ""
        member_id: str | None = None  # v9+
        member_epoch: int = -1  # v9+
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...

    class OffsetFetchRequestTopics(Message):
        name: str = ""  # v8-9
        topic_id: bytes = ...  # v10+
        partition_indexes: list[int] = ...

class OffsetFetchResponse(Message):
    """API 9, versions 1 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ...  # v1-7
    error_code: int = 0  # v2-7
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...  # v8+

    class OffsetFetchResponseTopic(Message):
        name: str = ""
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...

    class OffsetFetchResponsePartition(Message):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v5-7
        metadata: str | None = ""
        error_code: int = 0

    class OffsetFetchResponseGroup(Message):
        group_id: str = ""
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ...
        error_code: int = 0

    class OffsetFetchResponseTopics(Message):
        name: str = ""  # v8-9
        topic_id: bytes = ...  # v10+
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...

    class OffsetFetchResponsePartitions(Message):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1
        metadata: str | None = ""
        error_code: int = 0

class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    """API 10, versions 0 to 6."""

    key: str = ""  # v0-3
    key_type: int = 0  # v1+
    coordinator_keys: list[str] = ...  # v4+

class FindCoordinatorResponse(Message):
    """API 10, versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0  # v0-3
    error_message: str | None = ""  # v1-3
    node_id: int = 0  # v0-3
    host: str = ""  # v0-3
    port: int = 0  # v0-3
    coordinators: list[FindCoordinatorResponse.Coordinator] = ...  # v4+

    class Coordinator(Message):
        key: str = ""
        node_id: int = 0
        host: str = ""
        port: int = 0
        error_code: int = 0
        error_message: str | None = ""

class JoinGroupRequest(Request[JoinGroupResponse]):
    """API 11, versions 0 to 9."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # v1+
    member_id: str = ""
    group_instance_id: str | None = None  # v5+
    protocol_type: str = ""
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ...
    reason: str | None = None  # v8+

    class JoinGroupRequestProtocol(Message):
        name: str = ""
        metadata: Buffer = b""

class JoinGroupResponse(Message):
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

    class JoinGroupResponseMember(Message):
        member_id: str = ""
        group_instance_id: str | None = None  # v5+
        metadata: Buffer = b""

class HeartbeatRequest(Request[HeartbeatResponse]):
    """API 12, versions 0 to 4."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+

class HeartbeatResponse(Message):
    """API 12, versions 0 to 4."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0

class LeaveGroupRequest(Request[LeaveGroupResponse]):
    """API 13, versions 0 to 5."""

    group_id: str = ""
    member_id: str = ""  # v0-2
    members: list[LeaveGroupRequest.MemberIdentity] = ...  # v3+

    class MemberIdentity(Message):
        member_id: str = ""
        group_instance_id: str | None = None
        reason: str | None = None  # v5+

class LeaveGroupResponse(Message):
    """API 13, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    members: list[LeaveGroupResponse.MemberResponse] = ...  # v3+

    class MemberResponse(Message):
        member_id: str = ""
        group_instance_id: str | None = ""
        error_code: int = 0

class SyncGroupRequest(Request[SyncGroupResponse]):
    """API 14, versions 0 to 5."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...

    class SyncGroupRequestAssignment(Message):
        member_id: str = ""
        assignment: Buffer = b""

class SyncGroupResponse(Message):
    """API 14, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignment: Buffer = b""

class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    """API 15, versions 0 to 6."""

    groups: list[str] = ...
    include_authorized_operations: bool = False  # v3+

class DescribeGroupsResponse(Message):
    """API 15, versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    groups: list[DescribeGroupsResponse.DescribedGroup] = ...

    class DescribedGroup(Message):
        error_code: int = 0
        error_message: str | None = None  # v6+
        group_id: str = ""
        group_state: str = ""
        protocol_type: str = ""
        protocol_data: str = ""
        members: list[DescribeGroupsResponse.DescribedGroupMember] = ...
        authorized_operations: int = -2147483648  # v3+

    class DescribedGroupMember(Message):
        member_id: str = ""
        group_instance_id: str | None = None  # v4+
        client_id: str = ""
        client_host: str = ""
        member_metadata: Buffer = b""
        member_assignment: Buffer = b""

class ListGroupsRequest(Request[ListGroupsResponse]):
    """API 16, versions 0 to 5."""

    states_filter: list[str] = ...  # v4+
    types_filter: list[str] = ...  # v5+

class ListGroupsResponse(Message):
    """API 16, versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    groups: list[ListGroupsResponse.ListedGroup] = ...

    class ListedGroup(Message):
        group_id: str = ""
        protocol_type: str = ""
        group_state: str = ""  # v4+
        group_type: str = ""  # v5+

class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    """API 17, versions 0 to 1."""

    mechanism: str = ""

class SaslHandshakeResponse(Message):
    """API 17, versions 0 to 1."""

    error_code: int = 0
    mechanisms: list[str] = ...

class ApiVersionsRequest(Request[ApiVersionsResponse]):
    """API 18, versions 0 to 4."""

    client_software_name: str = ""  # v3+
    client_software_version: str = ""  # v3+

class ApiVersionsResponse(Message):
    """API 18, versions 0 to 4."""

    error_code: int = 0
    api_keys: list[ApiVersionsResponse.ApiVersion] = ...
    throttle_time_ms: int = 0  # v1+
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ...  # v3+
    finalized_features_epoch: int = -1  # v3+
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ...  # v3+
    zk_migration_ready: bool = False  # v3+

    class ApiVersion(Message):
        api_key: int = 0
        min_version: int = 0
        max_version: int = 0

    class SupportedFeatureKey(Message):
        name: str = ""
        min_version: int = 0
        max_version: int = 0

    class FinalizedFeatureKey(Message):
        name: str = ""
        max_version_level: int = 0
        min_version_level: int = 0

class CreateTopicsRequest(Request[CreateTopicsResponse]):
    """API 19, versions 2 to 7."""

    topics: list[CreateTopicsRequest.CreatableTopic] = ...
    timeout_ms: int = 60000
    validate_only: bool = False

    class CreatableTopic(Message):
        name: str = ""
        num_partitions: int = 0
        replication_factor: int = 0
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ...
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...

    class CreatableReplicaAssignment(Message):
        partition_index: int = 0
        broker_ids: list[int] = ...

    class CreatableTopicConfig(Message):
        name: str = ""
        value: str | None = ""

class CreateTopicsResponse(Message):
    """API 19, versions 2 to 7."""

    throttle_time_ms: int = 0
    topics: list[CreateTopicsResponse.CreatableTopicResult] = ...

    class CreatableTopicResult(Message):
        name: str = ""
        topic_id: bytes = ...  # v7+
        error_code: int = 0
        error_message: str | None = ""
        topic_config_error_code: int = 0  # v5+
        num_partitions: int = -1  # v5+
        replication_factor: int = -1  # v5+
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...  # v5+

    class CreatableTopicConfigs(Message):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: int = -1
        is_sensitive: bool = False

class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    """API 20, versions 1 to 6."""

    topics: list[DeleteTopicsRequest.DeleteTopicState] = ...  # v6+
    topic_names: list[str] = ...  # v1-5
    timeout_ms: int = 0

    class DeleteTopicState(Message):
        name: str | None = None
        topic_id: bytes = ...

class DeleteTopicsResponse(Message):
    """API 20, versions 1 to 6."""

    throttle_time_ms: int = 0
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...

    class DeletableTopicResult(Message):
        name: str | None = ""
        topic_id: bytes = ...  # v6+
        error_code: int = 0
        error_message: str | None = None  # v5+

class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    """API 21, versions 0 to 2."""

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ...
    timeout_ms: int = 0

    class DeleteRecordsTopic(Message):
        name: str = ""
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...

    class DeleteRecordsPartition(Message):
        partition_index: int = 0
        offset: int = 0

class DeleteRecordsResponse(Message):
    """API 21, versions 0 to 2."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...

    class DeleteRecordsTopicResult(Message):
        name: str = ""
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...

    class DeleteRecordsPartitionResult(Message):
        partition_index: int = 0
        low_watermark: int = 0
        error_code: int = 0

class InitProducerIdRequest(Request[InitProducerIdResponse]):
    """API 22, versions 0 to 5."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # v3+
    producer_epoch: int = -1  # v3+

class InitProducerIdResponse(Message):
    """API 22, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0

class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    """API 23, versions 2 to 4."""

    replica_id: int = -2  # v3+
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...

    class OffsetForLeaderTopic(Message):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...

    class OffsetForLeaderPartition(Message):
        partition: int = 0
        current_leader_epoch: int = -1
        leader_epoch: int = 0

class OffsetForLeaderEpochResponse(Message):
    """API 23, versions 2 to 4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...

    class OffsetForLeaderTopicResult(Message):
        topic: str = ""
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...

    class EpochEndOffset(Message):
        error_code: int = 0
        partition: int = 0
        leader_epoch: int = -1
        end_offset: int = -1

class AddPartitionsToTxnRequest(Request[AddPartitionsToTxnResponse]):
    """API 24, versions 0 to 5."""

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ...  # v4+
    v3_and_below_transactional_id: str = ""  # v0-3
    v3_and_below_producer_id: int = 0  # v0-3
    v3_and_below_producer_epoch: int = 0  # v0-3
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...  # v0-3

    class AddPartitionsToTxnTransaction(Message):
        transactional_id: str = ""
        producer_id: int = 0
        producer_epoch: int = 0
        verify_only: bool = False
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...

    class AddPartitionsToTxnTopic(Message):
        name: str = ""
        partitions: list[int] = ...

class AddPartitionsToTxnResponse(Message):
    """API 24, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v4+
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ...  # v4+
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...

    class AddPartitionsToTxnResult(Message):
        transactional_id: str = ""
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...

    class AddPartitionsToTxnTopicResult(Message):
        name: str = ""
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...

    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int = 0
        partition_error_code: int = 0

class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    """API 25, versions 0 to 4."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""

class AddOffsetsToTxnResponse(Message):
    """API 25, versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0

class EndTxnRequest(Request[EndTxnResponse]):
    """API 26, versions 0 to 5."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False

class EndTxnResponse(Message):
    """API 26, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1  # v5+
    producer_epoch: int = -1  # v5+

class WriteTxnMarkersRequest(Request[WriteTxnMarkersResponse]):
    """API 27, versions 1 to 2."""

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...

    class WritableTxnMarker(Message):
        producer_id: int = 0
        producer_epoch: int = 0
        transaction_result: bool = False
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ...
        coordinator_epoch: int = 0
        transaction_version: int = 0  # v2+

    class WritableTxnMarkerTopic(Message):
        name: str = ""
        partition_indexes: list[int] = ...

class WriteTxnMarkersResponse(Message):
    """API 27, versions 1 to 2."""

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...

    class WritableTxnMarkerResult(Message):
        producer_id: int = 0
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...

    class WritableTxnMarkerTopicResult(Message):
        name: str = ""
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...

    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int = 0
        error_code: int = 0

class TxnOffsetCommitRequest(Request[TxnOffsetCommitResponse]):
    """API 28, versions 0 to 5."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1  # v3+
    member_id: str = ""  # v3+
    group_instance_id: str | None = None  # v3+
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...

    class TxnOffsetCommitRequestTopic(Message):
        name: str = ""
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...

    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int = 0
        committed_offset: int = 0
        committed_leader_epoch: int = -1  # v2+
        committed_metadata: str | None = ""

class TxnOffsetCommitResponse(Message):
    """API 28, versions 0 to 5."""

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...

    class TxnOffsetCommitResponseTopic(Message):
        name: str = ""
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...

    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int = 0
        error_code: int = 0

class DescribeAclsRequest(Request[DescribeAclsResponse]):
    """API 29, versions 1 to 3."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0

class DescribeAclsResponse(Message):
    """API 29, versions 1 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResponse.DescribeAclsResource] = ...

    class DescribeAclsResource(Message):
        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        acls: list[DescribeAclsResponse.AclDescription] = ...

    class AclDescription(Message):
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class CreateAclsRequest(Request[CreateAclsResponse]):
    """API 30, versions 1 to 3."""

    creations: list[CreateAclsRequest.AclCreation] = ...

    class AclCreation(Message):
        resource_type: int = 0
        resource_name: str = ""
        resource_pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class CreateAclsResponse(Message):
    """API 30, versions 1 to 3."""

    throttle_time_ms: int = 0
    results: list[CreateAclsResponse.AclCreationResult] = ...

    class AclCreationResult(Message):
        error_code: int = 0
        error_message: str | None = ""

class DeleteAclsRequest(Request[DeleteAclsResponse]):
    """API 31, versions 1 to 3."""

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...

    class DeleteAclsFilter(Message):
        resource_type_filter: int = 0
        resource_name_filter: str | None = ""
        pattern_type_filter: int = 3
        principal_filter: str | None = ""
        host_filter: str | None = ""
        operation: int = 0
        permission_type: int = 0

class DeleteAclsResponse(Message):
    """API 31, versions 1 to 3."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...

    class DeleteAclsFilterResult(Message):
        error_code: int = 0
        error_message: str | None = ""
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...

    class DeleteAclsMatchingAcl(Message):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        pattern_type: int = 3
        principal: str = ""
        host: str = ""
        operation: int = 0
        permission_type: int = 0

class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    """API 32, versions 1 to 4."""

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ...
    include_synonyms: bool = False
    include_documentation: bool = False  # v3+

    class DescribeConfigsResource(Message):
        resource_type: int = 0
        resource_name: str = ""
        configuration_keys: list[str] | None = ...

class DescribeConfigsResponse(Message):
    """API 32, versions 1 to 4."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...

    class DescribeConfigsResult(Message):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...

    class DescribeConfigsResourceResult(Message):
        name: str = ""
        value: str | None = ""
        read_only: bool = False
        config_source: int = -1
        is_sensitive: bool = False
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ...
        config_type: int = 0  # v3+
        documentation: str | None = ""  # v3+

    class DescribeConfigsSynonym(Message):
        name: str = ""
        value: str | None = ""
        source: int = 0

class AlterConfigsRequest(Request[AlterConfigsResponse]):
    """API 33, versions 0 to 2."""

    resources: list[AlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False

    class AlterConfigsResource(Message):
        resource_type: int = 0
        resource_name: str = ""
        configs: list[AlterConfigsRequest.AlterableConfig] = ...

    class AlterableConfig(Message):
        name: str = ""
        value: str | None = ""

class AlterConfigsResponse(Message):
    """API 33, versions 0 to 2."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...

    class AlterConfigsResourceResponse(Message):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    """API 35, versions 1 to 5."""

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...

    class DescribableLogDirTopic(Message):
        topic: str = ""
        partitions: list[int] = ...

class DescribeLogDirsResponse(Message):
    """API 35, versions 1 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v3+
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...

    class DescribeLogDirsResult(Message):
        error_code: int = 0
        log_dir: str = ""
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ...
        total_bytes: int = -1  # v4+
        usable_bytes: int = -1  # v4+
        is_cordoned: bool = False  # v5+

    class DescribeLogDirsTopic(Message):
        name: str = ""
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...

    class DescribeLogDirsPartition(Message):
        partition_index: int = 0
        partition_size: int = 0
        offset_lag: int = 0
        is_future_key: bool = False

class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    """API 36, versions 0 to 2."""

    auth_bytes: Buffer = b""

class SaslAuthenticateResponse(Message):
    """API 36, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: Buffer = b""
    session_lifetime_ms: int = 0  # v1+

class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    """API 37, versions 0 to 3."""

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ...
    timeout_ms: int = 0
    validate_only: bool = False

    class CreatePartitionsTopic(Message):
        name: str = ""
        count: int = 0
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...

    class CreatePartitionsAssignment(Message):
        broker_ids: list[int] = ...

class CreatePartitionsResponse(Message):
    """API 37, versions 0 to 3."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...

    class CreatePartitionsTopicResult(Message):
        name: str = ""
        error_code: int = 0
        error_message: str | None = None

class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    """API 42, versions 0 to 2."""

    groups_names: list[str] = ...

class DeleteGroupsResponse(Message):
    """API 42, versions 0 to 2."""

    throttle_time_ms: int = 0
    results: list[DeleteGroupsResponse.DeletableGroupResult] = ...

    class DeletableGroupResult(Message):
        group_id: str = ""
        error_code: int = 0

class ElectLeadersRequest(Request[ElectLeadersResponse]):
    """API 43, versions 0 to 2."""

    election_type: int = 0  # v1+
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ...
    timeout_ms: int = 60000

    class TopicPartitions(Message):
        topic: str = ""
        partitions: list[int] = ...

class ElectLeadersResponse(Message):
    """API 43, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v1+
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...

    class ReplicaElectionResult(Message):
        topic: str = ""
        partition_result: list[ElectLeadersResponse.PartitionResult] = ...

    class PartitionResult(Message):
        partition_id: int = 0
        error_code: int = 0
        error_message: str | None = ""

class IncrementalAlterConfigsRequest(Request[IncrementalAlterConfigsResponse]):
    """API 44, versions 0 to 1."""

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ...
    validate_only: bool = False

    class AlterConfigsResource(Message):
        resource_type: int = 0
        resource_name: str = ""
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...

    class AlterableConfig(Message):
        name: str = ""
        config_operation: int = 0
        value: str | None = ""

class IncrementalAlterConfigsResponse(Message):
    """API 44, versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...

    class AlterConfigsResourceResponse(Message):
        error_code: int = 0
        error_message: str | None = ""
        resource_type: int = 0
        resource_name: str = ""

class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    """API 45, versions 0 to 1."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True  # v1+
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...

    class ReassignableTopic(Message):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...

    class ReassignablePartition(Message):
        partition_index: int = 0
        replicas: list[int] | None = None

class AlterPartitionReassignmentsResponse(Message):
    """API 45, versions 0 to 1."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True  # v1+
    error_code: int = 0
    error_message: str | None = ""
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...

    class ReassignableTopicResponse(Message):
        name: str = ""
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...

    class ReassignablePartitionResponse(Message):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = ""

class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    """API 46, versions 0 to 0."""

    timeout_ms: int = 60000
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = None

    class ListPartitionReassignmentsTopics(Message):
        name: str = ""
        partition_indexes: list[int] = ...

class ListPartitionReassignmentsResponse(Message):
    """API 46, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...

    class OngoingTopicReassignment(Message):
        name: str = ""
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...

    class OngoingPartitionReassignment(Message):
        partition_index: int = 0
        replicas: list[int] = ...
        adding_replicas: list[int] = ...
        removing_replicas: list[int] = ...

class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    """API 47, versions 0 to 0."""

    group_id: str = ""
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...

    class OffsetDeleteRequestTopic(Message):
        name: str = ""
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...

    class OffsetDeleteRequestPartition(Message):
        partition_index: int = 0

class OffsetDeleteResponse(Message):
    """API 47, versions 0 to 0."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...

    class OffsetDeleteResponseTopic(Message):
        name: str = ""
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...

    class OffsetDeleteResponsePartition(Message):
        partition_index: int = 0
        error_code: int = 0

class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    """API 48, versions 0 to 1."""

    components: list[DescribeClientQuotasRequest.ComponentData] = ...
    strict: bool = False

    class ComponentData(Message):
        entity_type: str = ""
        match_type: int = 0
        match: str | None = ""

class DescribeClientQuotasResponse(Message):
    """API 48, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[DescribeClientQuotasResponse.EntryData] | None = ...

    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData] = ...
        values: list[DescribeClientQuotasResponse.ValueData] = ...

    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""

    class ValueData(Message):
        key: str = ""
        value: float = 0.0

class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    """API 49, versions 0 to 1."""

    entries: list[AlterClientQuotasRequest.EntryData] = ...
    validate_only: bool = False

    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData] = ...
        ops: list[AlterClientQuotasRequest.OpData] = ...

    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""

    class OpData(Message):
        key: str = ""
        value: float = 0.0
        remove: bool = False

class AlterClientQuotasResponse(Message):
    """API 49, versions 0 to 1."""

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponse.EntryData] = ...

    class EntryData(Message):
        error_code: int = 0
        error_message: str | None = ""
        entity: list[AlterClientQuotasResponse.EntityData] = ...

    class EntityData(Message):
        entity_type: str = ""
        entity_name: str | None = ""

class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """API 50, versions 0 to 0."""

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...

    class UserName(Message):
        name: str = ""

class DescribeUserScramCredentialsResponse(Message):
    """API 50, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...

    class DescribeUserScramCredentialsResult(Message):
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...

    class CredentialInfo(Message):
        mechanism: int = 0
        iterations: int = 0

class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """API 51, versions 0 to 0."""

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ...
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...

    class ScramCredentialDeletion(Message):
        name: str = ""
        mechanism: int = 0

    class ScramCredentialUpsertion(Message):
        name: str = ""
        mechanism: int = 0
        iterations: int = 0
        salt: Buffer = b""
        salted_password: Buffer = b""

class AlterUserScramCredentialsResponse(Message):
    """API 51, versions 0 to 0."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...

    class AlterUserScramCredentialsResult(Message):
        user: str = ""
        error_code: int = 0
        error_message: str | None = ""

class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    """API 55, versions 0 to 2."""

    topics: list[DescribeQuorumRequest.TopicData] = ...

    class TopicData(Message):
        topic_name: str = ""
        partitions: list[DescribeQuorumRequest.PartitionData] = ...

    class PartitionData(Message):
        partition_index: int = 0

class DescribeQuorumResponse(Message):
    """API 55, versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""  # v2+
    topics: list[DescribeQuorumResponse.TopicData] = ...
    nodes: list[DescribeQuorumResponse.Node] = ...  # v2+

    class TopicData(Message):
        topic_name: str = ""
        partitions: list[DescribeQuorumResponse.PartitionData] = ...

    class PartitionData(Message):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = ""  # v2+
        leader_id: int = 0
        leader_epoch: int = 0
        high_watermark: int = 0
        current_voters: list[DescribeQuorumResponse.ReplicaState] = ...
        observers: list[DescribeQuorumResponse.ReplicaState] = ...

    class ReplicaState(Message):
        replica_id: int = 0
        replica_directory_id: bytes = ...  # v2+
        log_end_offset: int = 0
        last_fetch_timestamp: int = -1  # v1+
        last_caught_up_timestamp: int = -1  # v1+

    class Node(Message):
        node_id: int = 0
        listeners: list[DescribeQuorumResponse.Listener] = ...

    class Listener(Message):
        name: str = ""
        host: str = ""
        port: int = 0

class UpdateFeaturesRequest(Request[UpdateFeaturesResponse]):
    """API 57, versions 0 to 2."""

    timeout_ms: int = 60000
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ...
    validate_only: bool = False  # v1+

    class FeatureUpdateKey(Message):
        feature: str = ""
        max_version_level: int = 0
        allow_downgrade: bool = False  # v0-0
        upgrade_type: int = 1  # v1+

class UpdateFeaturesResponse(Message):
    """API 57, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...  # v0-1

    class UpdatableFeatureResult(Message):
        feature: str = ""
        error_code: int = 0
        error_message: str | None = ""

class DescribeClusterRequest(Request[DescribeClusterResponse]):
    """API 60, versions 0 to 2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # v1+
    include_fenced_brokers: bool = False  # v2+

class DescribeClusterResponse(Message):
    """API 60, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # v1+
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ...
    cluster_authorized_operations: int = -2147483648

    class DescribeClusterBroker(Message):
        broker_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None
        is_fenced: bool = False  # v2+

class DescribeProducersRequest(Request[DescribeProducersResponse]):
    """API 61, versions 0 to 0."""

    topics: list[DescribeProducersRequest.TopicRequest] = ...

    class TopicRequest(Message):
        name: str = ""
        partition_indexes: list[int] = ...

class DescribeProducersResponse(Message):
    """API 61, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeProducersResponse.TopicResponse] = ...

    class TopicResponse(Message):
        name: str = ""
        partitions: list[DescribeProducersResponse.PartitionResponse] = ...

    class PartitionResponse(Message):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = None
        active_producers: list[DescribeProducersResponse.ProducerState] = ...

    class ProducerState(Message):
        producer_id: int = 0
        producer_epoch: int = 0
        last_sequence: int = -1
        last_timestamp: int = -1
        coordinator_epoch: int = 0
        current_txn_start_offset: int = -1

class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    """API 64, versions 0 to 0."""

    broker_id: int = 0

class UnregisterBrokerResponse(Message):
    """API 64, versions 0 to 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""

class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    """API 65, versions 0 to 0."""

    transactional_ids: list[str] = ...

class DescribeTransactionsResponse(Message):
    """API 65, versions 0 to 0."""

    throttle_time_ms: int = 0
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...

    class TransactionState(Message):
        error_code: int = 0
        transactional_id: str = ""
        transaction_state: str = ""
        transaction_timeout_ms: int = 0
        transaction_start_time_ms: int = 0
        producer_id: int = 0
        producer_epoch: int = 0
        topics: list[DescribeTransactionsResponse.TopicData] = ...

    class TopicData(Message):
        topic: str = ""
        partitions: list[int] = ...

class ListTransactionsRequest(Request[ListTransactionsResponse]):
    """API 66, versions 0 to 2."""

    state_filters: list[str] = ...
    producer_id_filters: list[int] = ...
    duration_filter: int = -1  # v1+
    transactional_id_pattern: str | None = None  # v2+

class ListTransactionsResponse(Message):
    """API 66, versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = ...
    transaction_states: list[ListTransactionsResponse.TransactionState] = ...

    class TransactionState(Message):
        transactional_id: str = ""
        producer_id: int = 0
        transaction_state: str = ""

class ConsumerGroupHeartbeatRequest(Request[ConsumerGroupHeartbeatResponse]):
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

    class TopicPartitions(Message):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ConsumerGroupHeartbeatResponse(Message):
    """API 68, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = None

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...

    class TopicPartitions(Message):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ConsumerGroupDescribeRequest(Request[ConsumerGroupDescribeResponse]):
    """API 69, versions 0 to 1."""

    group_ids: list[str] = ...
    include_authorized_operations: bool = False

class ConsumerGroupDescribeResponse(Message):
    """API 69, versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...

    class DescribedGroup(Message):
        error_code: int = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: int = 0
        assignment_epoch: int = 0
        assignor_name: str = ""
        members: list[ConsumerGroupDescribeResponse.Member] = ...
        authorized_operations: int = -2147483648

    class Member(Message):
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

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...

    class TopicPartitions(Message):
        topic_id: bytes = ...
        topic_name: str = ""
        partitions: list[int] = ...

class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    """API 74, versions 0 to 1."""

    resource_types: list[int] = ...  # v1+

class ListConfigResourcesResponse(Message):
    """API 74, versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...

    class ConfigResource(Message):
        resource_name: str = ""
        resource_type: int = 16  # v1+

class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    """API 75, versions 0 to 0."""

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ...
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequest.Cursor | None = None

    class TopicRequest(Message):
        name: str = ""

    class Cursor(Message):
        topic_name: str = ""
        partition_index: int = 0

class DescribeTopicPartitionsResponse(Message):
    """API 75, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ...
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = None

    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int = 0
        name: str | None = ""
        topic_id: bytes = ...
        is_internal: bool = False
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ...
        topic_authorized_operations: int = -2147483648

    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int = 0
        partition_index: int = 0
        leader_id: int = 0
        leader_epoch: int = -1
        replica_nodes: list[int] = ...
        isr_nodes: list[int] = ...
        eligible_leader_replicas: list[int] | None = ...
        last_known_elr: list[int] | None = ...
        offline_replicas: list[int] = ...

    class Cursor(Message):
        topic_name: str = ""
        partition_index: int = 0

class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    """API 76, versions 1 to 1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None

class ShareGroupHeartbeatResponse(Message):
    """API 76, versions 1 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatResponse.Assignment | None = None

    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...

    class TopicPartitions(Message):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ShareFetchRequest(Request[ShareFetchResponse]):
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

    class FetchTopic(Message):
        topic_id: bytes = ...
        partitions: list[ShareFetchRequest.FetchPartition] = ...

    class FetchPartition(Message):
        partition_index: int = 0
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...

    class AcknowledgementBatch(Message):
        first_offset: int = 0
        last_offset: int = 0
        acknowledge_types: list[int] = ...

    class ForgottenTopic(Message):
        topic_id: bytes = ...
        partitions: list[int] = ...

class ShareFetchResponse(Message):
    """API 78, versions 1 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ...
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...

    class ShareFetchableTopicResponse(Message):
        topic_id: bytes = ...
        partitions: list[ShareFetchResponse.PartitionData] = ...

    class PartitionData(Message):
        partition_index: int = 0
        error_code: int = 0
        error_message: str | None = None
        acknowledge_error_code: int = 0
        acknowledge_error_message: str | None = None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = ...
        records: Part = b""
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...

    class LeaderIdAndEpoch(Message):
        leader_id: int = 0
        leader_epoch: int = 0

    class AcquiredRecords(Message):
        first_offset: int = 0
        last_offset: int = 0
        delivery_count: int = 0

    class NodeEndpoint(Message):
        node_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None
