from penstock.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResetPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESET_POLICY_UNSPECIFIED: _ClassVar[ResetPolicy]
    RESET_POLICY_EARLIEST: _ClassVar[ResetPolicy]
    RESET_POLICY_LATEST: _ClassVar[ResetPolicy]
    RESET_POLICY_OFFSET: _ClassVar[ResetPolicy]
    RESET_POLICY_NONE: _ClassVar[ResetPolicy]

class CommitMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMIT_MODE_UNSPECIFIED: _ClassVar[CommitMode]
    COMMIT_MODE_AUTO: _ClassVar[CommitMode]
    COMMIT_MODE_MANUAL: _ClassVar[CommitMode]
    COMMIT_MODE_ACK: _ClassVar[CommitMode]
RESET_POLICY_UNSPECIFIED: ResetPolicy
RESET_POLICY_EARLIEST: ResetPolicy
RESET_POLICY_LATEST: ResetPolicy
RESET_POLICY_OFFSET: ResetPolicy
RESET_POLICY_NONE: ResetPolicy
COMMIT_MODE_UNSPECIFIED: CommitMode
COMMIT_MODE_AUTO: CommitMode
COMMIT_MODE_MANUAL: CommitMode
COMMIT_MODE_ACK: CommitMode

class FetchRequest(_message.Message):
    __slots__ = ("topic", "partition", "offset", "max_bytes", "max_messages", "max_wait_ms", "reset", "key_serializer", "value_serializer", "request_id", "read_uncommitted")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    KEY_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    VALUE_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    READ_UNCOMMITTED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    max_bytes: int
    max_messages: int
    max_wait_ms: int
    reset: ResetPolicy
    key_serializer: _message_pb2.Serializer
    value_serializer: _message_pb2.Serializer
    request_id: str
    read_uncommitted: bool
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., max_bytes: _Optional[int] = ..., max_messages: _Optional[int] = ..., max_wait_ms: _Optional[int] = ..., reset: _Optional[_Union[ResetPolicy, str]] = ..., key_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ..., value_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ..., request_id: _Optional[str] = ..., read_uncommitted: _Optional[bool] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("messages", "next_offset", "high_watermark", "log_start_offset", "request_id")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    HIGH_WATERMARK_FIELD_NUMBER: _ClassVar[int]
    LOG_START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    next_offset: int
    high_watermark: int
    log_start_offset: int
    request_id: str
    def __init__(self, messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., next_offset: _Optional[int] = ..., high_watermark: _Optional[int] = ..., log_start_offset: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("start", "handled", "commit", "ack", "nack", "seek", "pause", "resume", "transact")
    START_FIELD_NUMBER: _ClassVar[int]
    HANDLED_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    SEEK_FIELD_NUMBER: _ClassVar[int]
    PAUSE_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    TRANSACT_FIELD_NUMBER: _ClassVar[int]
    start: Start
    handled: Handled
    commit: Commit
    ack: Ack
    nack: Nack
    seek: Seek
    pause: Pause
    resume: Resume
    transact: Transact
    def __init__(self, start: _Optional[_Union[Start, _Mapping]] = ..., handled: _Optional[_Union[Handled, _Mapping]] = ..., commit: _Optional[_Union[Commit, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., seek: _Optional[_Union[Seek, _Mapping]] = ..., pause: _Optional[_Union[Pause, _Mapping]] = ..., resume: _Optional[_Union[Resume, _Mapping]] = ..., transact: _Optional[_Union[Transact, _Mapping]] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("group", "topics", "delivery", "commit_mode", "auto_commit_interval_ms", "reset", "reset_offset", "session_timeout_ms", "max_batch_messages", "max_in_flight", "key_serializer", "value_serializer", "instance_id", "transactional_id", "request_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    COMMIT_MODE_FIELD_NUMBER: _ClassVar[int]
    AUTO_COMMIT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    RESET_OFFSET_FIELD_NUMBER: _ClassVar[int]
    SESSION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    KEY_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    VALUE_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONAL_ID_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    delivery: _message_pb2.DeliveryMode
    commit_mode: CommitMode
    auto_commit_interval_ms: int
    reset: ResetPolicy
    reset_offset: int
    session_timeout_ms: int
    max_batch_messages: int
    max_in_flight: int
    key_serializer: _message_pb2.Serializer
    value_serializer: _message_pb2.Serializer
    instance_id: str
    transactional_id: str
    request_id: str
    def __init__(self, group: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., delivery: _Optional[_Union[_message_pb2.DeliveryMode, str]] = ..., commit_mode: _Optional[_Union[CommitMode, str]] = ..., auto_commit_interval_ms: _Optional[int] = ..., reset: _Optional[_Union[ResetPolicy, str]] = ..., reset_offset: _Optional[int] = ..., session_timeout_ms: _Optional[int] = ..., max_batch_messages: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., key_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ..., value_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ..., instance_id: _Optional[str] = ..., transactional_id: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Handled(_message.Message):
    __slots__ = ("batch_id",)
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    def __init__(self, batch_id: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("offsets", "request_id")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[_message_pb2.Position]
    request_id: str
    def __init__(self, offsets: _Optional[_Iterable[_Union[_message_pb2.Position, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("topic", "partition", "offsets")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("topic", "partition", "offsets")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class Seek(_message.Message):
    __slots__ = ("position", "request_id")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    position: _message_pb2.Position
    request_id: str
    def __init__(self, position: _Optional[_Union[_message_pb2.Position, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class Pause(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_message_pb2.TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_message_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class Resume(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_message_pb2.TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_message_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class Transact(_message.Message):
    __slots__ = ("outputs", "offsets", "request_id")
    OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    outputs: _containers.RepeatedCompositeFieldContainer[TopicMessages]
    offsets: _containers.RepeatedCompositeFieldContainer[_message_pb2.Position]
    request_id: str
    def __init__(self, outputs: _Optional[_Iterable[_Union[TopicMessages, _Mapping]]] = ..., offsets: _Optional[_Iterable[_Union[_message_pb2.Position, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class TopicMessages(_message.Message):
    __slots__ = ("topic", "messages")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("assigned", "batch", "revoked", "committed", "sought", "failed")
    ASSIGNED_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    SOUGHT_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    assigned: Assigned
    batch: Batch
    revoked: Revoked
    committed: Committed
    sought: Sought
    failed: Failed
    def __init__(self, assigned: _Optional[_Union[Assigned, _Mapping]] = ..., batch: _Optional[_Union[Batch, _Mapping]] = ..., revoked: _Optional[_Union[Revoked, _Mapping]] = ..., committed: _Optional[_Union[Committed, _Mapping]] = ..., sought: _Optional[_Union[Sought, _Mapping]] = ..., failed: _Optional[_Union[Failed, _Mapping]] = ...) -> None: ...

class Assigned(_message.Message):
    __slots__ = ("partitions", "member_id")
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_ID_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_message_pb2.TopicPartition]
    member_id: str
    def __init__(self, partitions: _Optional[_Iterable[_Union[_message_pb2.TopicPartition, _Mapping]]] = ..., member_id: _Optional[str] = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("batch_id", "topic", "partition", "messages", "next_offset")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    batch_id: int
    topic: str
    partition: int
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    next_offset: int
    def __init__(self, batch_id: _Optional[int] = ..., topic: _Optional[str] = ..., partition: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., next_offset: _Optional[int] = ...) -> None: ...

class Revoked(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[_message_pb2.TopicPartition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[_message_pb2.TopicPartition, _Mapping]]] = ...) -> None: ...

class Committed(_message.Message):
    __slots__ = ("offsets", "request_id")
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[_message_pb2.Position]
    request_id: str
    def __init__(self, offsets: _Optional[_Iterable[_Union[_message_pb2.Position, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class Sought(_message.Message):
    __slots__ = ("position", "request_id")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    position: _message_pb2.Position
    request_id: str
    def __init__(self, position: _Optional[_Union[_message_pb2.Position, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class Failed(_message.Message):
    __slots__ = ("failure", "request_id")
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    failure: _message_pb2.Failure
    request_id: str
    def __init__(self, failure: _Optional[_Union[_message_pb2.Failure, _Mapping]] = ..., request_id: _Optional[str] = ...) -> None: ...

class GetOffsetsRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class GetOffsetsResponse(_message.Message):
    __slots__ = ("offsets",)
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    offsets: _containers.RepeatedCompositeFieldContainer[GroupOffset]
    def __init__(self, offsets: _Optional[_Iterable[_Union[GroupOffset, _Mapping]]] = ...) -> None: ...

class GroupOffset(_message.Message):
    __slots__ = ("topic", "partition", "committed", "end_offset", "lag")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    COMMITTED_FIELD_NUMBER: _ClassVar[int]
    END_OFFSET_FIELD_NUMBER: _ClassVar[int]
    LAG_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    committed: int
    end_offset: int
    lag: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., committed: _Optional[int] = ..., end_offset: _Optional[int] = ..., lag: _Optional[int] = ...) -> None: ...

class SetOffsetsRequest(_message.Message):
    __slots__ = ("group", "offsets")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    group: str
    offsets: _containers.RepeatedCompositeFieldContainer[_message_pb2.Position]
    def __init__(self, group: _Optional[str] = ..., offsets: _Optional[_Iterable[_Union[_message_pb2.Position, _Mapping]]] = ...) -> None: ...

class SetOffsetsResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[GroupSummary]
    def __init__(self, groups: _Optional[_Iterable[_Union[GroupSummary, _Mapping]]] = ...) -> None: ...

class GroupSummary(_message.Message):
    __slots__ = ("group", "kind", "state")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    group: str
    kind: str
    state: str
    def __init__(self, group: _Optional[str] = ..., kind: _Optional[str] = ..., state: _Optional[str] = ...) -> None: ...
