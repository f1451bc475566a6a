"""The verbs of etcd that the metadata log needs, with failover between endpoints and a deadline for every call.

All calls are safe to repeat: transactions compare before they write. `Txn.is_taken` of a repeated transaction needs
care, because an earlier attempt whose response was lost may have succeeded. Errors:

    MetadataUnavailable   no attempt can have had an effect; also a login or a permission that etcd refuses
    TimedOut              some attempt may have had an effect
    DiskFull, TooLarge    etcd refused the write; the message contains the remedy
    TornSegment           etcd reports corruption, or is another one than before
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

from penstock.core.errors import DiskFull, MetadataUnavailable, TooLarge, TornSegment
from penstock.core.model import Address
from penstock.node.etcd.connection import Answer, EtcdConnection, tls_context
from penstock.node.etcd.failover import Attempt, CallLimits, Failover
from penstock.node.etcd.target import EtcdTarget
from penstock.node.etcd.watch_stream import WatchStream
from penstock.node.runtime.meters import EtcdMeter
from penstock.wire.etcd import messages
from penstock.wire.etcd.messages import Comparison, Failure, Operation, Range, Status, Txn

IDLE_CONNECTIONS_MAX = 4
"""Per endpoint: append, read, renewal and one to spare."""

_OK = 200
_REQUIRE_LEADER = ("Grpc-Metadata-hasleader", "true")
"""A member without a leader refuses at once instead of waiting for one, so the next endpoint gets its turn."""
_LOGIN_EXPIRED = ("etcdserver: invalid auth token", "etcdserver: revision of auth store is old")
_NO_USER = "etcdserver: user name is empty"
_COMMON_NAME = "CommonName of client sending a request against gateway"
"""etcd would take the name for the user, which its HTTP gateway cannot check: with a login it refuses such a client."""
_TOO_LARGE = ("request is too large", "message larger than max")
"""etcd's own limit, and that of its gRPC server a little above."""

logger = logging.getLogger("penstock.etcd")


class TxnReply(NamedTuple):
    """The outcome of a transaction."""

    txn: Txn
    is_repeated: bool
    """Whether an earlier attempt of this call may have succeeded: then `is_taken` may be false although it did."""


class Lease(NamedTuple):
    """A lease. etcd may grant more time than requested."""

    id: int
    ttl_s: int


class CompactedAway(NamedTuple):
    """The requested revision was compacted away."""


