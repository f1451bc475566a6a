"""Kafka's APIs, and the versions that can be encoded. The Kafka door decides which ones are advertised."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum

from penstock.wire.kafka.notation import NEVER, Schema, read_schema
from penstock.wire.kafka.tables import TEXTS


class ApiKey(IntEnum):
    """All API keys of Kafka 4.3, including those without a table here; from 15,000 on, our own between brokers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    RANGE_CHECKSUM = 15_000
    SCRUB_REPLICAS = 15_001
    MANAGE_SUBSCRIPTION = 15_002


class Api:
    """One API: key, name, versions. Its schemas are parsed on first use."""

    __slots__ = (
        "_request",
        "_response",
        "_table",
        "flexible_from",
        "key",
        "name",
        "version_max",
        "version_min",
    )

    def __init__(
        self, key: ApiKey, name: str, version_min: int, version_max: int, flexible_from: int, table: str
    ) -> None:
        self.key = key
        self.name = name
        self.version_min = version_min
        self.version_max = version_max
        self.flexible_from = flexible_from
        self._table = table
        self._request: Schema | None = None
        self._response: Schema | None = None

    @property
    def request(self) -> Schema:
        """The request schema."""
        if self._request is None:
            self._request = self._read("request", f"{self.name}Request")
        return self._request

    @property
    def response(self) -> Schema:
        """The response schema."""
        if self._response is None:
            self._response = self._read("response", f"{self.name}Response")
        return self._response

    def speaks(self, version: int) -> bool:
        """Whether this version is supported."""
        return self.version_min <= version <= self.version_max

    def is_flexible(self, version: int) -> bool:
        """Whether this version uses compact lengths and tagged fields."""
        return version >= self.flexible_from

    def _read(self, side: str, name: str) -> Schema:
        request, response = self._table.split("\nresponse\n")
        lines = (request.removeprefix("request") if side == "request" else response).splitlines()
        return read_schema(name, lines, (self.version_min, self.version_max), self.flexible_from)

    def __repr__(self) -> str:
        return f"<Api {self.key} {self.name} {self.version_min}-{self.version_max}>"


def _read_apis(texts: Iterable[str]) -> Iterator[Api]:
    heading = re.compile(r"^api (\d+) (\w+) (\d+)-(\d+)(?: flexible (\d+)\+)?\n", re.MULTILINE)
    for text in texts:
        pieces = heading.split(text)[1:]
        for i in range(0, len(pieces), 6):
            key, name, low, high, flexible, table = pieces[i : i + 6]
            yield Api(ApiKey(int(key)), name, int(low), int(high), int(flexible or NEVER), table)


API: dict[int, Api] = {api.key: api for api in sorted(_read_apis(TEXTS), key=lambda api: api.key)}
"""All supported APIs by key, in order."""


_KEYS = {f"{api.name}Request": api.key for api in API.values()}


def api_key_of(request: type[object]) -> ApiKey:
    """The API of a request's class."""
    return _KEYS[request.__name__]
