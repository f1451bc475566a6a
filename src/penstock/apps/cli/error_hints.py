"""Names the limit or setting behind an error of the broker, where its message alone does not say what to do."""

from __future__ import annotations

HINTS = {
    "AUTHENTICATION": "the broker asks for a user, or does not accept this one",
    "CLUSTER_AUTHORIZATION_FAILED": "this user lacks the permission on the cluster",
    "GROUP_AUTHORIZATION_FAILED": "this user lacks the permission on the group",
    "GROUP_MAX_SIZE_REACHED": "the group has as many members as the setting group_size_max allows",
    "INVALID_REPLICATION_FACTOR": "a topic has at most one replica per running broker; see `penstock cluster brokers`",
    "INVALID_SESSION_TIMEOUT": (
        "the session timeout is outside of the settings group_session_ms_min and group_session_ms_max"
    ),
    "INVALID_TRANSACTION_TIMEOUT": "the timeout exceeds the setting transaction_ms_max",
    "NON_EMPTY_GROUP": "stop the members of the group first; see `penstock group describe`",
    "NOT_ENOUGH_REPLICAS": (
        "fewer replicas are in sync than the topic setting min.insync.replicas asks for; see `penstock cluster topics"
        " --under-min-isr`"
    ),
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": (
        "fewer replicas are in sync than the topic setting min.insync.replicas asks for; see `penstock cluster topics"
        " --under-min-isr`"
    ),
    "RECORD_LIST_TOO_LARGE": "the batch exceeds the topic setting segment.bytes",
    "TOPIC_AUTHORIZATION_FAILED": "this user lacks the permission on the topic",
    "UNSUPPORTED_COMPRESSION_TYPE": "the broker rejects this compression; see the topic setting compression.type",
}
"""By the broker's name of the error, as clients spell it."""


def with_hint(message: str, code: str) -> str:
    """The message, and the hint for this error code, if there is one and the message does not have it."""
    hint = HINTS.get(code.lstrip("_"))
    if hint is None:
        return message
    return f"{message.rstrip('.')}: {hint}."
