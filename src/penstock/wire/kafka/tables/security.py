"""Kafka's messages as data: authentication, access lists, quotas. Never code."""

TEXT = """
api 17 SaslHandshake 0-1
request
  mechanism string
response
  error_code int16
  mechanisms [string]

api 29 DescribeAcls 1-3 flexible 2+
request
  resource_type_filter int8
  resource_name_filter string?
  pattern_type_filter  int8 =3
  principal_filter     string?
  host_filter          string?
  operation            int8
  permission_type      int8
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?
  resources        [DescribeAclsResource]
    resource_type int8
    resource_name string
    pattern_type  int8 =3
    acls          [AclDescription]
      principal       string
      host            string
      operation       int8
      permission_type int8

api 30 CreateAcls 1-3 flexible 2+
request
  creations [AclCreation]
    resource_type         int8
    resource_name         string
    resource_pattern_type int8 =3
    principal             string
    host                  string
    operation             int8
    permission_type       int8
response
  throttle_time_ms int32
  results          [AclCreationResult]
    error_code    int16
    error_message string?

api 31 DeleteAcls 1-3 flexible 2+
request
  filters [DeleteAclsFilter]
    resource_type_filter int8
    resource_name_filter string?
    pattern_type_filter  int8 =3
    principal_filter     string?
    host_filter          string?
    operation            int8
    permission_type      int8
response
  throttle_time_ms int32
  filter_results   [DeleteAclsFilterResult]
    error_code    int16
    error_message string?
    matching_acls [DeleteAclsMatchingAcl]
      error_code      int16
      error_message   string?
      resource_type   int8
      resource_name   string
      pattern_type    int8 =3
      principal       string
      host            string
      operation       int8
      permission_type int8

api 36 SaslAuthenticate 0-2 flexible 2+
request
  auth_bytes bytes
response
  error_code          int16
  error_message       string?
  auth_bytes          bytes
  session_lifetime_ms int64 1+ ~

api 48 DescribeClientQuotas 0-1 flexible 1+
request
  components [ComponentData]
    entity_type string
    match_type  int8
    match       string?
  strict     bool
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?
  entries          [EntryData]?
    entity [EntityData]
      entity_type string
      entity_name string?
    values [ValueData]
      key   string
      value float64

api 49 AlterClientQuotas 0-1 flexible 1+
request
  entries       [EntryData]
    entity [EntityData]
      entity_type string
      entity_name string?
    ops    [OpData]
      key    string
      value  float64
      remove bool
  validate_only bool
response
  throttle_time_ms int32
  entries          [EntryData]
    error_code    int16
    error_message string?
    entity        [EntityData]
      entity_type string
      entity_name string?

api 50 DescribeUserScramCredentials 0-0 flexible 0+
request
  users [UserName]?
    name string
response
  throttle_time_ms int32
  error_code       int16
  error_message    string?
  results          [DescribeUserScramCredentialsResult]
    user             string
    error_code       int16
    error_message    string?
    credential_infos [CredentialInfo]
      mechanism  int8
      iterations int32

api 51 AlterUserScramCredentials 0-0 flexible 0+
request
  deletions  [ScramCredentialDeletion]
    name      string
    mechanism int8
  upsertions [ScramCredentialUpsertion]
    name            string
    mechanism       int8
    iterations      int32
    salt            bytes
    salted_password bytes
response
  throttle_time_ms int32
  results          [AlterUserScramCredentialsResult]
    user          string
    error_code    int16
    error_message string?
"""
