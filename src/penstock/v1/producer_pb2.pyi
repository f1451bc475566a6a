from penstock.v1 import message_pb2 as _message_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProduceRequest(_message.Message):
    __slots__ = ("topic", "messages", "ack_level", "request_id", "partitioner", "delivery", "key_serializer", "value_serializer")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ACK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITIONER_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_FIELD_NUMBER: _ClassVar[int]
    KEY_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    VALUE_SERIALIZER_FIELD_NUMBER: _ClassVar[int]
    topic: str
    messages: _containers.RepeatedCompositeFieldContainer[_message_pb2.Message]
    ack_level: _message_pb2.AckLevel
    request_id: str
    partitioner: _message_pb2.Partitioner
    delivery: _message_pb2.DeliveryMode
    key_serializer: _message_pb2.Serializer
    value_serializer: _message_pb2.Serializer
    def __init__(self, topic: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[_message_pb2.Message, _Mapping]]] = ..., ack_level: _Optional[_Union[_message_pb2.AckLevel, str]] = ..., request_id: _Optional[str] = ..., partitioner: _Optional[_Union[_message_pb2.Partitioner, str]] = ..., delivery: _Optional[_Union[_message_pb2.DeliveryMode, str]] = ..., key_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ..., value_serializer: _Optional[_Union[_message_pb2.Serializer, _Mapping]] = ...) -> None: ...

class ProduceResponse(_message.Message):
    __slots__ = ("request_id", "outcomes", "failed_count")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    FAILED_COUNT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    outcomes: _containers.RepeatedCompositeFieldContainer[Outcome]
    failed_count: int
    def __init__(self, request_id: _Optional[str] = ..., outcomes: _Optional[_Iterable[_Union[Outcome, _Mapping]]] = ..., failed_count: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("partition", "offset", "timestamp", "failure")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    timestamp: int
    failure: _message_pb2.Failure
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ..., timestamp: _Optional[int] = ..., failure: _Optional[_Union[_message_pb2.Failure, _Mapping]] = ...) -> None: ...
