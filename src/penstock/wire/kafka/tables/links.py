"""Calls between brokers that Kafka does not have: only links carry them. Never code."""

TEXT = """
api 15000 RangeChecksum 0-0 flexible 0+
request
  topic_id     uuid
  partition    int32
  leader_epoch int32
  start_offset int64
  end_offset   int64 =-1
  expected     bytes? =null
response
  error_code    int16
  error_message string? =null
  digest        bytes
  size_bytes    int64

api 15001 ScrubReplicas 0-0 flexible 0+
request
  is_started bool
  topic      string? =null
response
  error_code     int16
  error_message  string? =null
  is_running     bool
  rounds         int64
  scrubbed_bytes int64
  differences    int64
  repairs        int64

api 15002 ManageSubscription 0-0 flexible 0+
request
  principal      string
  client_host    string
  client_id      string? =null
  operation      int8
  name           string
  topic          string
  start_offset   int64
  hold_ms        int32 =-1
  deliveries_max int32 =-1
  count          int64 =-1
response
  error_code     int16
  error_message  string? =null
  is_new         bool
  count          int64
  content        bytes
"""
