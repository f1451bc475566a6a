"""Kafka's wire protocol as data: field tables compiled into encoders and decoders.

No I/O. The Kafka door decides which versions are advertised.
"""

from penstock.wire.kafka import messages
from penstock.wire.kafka.api import API, Api, ApiKey, api_key_of
from penstock.wire.kafka.classes import Buffer, KafkaMessage, KafkaRequest, Part, ResponseT, StoredRecords
from penstock.wire.kafka.codec import (
    UNSUPPORTED,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_request_sliced,
    decode_response,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_sliced,
)
from penstock.wire.kafka.error_codes import ErrorCode
from penstock.wire.kafka.error_table import CODES, error_from_code, error_name
from penstock.wire.kafka.fast import encode_produced

__all__ = [
    "API",
    "CODES",
    "UNSUPPORTED",
    "Api",
    "ApiKey",
    "Buffer",
    "ErrorCode",
    "KafkaMessage",
    "KafkaRequest",
    "Part",
    "RequestHeader",
    "ResponseT",
    "StoredRecords",
    "api_key_of",
    "decode_request",
    "decode_request_header",
    "decode_request_sliced",
    "decode_response",
    "encode_produced",
    "encode_request",
    "encode_request_parts",
    "encode_response",
    "encode_response_sliced",
    "error_from_code",
    "error_name",
    "messages",
]
