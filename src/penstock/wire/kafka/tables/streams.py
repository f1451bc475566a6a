"""Kafka's messages as data: produce, fetch, and where to find what. Never code."""

TEXT = """
api 0 Produce 3-13 flexible 9+
request
  transactional_id string? =null
  acks             int16
  timeout_ms       int32
  topic_data       [TopicProduceData]
    name           string 3-12 ~
    topic_id       uuid 13+ ~
    partition_data [PartitionProduceData]
      index   int32
      records records?
response
  responses        [TopicProduceResponse]
    name                string 3-12 ~
    topic_id            uuid 13+ ~
    partition_responses [PartitionProduceResponse]
      index              int32
      error_code         int16
      base_offset        int64
      log_append_time_ms int64 =-1 ~
      log_start_offset   int64 5+ =-1 ~
      record_errors      [BatchIndexAndErrorMessage] 8+ ~
        batch_index               int32
        batch_index_error_message string? =null
      error_message      string? 8+ =null ~
      current_leader     LeaderIdAndEpoch 10+ #0
        leader_id    int32 =-1
        leader_epoch int32 =-1
  throttle_time_ms int32 ~
  node_endpoints   [NodeEndpoint] 10+ #0
    node_id int32
    host    string
    port    int32
    rack    string? =null

api 1 Fetch 4-18 flexible 12+
request
  cluster_id            string? 12+ #0 =null ~
  replica_id            int32 4-14 =-1
  replica_state         ReplicaState 15+ #1
    replica_id    int32 =-1
    replica_epoch int64 =-1
  max_wait_ms           int32
  min_bytes             int32
  max_bytes             int32 =2147483647 ~
  isolation_level       int8 ~
  session_id            int32 7+ ~
  session_epoch         int32 7+ =-1 ~
  topics                [FetchTopic]
    topic      string 4-12 ~
    topic_id   uuid 13+ ~
    partitions [FetchPartition]
      partition            int32
      current_leader_epoch int32 9+ =-1 ~
      fetch_offset         int64
      last_fetched_epoch   int32 12+ =-1
      log_start_offset     int64 5+ =-1 ~
      partition_max_bytes  int32
      replica_directory_id uuid 17+ #0 ~
      high_watermark       int64 18+ #1 =9223372036854775807 ~
  forgotten_topics_data [ForgottenTopic] 7+
    topic      string 7-12 ~
    topic_id   uuid 13+ ~
    partitions [int32]
  rack_id               string 11+ ~
response
  throttle_time_ms int32 ~
  error_code       int16 7+ ~
  session_id       int32 7+
  responses        [FetchableTopicResponse]
    topic      string 4-12 ~
    topic_id   uuid 13+ ~
    partitions [PartitionData]
      partition_index        int32
      error_code             int16
      high_watermark         int64
      last_stable_offset     int64 =-1 ~
      log_start_offset       int64 5+ =-1 ~
      diverging_epoch        EpochEndOffset 12+ #0
        epoch      int32 =-1
        end_offset int64 =-1
      current_leader         LeaderIdAndEpoch 12+ #1
        leader_id    int32 =-1
        leader_epoch int32 =-1
      snapshot_id            SnapshotId 12+ #2
        end_offset int64 =-1
        epoch      int32 =-1
      aborted_transactions   [AbortedTransaction]? ~
        producer_id  int64
        first_offset int64
      preferred_read_replica int32 11+ =-1
      records                records?
  node_endpoints   [NodeEndpoint] 16+ #0
    node_id int32
    host    string
    port    int32
    rack    string? =null

api 2 ListOffsets 1-11 flexible 6+
request
  replica_id      int32
  isolation_level int8 2+
  topics          [ListOffsetsTopic]
    name       string
    partitions [ListOffsetsPartition]
      partition_index      int32
      current_leader_epoch int32 4+ =-1 ~
      timestamp            int64
  timeout_ms      int32 10+ ~
response
  throttle_time_ms int32 2+ ~
  topics           [ListOffsetsTopicResponse]
    name       string
    partitions [ListOffsetsPartitionResponse]
      partition_index int32
      error_code      int16
      timestamp       int64 =-1
      offset          int64 =-1
      leader_epoch    int32 4+ =-1

api 3 Metadata 0-13 flexible 9+
request
  topics                                [MetadataRequestTopic]?1
    topic_id uuid 10+ ~
    name     string?10
  allow_auto_topic_creation             bool 4+ =true
  include_cluster_authorized_operations bool 8-10
  include_topic_authorized_operations   bool 8+
response
  throttle_time_ms              int32 3+ ~
  brokers                       [MetadataResponseBroker]
    node_id int32
    host    string
    port    int32
    rack    string? 1+ =null ~
  cluster_id                    string? 2+ =null ~
  controller_id                 int32 1+ =-1 ~
  topics                        [MetadataResponseTopic]
    error_code                  int16
    name                        string?12
    topic_id                    uuid 10+ ~
    is_internal                 bool 1+ ~
    partitions                  [MetadataResponsePartition]
      error_code       int16
      partition_index  int32
      leader_id        int32
      leader_epoch     int32 7+ =-1 ~
      replica_nodes    [int32]
      isr_nodes        [int32]
      offline_replicas [int32] 5+ ~
    topic_authorized_operations int32 8+ =-2147483648
  cluster_authorized_operations int32 8-10 =-2147483648
  error_code                    int16 13+ ~

api 18 ApiVersions 0-4 flexible 3+
request
  client_software_name    string 3+ ~
  client_software_version string 3+ ~
response
  error_code               int16
  api_keys                 [ApiVersion]
    api_key     int16
    min_version int16
    max_version int16
  throttle_time_ms         int32 1+ ~
  supported_features       [SupportedFeatureKey] 3+ #0 ~
    name        string
    min_version int16
    max_version int16
  finalized_features_epoch int64 3+ #1 =-1 ~
  finalized_features       [FinalizedFeatureKey] 3+ #2 ~
    name              string
    max_version_level int16
    min_version_level int16
  zk_migration_ready       bool 3+ #3 ~

api 21 DeleteRecords 0-2 flexible 2+
request
  topics     [DeleteRecordsTopic]
    name       string
    partitions [DeleteRecordsPartition]
      partition_index int32
      offset          int64
  timeout_ms int32
response
  throttle_time_ms int32
  topics           [DeleteRecordsTopicResult]
    name       string
    partitions [DeleteRecordsPartitionResult]
      partition_index int32
      low_watermark   int64
      error_code      int16

api 23 OffsetForLeaderEpoch 2-4 flexible 4+
request
  replica_id int32 3+ =-2 ~
  topics     [OffsetForLeaderTopic]
    topic      string
    partitions [OffsetForLeaderPartition]
      partition            int32
      current_leader_epoch int32 =-1 ~
      leader_epoch         int32
response
  throttle_time_ms int32 ~
  topics           [OffsetForLeaderTopicResult]
    topic      string
    partitions [EpochEndOffset]
      error_code   int16
      partition    int32
      leader_epoch int32 =-1 ~
      end_offset   int64 =-1

api 60 DescribeCluster 0-2 flexible 0+
request
  include_cluster_authorized_operations bool
  endpoint_type                         int8 1+ =1
  include_fenced_brokers                bool 2+
response
  throttle_time_ms              int32
  error_code                    int16
  error_message                 string? =null
  endpoint_type                 int8 1+ =1
  cluster_id                    string
  controller_id                 int32 =-1
  brokers                       [DescribeClusterBroker]
    broker_id int32
    host      string
    port      int32
    rack      string? =null
    is_fenced bool 2+
  cluster_authorized_operations int32 =-2147483648

api 75 DescribeTopicPartitions 0-0 flexible 0+
request
  topics                   [TopicRequest]
    name string
  response_partition_limit int32 =2000
  cursor                   Cursor? =null
    topic_name      string
    partition_index int32
response
  throttle_time_ms int32 ~
  topics           [DescribeTopicPartitionsResponseTopic]
    error_code                  int16
    name                        string?
    topic_id                    uuid ~
    is_internal                 bool ~
    partitions                  [DescribeTopicPartitionsResponsePartition]
      error_code               int16
      partition_index          int32
      leader_id                int32
      leader_epoch             int32 =-1 ~
      replica_nodes            [int32]
      isr_nodes                [int32]
      eligible_leader_replicas [int32]?
      last_known_elr           [int32]?
      offline_replicas         [int32] ~
    topic_authorized_operations int32 =-2147483648
  next_cursor      Cursor? =null
    topic_name      string
    partition_index int32
"""
