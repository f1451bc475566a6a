"""What a broker says it can do, by its answer to ApiVersions. Never concludes from what a client library tried."""

from __future__ import annotations

from kafka.protocol.metadata import ApiVersionsRequest

from compat.raw import RawConnection

PRODUCE_AND_FETCH = {0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 22: "InitProducerId"}
GROUPS = {
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
}
TRANSACTIONS = {24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit"}
NEEDED = {
    "plain": PRODUCE_AND_FETCH,
    "queue": PRODUCE_AND_FETCH,
    "groups": PRODUCE_AND_FETCH | GROUPS,
    "txn": PRODUCE_AND_FETCH | GROUPS | TRANSACTIONS,
}


def missing_calls(bootstrap: str, mode: str) -> list[str]:
    """The calls that a mode needs and the broker does not name."""
    with RawConnection(bootstrap, "checker") as connection:
        answer = connection.call(ApiVersionsRequest, 0)
    offered = {api.api_key for api in answer.api_keys}
    return [name for key, name in sorted(NEEDED[mode].items()) if key not in offered]
