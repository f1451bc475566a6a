"""Kafka's messages as data: topics, configs, the cluster. Never code."""

TEXT = """
api 19 CreateTopics 2-7 flexible 5+
request
  topics        [CreatableTopic]
    name               string
    num_partitions     int32
    replication_factor int16
    assignments        [CreatableReplicaAssignment]
      partition_index int32
      broker_ids      [int32]
    configs            [CreatableTopicConfig]
      name  string
      value string?
  timeout_ms    int32 =60000
  validate_only bool
response
  throttle_time_ms int32 ~
  topics           [CreatableTopicResult]
    name                    string
    topic_id                uuid 7+ ~
    error_code              int16
    error_message           string? ~
    topic_config_error_code int16 5+ #0 ~
    num_partitions          int32 5+ =-1 ~
    replication_factor      int16 5+ =-1 ~
    configs                 [CreatableTopicConfigs]? 5+ ~
      name          string
      value         string?
      read_only     bool
      config_source int8 =-1 ~
      is_sensitive  bool

api 20 DeleteTopics 1-6 flexible 4+
request
  topics      [DeleteTopicState] 6+
    name     string? =null
    topic_id uuid
  topic_names [string] 1-5 ~
  timeout_ms  int32
response
  throttle_time_ms int32 ~
  responses        [DeletableTopicResult]
    name          string?6
    topic_id      uuid 6+ ~
    error_code    int16
    error_message string? 5+ =null ~

api 32 DescribeConfigs 1-4 flexible 4+
request
  resources             [DescribeConfigsResource]
    resource_type      int8
    resource_name      string
    configuration_keys [string]?
  include_synonyms      bool
  include_documentation bool 3+
response
  throttle_time_ms int32
  results          [DescribeConfigsResult]
    error_code    int16
    error_message string?
    resource_type int8
    resource_name string
    configs       [DescribeConfigsResourceResult]
      name          string
      value         string?
      read_only     bool
      config_source int8 =-1 ~
      is_sensitive  bool
      synonyms      [DescribeConfigsSynonym] ~
        name   string
        value  string?
        source int8
      config_type   int8 3+ ~
      documentation string? 3+ ~

api 33 AlterConfigs 0-2 flexible 2+
request
  resources     [AlterConfigsResource]
    resource_type int8
    resource_name string
    configs       [AlterableConfig]
      name  string
      value string?
  validate_only bool
response
  throttle_time_ms int32
  responses        [AlterConfigsResourceResponse]
    error_code    int16
    error_message string?
    resource_type int8
    resource_name string

api 35 DescribeLogDirs 1-5 flexible 2+
request
  topics [DescribableLogDirTopic]?
    topic      string
    partitions [int32]
response
  throttle_time_ms int32
  error_code       int16 3+ ~
  results          [DescribeLogDirsResult]
    error_code   int16
    log_dir      string
    topics       [DescribeLogDirsTopic]
      name       string
      partitions [DescribeLogDirsPartition]
        partition_index int32
        partition_size  int64
        offset_lag      int64
        is_future_key   bool
    total_bytes  int64 4+ =-1 ~
    usable_bytes int64 4+ =-1 ~
    is_cordoned  bool 5+ ~

api 37 CreatePartitions 0-3 flexible 2+
request
  topics        [CreatePartitionsTopic]
    name        string
    count       int32
    assignments [CreatePartitionsAssignment]?
      broker_ids [int32]
  timeout_ms    int32
  validate_only bool
response
  throttle_time_ms int32
  results          [CreatePartitionsTopicResult]
    name          string
    error_code    int16
    error_message string? =null

api 43 ElectLeaders 0-2 flexible 2+
request
  election_type    int8 1+
  topic_partitions [TopicPartitions]?
    topic      string
    partitions [int32]
  timeout_ms       int32 =60000
response
  throttle_time_ms         int32
  error_code               int16 1+
  replica_election_results [ReplicaElectionResult]
    topic            string
    partition_result [PartitionResult]
      partition_id  int32
      error_code    int16
      error_message string?

api 44 IncrementalAlterConfigs 0-1 flexible 1+
request
  resources     [AlterConfigsResource]
    resource_type int8
    resource_name string
    configs       [AlterableConfig]
      name             string
      config_operation int8
      value            string?
  validate_only bool
response
  throttle_time_ms int32
  responses        [AlterConfigsResourceResponse]
    error_code    int16
    error_message string?
    resource_type int8
    resource_name string

api 45 AlterPartitionReassignments 0-1 flexible 0+
request
  timeout_ms                      int32 =60000
  allow_replication_factor_change bool 1+ =true
  topics                          [ReassignableTopic]
    name       string
    partitions [ReassignablePartition]
      partition_index int32
      replicas        [int32]? =null
response
  throttle_time_ms                int32
  allow_replication_factor_change bool 1+ =true ~
  error_code                      int16
  error_message                   string?
  responses                       [ReassignableTopicResponse]
    name       string
    partitions [ReassignablePartitionResponse]
      partition_index int32
      error_code      int16
      error_message   string?

api 46 ListPartitionReassignments 0-0 flexible 0+
request
  timeout_ms int32 =60000
  topics     [ListPartitionReassignmentsTopics]? =null
    name              string
    partition_indexes [int32]
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?
  topics           [OngoingTopicReassignment]
    name       string
    partitions [OngoingPartitionReassignment]
      partition_index   int32
      replicas          [int32]
      adding_replicas   [int32]
      removing_replicas [int32]

api 55 DescribeQuorum 0-2 flexible 0+
request
  topics [TopicData]
    topic_name string
    partitions [PartitionData]
      partition_index int32
response
  error_code    int16
  error_message string? 2+ ~
  topics        [TopicData]
    topic_name string
    partitions [PartitionData]
      partition_index int32
      error_code      int16
      error_message   string? 2+ ~
      leader_id       int32
      leader_epoch    int32
      high_watermark  int64
      current_voters  [ReplicaState]
        replica_id               int32
        replica_directory_id     uuid 2+
        log_end_offset           int64
        last_fetch_timestamp     int64 1+ =-1 ~
        last_caught_up_timestamp int64 1+ =-1 ~
      observers       [ReplicaState]
  nodes         [Node] 2+
    node_id   int32
    listeners [Listener]
      name string
      host string
      port uint16

api 56 AlterPartition 2-3 flexible 0+
request
  broker_id    int32
  broker_epoch int64 =-1
  topics       [TopicData]
    topic_id   uuid
    partitions [PartitionData]
      partition_index       int32
      leader_epoch          int32
      new_isr               [int32] 2
      new_isr_with_epochs   [BrokerState] 3+
        broker_id    int32
        broker_epoch int64 =-1
      leader_recovery_state int8
      partition_epoch       int32
response
  throttle_time_ms int32
  error_code       int16
  topics           [TopicData]
    topic_id   uuid ~
    partitions [PartitionData]
      partition_index       int32
      error_code            int16
      leader_id             int32
      leader_epoch          int32
      isr                   [int32]
      leader_recovery_state int8 ~
      partition_epoch       int32

api 57 UpdateFeatures 0-2 flexible 0+
request
  timeout_ms      int32 =60000
  feature_updates [FeatureUpdateKey]
    feature           string
    max_version_level int16
    allow_downgrade   bool 0
    upgrade_type      int8 1+ =1
  validate_only   bool 1+
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?
  results          [UpdatableFeatureResult] 0-1 ~
    feature       string
    error_code    int16
    error_message string?

api 58 Envelope 0-0 flexible 0+
request
  request_data        bytes
  request_principal   bytes?
  client_host_address bytes
response
  response_data bytes? =null
  error_code    int16

api 64 UnregisterBroker 0-0 flexible 0+
request
  broker_id int32
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?

api 74 ListConfigResources 0-1 flexible 0+
request
  resource_types [int8] 1+
response
  throttle_time_ms int32
  error_code       int16
  config_resources [ConfigResource]
    resource_name string
    resource_type int8 1+ =16 ~
"""
