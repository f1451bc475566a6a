from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AckLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ACK_LEVEL_UNSPECIFIED: _ClassVar[AckLevel]
    ACK_LEVEL_NONE: _ClassVar[AckLevel]
    ACK_LEVEL_LEADER: _ClassVar[AckLevel]
    ACK_LEVEL_ALL: _ClassVar[AckLevel]

class DeliveryMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DELIVERY_MODE_UNSPECIFIED: _ClassVar[DeliveryMode]
    DELIVERY_MODE_AT_MOST_ONCE: _ClassVar[DeliveryMode]
    DELIVERY_MODE_AT_LEAST_ONCE: _ClassVar[DeliveryMode]
    DELIVERY_MODE_EXACTLY_ONCE: _ClassVar[DeliveryMode]

class Partitioner(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARTITIONER_UNSPECIFIED: _ClassVar[Partitioner]
    PARTITIONER_KEY: _ClassVar[Partitioner]
    PARTITIONER_ROUND_ROBIN: _ClassVar[Partitioner]

class Format(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORMAT_UNSPECIFIED: _ClassVar[Format]
    FORMAT_BINARY: _ClassVar[Format]
    FORMAT_STRING: _ClassVar[Format]
    FORMAT_JSON: _ClassVar[Format]
    FORMAT_AVRO: _ClassVar[Format]
ACK_LEVEL_UNSPECIFIED: AckLevel
ACK_LEVEL_NONE: AckLevel
ACK_LEVEL_LEADER: AckLevel
ACK_LEVEL_ALL: AckLevel
DELIVERY_MODE_UNSPECIFIED: DeliveryMode
DELIVERY_MODE_AT_MOST_ONCE: DeliveryMode
DELIVERY_MODE_AT_LEAST_ONCE: DeliveryMode
DELIVERY_MODE_EXACTLY_ONCE: DeliveryMode
PARTITIONER_UNSPECIFIED: Partitioner
PARTITIONER_KEY: Partitioner
PARTITIONER_ROUND_ROBIN: Partitioner
FORMAT_UNSPECIFIED: Format
FORMAT_BINARY: Format
FORMAT_STRING: Format
FORMAT_JSON: Format
FORMAT_AVRO: Format

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: bytes
    def __init__(self, name: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("key", "value", "timestamp", "headers", "partition", "offset", "raw_headers", "redeliveries", "failure")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    RAW_HEADERS_FIELD_NUMBER: _ClassVar[int]
    REDELIVERIES_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    key: bytes
    value: bytes
    timestamp: int
    headers: _containers.ScalarMap[str, str]
    partition: int
    offset: int
    raw_headers: _containers.RepeatedCompositeFieldContainer[Header]
    redeliveries: int
    failure: Failure
    def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., timestamp: _Optional[int] = ..., headers: _Optional[_Mapping[str, str]] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., raw_headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., redeliveries: _Optional[int] = ..., failure: _Optional[_Union[Failure, _Mapping]] = ...) -> None: ...

class Serializer(_message.Message):
    __slots__ = ("format", "avro_schema")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    AVRO_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    format: Format
    avro_schema: str
    def __init__(self, format: _Optional[_Union[Format, str]] = ..., avro_schema: _Optional[str] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("code", "reason", "message", "retriable", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRIABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    retriable: bool
    retry_after_ms: int
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., retriable: _Optional[bool] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class TopicPartition(_message.Message):
    __slots__ = ("topic", "partition")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...