class EtcdClient:
    """Access to one etcd. Raises InvalidConfig if a TLS file cannot be used. `meters` are those of its endpoints."""

    def __init__(
        self,
        target: EtcdTarget,
        limits: CallLimits = CallLimits(),  # noqa: B008
        meters: dict[str, EtcdMeter] | None = None,
    ) -> None:
        self.target = target
        self._limits = limits
        self._tls = tls_context(target.tls)
        self._failover = Failover(target.endpoints, meters)
        self._idle: dict[Address, list[EtcdConnection]] = {address: [] for address in target.endpoints}
        self._streams: set[WatchStream] = set()
        self._token = ""
        self._needs_login = bool(target.user)
        self._etcd_id = 0

    def leave(self, address: Address) -> None:
        """Use the next endpoint from now on."""
        self._failover.leave(address)

    def close(self) -> None:
        """Close all idle connections and watches."""
        for idle in self._idle.values():
            while idle:
                idle.pop().close()
        for stream in list(self._streams):
            stream.close()

    # -- verbs

    async def txn(
        self, compare: Sequence[Comparison], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnReply:
        """Run `success` if all comparisons hold, else `failure`, atomically."""
        answer, is_repeated = await self._call("kv/txn", messages.txn_request(compare, success, failure))
        return TxnReply(messages.decode_txn(self._accepted(answer)), is_repeated)

    async def read(self, *operations: Operation) -> Txn:
        """Several reads at one revision. Like every read, it fails with MetadataUnavailable, never with TimedOut."""
        request = messages.txn_request([], operations, [])
        answer, _ = await self._call("kv/txn", request, is_read=True)
        return messages.decode_txn(self._accepted(answer))

    async def range(
        self,
        key: bytes,
        range_end: bytes = b"",
        *,
        limit: int = 0,
        revision: int = 0,
        is_keys_only: bool = False,
    ) -> Range | CompactedAway:
        """Read one key, or all keys in [key, range_end); at a past revision if one is given."""
        request = messages.range_request(
            key, range_end, limit=limit, revision=revision, is_keys_only=is_keys_only
        )
        answer, _ = await self._call("kv/range", request, is_read=True)
        if isinstance(answer, Failure) and answer.code == Status.OUT_OF_RANGE:
            return CompactedAway()
        return messages.decode_range(self._accepted(answer))

    async def unstarted_urls(self, limits: CallLimits) -> set[str]:
        """The peer URLs of members that were added to etcd and have not joined yet."""
        answer, _ = await self._call("cluster/member/list", {}, limits, is_read=True)
        return messages.decode_unstarted(self._accepted(answer))

    async def grant(self, ttl_s: int) -> Lease:
        answer, _ = await self._call("lease/grant", {"TTL": str(ttl_s)})
        message = self._accepted(answer)
        return Lease(messages.whole(message, "ID"), messages.whole(message, "TTL"))

    async def keep_alive(self, lease_id: int, limits: CallLimits) -> int:
        """Renew a lease; returns its seconds to live, 0 if it has ended."""
        answer, _ = await self._call("lease/keepalive", {"ID": str(lease_id)}, limits)
        return messages.whole(messages.object_in(self._accepted(answer), "result"), "TTL")

    async def revoke(self, lease_id: int, limits: CallLimits | None = None) -> None:
        """End a lease and remove its keys. Nothing happens if it has ended."""
        answer, _ = await self._call("lease/revoke", {"ID": str(lease_id)}, limits)
        if not isinstance(answer, Failure) or answer.code != Status.NOT_FOUND:
            self._accepted(answer)

    async def watch(
        self, key: bytes, range_end: bytes, start_revision: int, *, hides_removals: bool = False
    ) -> WatchStream:
        """Watch [key, range_end) from a revision on. The caller closes the stream."""
        request = messages.encode_body(
            messages.watch_request(key, range_end, start_revision, hides_removals=hides_removals)
        )

        async def start(attempt: Attempt) -> WatchStream | Failure:
            connection = await EtcdConnection.open(attempt.address, self._tls)
            stream = WatchStream(connection, self._streams.discard)
            self._streams.add(stream)
            is_open = False
            try:
                if refusal := await self._log_in(connection):
                    return refusal
                if await connection.start_stream("/v3/watch", self._headers(), request) != _OK:
                    return self._noted(messages.decode_failure(await connection.read_stream()))
                is_open = True
                return stream
            finally:
                if not is_open:
                    stream.close()

        answer, _ = await self._failover.run(start, self._limits)
        if isinstance(answer, Failure):
            self._refuse(answer)
        return answer

    # -- calls

    async def _call(
        self, verb: str, request: dict[str, Any], limits: CallLimits | None = None, *, is_read: bool = False
    ) -> tuple[dict[str, Any] | Failure, bool]:
        body = messages.encode_body(request)

        async def ask(attempt: Attempt) -> dict[str, Any] | Failure:
            connection = await self._connection(attempt.address)
            try:
                if refusal := await self._log_in(connection):
                    return refusal
                attempt.is_sent = not is_read
                answer = await connection.exchange(f"/v3/{verb}", self._headers(), body)
            finally:
                self._put_back(connection)
            return self._decoded(attempt.address, answer)

        answer, is_repeated = await self._failover.run(ask, limits or self._limits)
        if isinstance(answer, Failure) and answer.message in _LOGIN_EXPIRED:
            again, is_later_repeated = await self._failover.run(ask, limits or self._limits)
            return again, is_repeated or is_later_repeated
        return answer, is_repeated

    async def _connection(self, address: Address) -> EtcdConnection:
        idle = self._idle[address]
        while idle:
            connection = idle.pop()
            if connection.is_reusable:
                return connection
            connection.close()
        return await EtcdConnection.open(address, self._tls)

    def _put_back(self, connection: EtcdConnection) -> None:
        idle = self._idle[connection.address]
        if connection.is_reusable and len(idle) < IDLE_CONNECTIONS_MAX:
            idle.append(connection)
        else:
            connection.close()

    def _headers(self) -> list[tuple[str, str]]:
        return [_REQUIRE_LEADER, ("Authorization", self._token)] if self._token else [_REQUIRE_LEADER]

    async def _log_in(self, connection: EtcdConnection) -> Failure | None:
        """Get a token if the user has none, or an expired one. Returns the refusal, if any."""
        if not self._needs_login:
            return None
        self._token = ""
        request = {"name": self.target.user, "password": self.target.password}
        answer = await connection.exchange(
            "/v3/auth/authenticate", self._headers(), messages.encode_body(request)
        )
        if answer.status != _OK:
            failure = messages.decode_failure(answer.body)
            if failure.code != Status.FAILED_PRECONDITION:
                return failure
            logger.warning("etcd at %s has no authentication enabled: its user name is not used", self.target)
        else:
            self._token = str(messages.decode_body(answer.body).get("token", ""))
        self._needs_login = False
        return None

    def _decoded(self, address: Address, answer: Answer) -> dict[str, Any] | Failure:
        if answer.status != _OK:
            return self._noted(messages.decode_failure(answer.body))
        message = messages.decode_body(answer.body)
        if (
            "error" in message
        ):  # the gateway reports a failure after the head of a streamed response like this
            return self._noted(messages.decode_failure(answer.body))
        self._check_identity(address, messages.object_in(message, "result") or message)
        return message

    def _noted(self, failure: Failure) -> Failure:
        if failure.message in _LOGIN_EXPIRED:
            self._needs_login = bool(self.target.user)
        return failure

    def _check_identity(self, address: Address, message: dict[str, Any]) -> None:
        etcd_id = messages.whole(messages.object_in(message, "header"), "cluster_id")
        if self._etcd_id not in (0, etcd_id):
            raise TornSegment(
                f"{address} belongs to etcd cluster {etcd_id:x}, but {self._etcd_id:x} was used before: it was"
                " restored or replaced, or the endpoints name different clusters. Check the endpoints, then restart"
            )
        self._etcd_id = etcd_id

    # -- refusals

    def _accepted(self, answer: dict[str, Any] | Failure) -> dict[str, Any]:
        if isinstance(answer, Failure):
            self._refuse(answer)
        return answer

    def _refuse(self, failure: Failure) -> NoReturn:
        """Raise the error for a failure that repeating does not cure."""
        where = f"etcd at {self.target}"
        if any(words in failure.message for words in _TOO_LARGE):
            raise TooLarge(
                f"{where} refuses the request: {failure.message}; raise etcd's --max-request-bytes"
            )
        if failure.code == Status.RESOURCE_EXHAUSTED:
            raise DiskFull(
                f"{where} accepts no writes: {failure.message}. Compact and defragment it, or raise"
                " --quota-backend-bytes, then run `etcdctl alarm disarm`"
            )
        if failure.code == Status.DATA_LOSS:
            raise TornSegment(f"{where} reports damaged data: {failure.message}. Restore it from a snapshot")
        if failure.message.startswith(_COMMON_NAME):
            raise MetadataUnavailable(
                f"{where} refuses this broker's certificate because it has a common name (CN), and etcd has logins"
                " enabled: use a certificate without one"
            )
        if failure.code == Status.FOREIGN:
            raise MetadataUnavailable(
                f"{where} does not answer as etcd's HTTP gateway does ({failure.message!r}): check host and port; if it"
                " expects TLS, use etcds://; etcd 3.4 or later is required, with --enable-grpc-gateway"
            )
        if failure.message == _NO_USER:
            raise MetadataUnavailable(
                f"{where} requires a login: use etcd://user:password@host in the metadata URL"
            )
        if failure.code in (Status.PERMISSION_DENIED, Status.INVALID_ARGUMENT, Status.UNAUTHENTICATED):
            raise MetadataUnavailable(
                f"{where} refuses user {self.target.user!r}: {failure.message}. Check the password, and that a role of"
                f" the user grants readwrite on the prefix {self.target.prefix}/"
            )
        raise MetadataUnavailable(f"{where} refuses the request: {failure.message}")
