"""Kafka's messages as data: share groups. Never code."""

TEXT = """
api 76 ShareGroupHeartbeat 1-1 flexible 1+
request
  group_id               string
  member_id              string
  member_epoch           int32
  rack_id                string? =null
  subscribed_topic_names [string]? =null
response
  throttle_time_ms      int32
  error_code            int16
  error_message         string? =null
  member_id             string? =null
  member_epoch          int32
  heartbeat_interval_ms int32
  assignment            Assignment? =null
    topic_partitions [TopicPartitions]
      topic_id   uuid
      partitions [int32]

api 77 ShareGroupDescribe 1-1 flexible 1+
request
  group_ids                     [string]
  include_authorized_operations bool
response
  throttle_time_ms int32
  groups           [DescribedGroup]
    error_code            int16
    error_message         string? =null
    group_id              string
    group_state           string
    group_epoch           int32
    assignment_epoch      int32
    assignor_name         string
    members               [Member]
      member_id              string
      rack_id                string? =null
      member_epoch           int32
      client_id              string
      client_host            string
      subscribed_topic_names [string]
      assignment             Assignment
        topic_partitions [TopicPartitions]
          topic_id   uuid
          topic_name string
          partitions [int32]
    authorized_operations int32 =-2147483648

api 78 ShareFetch 1-2 flexible 1+
request
  group_id              string? =null
  member_id             string?
  share_session_epoch   int32
  max_wait_ms           int32
  min_bytes             int32
  max_bytes             int32 =2147483647
  max_records           int32
  batch_size            int32
  share_acquire_mode    int8 2+ ~
  is_renew_ack          bool 2+
  topics                [FetchTopic]
    topic_id   uuid
    partitions [FetchPartition]
      partition_index         int32
      acknowledgement_batches [AcknowledgementBatch]
        first_offset      int64
        last_offset       int64
        acknowledge_types [int8]
  forgotten_topics_data [ForgottenTopic]
    topic_id   uuid
    partitions [int32]
response
  throttle_time_ms            int32
  error_code                  int16
  error_message               string? =null
  acquisition_lock_timeout_ms int32
  responses                   [ShareFetchableTopicResponse]
    topic_id   uuid
    partitions [PartitionData]
      partition_index           int32
      error_code                int16
      error_message             string? =null
      acknowledge_error_code    int16
      acknowledge_error_message string? =null
      current_leader            LeaderIdAndEpoch
        leader_id    int32
        leader_epoch int32
      records                   records
      acquired_records          [AcquiredRecords]
        first_offset   int64
        last_offset    int64
        delivery_count int16
  node_endpoints              [NodeEndpoint]
    node_id int32
    host    string
    port    int32
    rack    string? =null

api 79 ShareAcknowledge 1-2 flexible 1+
request
  group_id            string? =null
  member_id           string?
  share_session_epoch int32
  is_renew_ack        bool 2+
  topics              [AcknowledgeTopic]
    topic_id   uuid
    partitions [AcknowledgePartition]
      partition_index         int32
      acknowledgement_batches [AcknowledgementBatch]
        first_offset      int64
        last_offset       int64
        acknowledge_types [int8]
response
  throttle_time_ms            int32
  error_code                  int16
  error_message               string? =null
  acquisition_lock_timeout_ms int32 2+ ~
  responses                   [ShareAcknowledgeTopicResponse]
    topic_id   uuid
    partitions [PartitionData]
      partition_index int32
      error_code      int16
      error_message   string? =null
      current_leader  LeaderIdAndEpoch
        leader_id    int32
        leader_epoch int32
  node_endpoints              [NodeEndpoint]
    node_id int32
    host    string
    port    int32
    rack    string? =null

api 90 DescribeShareGroupOffsets 0-1 flexible 0+
request
  groups [DescribeShareGroupOffsetsRequestGroup]
    group_id string
    topics   [DescribeShareGroupOffsetsRequestTopic]?
      topic_name string
      partitions [int32]
response
  throttle_time_ms int32
  groups           [DescribeShareGroupOffsetsResponseGroup]
    group_id      string
    topics        [DescribeShareGroupOffsetsResponseTopic]
      topic_name string
      topic_id   uuid
      partitions [DescribeShareGroupOffsetsResponsePartition]
        partition_index int32
        start_offset    int64
        leader_epoch    int32
        lag             int64 1+ =-1 ~
        error_code      int16
        error_message   string? =null
    error_code    int16
    error_message string? =null

api 91 AlterShareGroupOffsets 0-0 flexible 0+
request
  group_id string
  topics   [AlterShareGroupOffsetsRequestTopic]
    topic_name string
    partitions [AlterShareGroupOffsetsRequestPartition]
      partition_index int32
      start_offset    int64
response
  throttle_time_ms int32
  error_code       int16
  error_message    string? =null
  responses        [AlterShareGroupOffsetsResponseTopic]
    topic_name string
    topic_id   uuid
    partitions [AlterShareGroupOffsetsResponsePartition]
      partition_index int32
      error_code      int16
      error_message   string? =null

api 92 DeleteShareGroupOffsets 0-0 flexible 0+
request
  group_id string
  topics   [DeleteShareGroupOffsetsRequestTopic]
    topic_name string
response
  throttle_time_ms int32
  error_code       int16
  error_message    string? =null
  responses        [DeleteShareGroupOffsetsResponseTopic]
    topic_name    string
    topic_id      uuid
    error_code    int16
    error_message string? =null
"""
