"""Translates librdkafka errors to ClientErrors: the single table."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException

from penstock.client.errors import (
    Aborted,
    AlreadyThere,
    AuthenticationFailed,
    BadArgument,
    ClientError,
    Fenced,
    IllegalState,
    NotFound,
    OffsetOutOfRange,
    Refused,
    TimedOut,
    TlsFailed,
    Unreachable,
)

_KINDS: dict[type[ClientError], tuple[int, ...]] = {
    Unreachable: (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE),
    TlsFailed: (KafkaError._SSL,),
    AuthenticationFailed: (
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    ),
    TimedOut: (
        KafkaError._TIMED_OUT,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
    ),
    NotFound: (
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_GROUP,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.GROUP_ID_NOT_FOUND,
    ),
    AlreadyThere: (KafkaError.TOPIC_ALREADY_EXISTS,),
    OffsetOutOfRange: (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET),
    Fenced: (
        KafkaError._FENCED,
        KafkaError._FATAL,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
    ),
    Aborted: (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError.TRANSACTION_ABORTABLE),
    BadArgument: (KafkaError._INVALID_ARG,),
    IllegalState: (KafkaError._STATE, KafkaError._DESTROY, KafkaError._PREV_IN_PROGRESS),
}

KIND_OF = {code: kind for kind, codes in _KINDS.items() for code in codes}
"""Exception class of each librdkafka code. Other codes become Refused, retriable as librdkafka reports."""


_MESSAGES = {
    KafkaError._UNKNOWN_TOPIC: "there is no such topic",
    KafkaError._UNKNOWN_PARTITION: "there is no such partition",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "there is no such topic or partition",
    KafkaError.GROUP_ID_NOT_FOUND: "there is no such group",
}
"""Messages for codes whose librdkafka text is less clear."""


_REMEDIES: dict[type[ClientError], str] = {
    TlsFailed: ". Check tls_ca, tls_cert and tls_verify, and that the port expects TLS",
    AuthenticationFailed: ". Check sasl_mechanism, username and password, or the token",
}


def translate(error: KafkaError, about: str) -> ClientError:
    """The ClientError of a librdkafka error; `about` names the object concerned."""
    kind = KIND_OF.get(error.code(), Refused)
    if error.txn_requires_abort():
        kind = Aborted
    retriable = error.retriable() or None if kind is Refused else None
    message = _MESSAGES.get(error.code(), error.str()) + _REMEDIES.get(kind, "")
    return kind(f"{about}: {message} ({error.name()})", retriable=retriable, code=error.name())


def cause(raised: KafkaException) -> KafkaError:
    """The KafkaError inside a KafkaException."""
    error = raised.args[0]
    assert isinstance(error, KafkaError)
    return error
