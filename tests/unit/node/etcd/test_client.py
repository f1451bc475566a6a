"""The client against a real etcd: logins, TLS, leases, and servers that are not what they should be."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from etcd_cluster import HOST, EtcdCluster, running_etcd
from penstock.core.errors import InvalidConfig, MetadataUnavailable, TooLarge, TornSegment
from penstock.core.model import Address
from penstock.node.etcd.client import CompactedAway, EtcdClient
from penstock.node.etcd.failover import CallLimits
from penstock.node.etcd.target import EtcdTarget, TlsFiles
from penstock.wire.etcd.messages import Range, get, is_absent, put, value_is

LIMITS = CallLimits(20.0, 5.0)
SHORT = CallLimits(0.5, 0.3)


@pytest.fixture(scope="module")
def etcd() -> Iterator[EtcdCluster]:
    with running_etcd(1) as cluster:
        yield cluster


def test_transactions_compare_and_reads_may_look_back(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        client = EtcdClient(etcd.target("t"), LIMITS)
        first = (await client.txn([is_absent(b"t/a")], [put(b"t/a", b"1")], [get(b"t/a")])).txn
        assert first.is_taken
        second = (await client.txn([value_is(b"t/a", b"2")], [put(b"t/a", b"3")], [get(b"t/a")])).txn
        assert not second.is_taken
        assert second.ranges[0].kvs[0].value == b"1"
        await client.txn([], [put(b"t/a", b"4"), put(b"t/b", b"5")])
        then = await client.range(b"t/", b"t0", revision=first.revision)
        assert isinstance(then, Range)
        assert [(kv.key, kv.value) for kv in then.kvs] == [(b"t/a", b"1")]
        etcd.ctl("compaction", str(first.revision + 1))
        assert isinstance(await client.range(b"t/a", revision=first.revision), CompactedAway)
        client.close()

    asyncio.run(scene())


def test_a_lease_that_ended_is_reported_and_may_be_ended_again(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        client = EtcdClient(etcd.target("t"), LIMITS)
        lease = await client.grant(30)
        assert await client.keep_alive(lease.id, LIMITS) == lease.ttl_s == 30
        await client.revoke(lease.id)
        assert await client.keep_alive(lease.id, LIMITS) == 0
        await client.revoke(lease.id)
        client.close()

    asyncio.run(scene())


def test_a_request_that_is_too_large_says_what_to_do(etcd: EtcdCluster) -> None:
    async def scene() -> None:
        client = EtcdClient(etcd.target("t"), LIMITS)
        with pytest.raises(TooLarge, match="--max-request-bytes"):
            await client.txn([], [put(b"t/large", bytes(2 << 20))])
        client.close()

    asyncio.run(scene())


def test_endpoints_of_two_etcds_are_refused(etcd: EtcdCluster) -> None:
    async def scene(other: EtcdCluster) -> None:
        both = EtcdTarget((etcd.endpoints[0], other.endpoints[0]))
        client = EtcdClient(both, LIMITS)
        await client.read(get(b"x"))
        client.leave(both.endpoints[0])
        with pytest.raises(TornSegment, match="the endpoints name different clusters"):
            await client.read(get(b"x"))
        client.close()

    with running_etcd(1) as other:
        asyncio.run(scene(other))


def test_logins(etcd: EtcdCluster) -> None:
    async def scene(target: EtcdTarget, restart: Callable[[], None]) -> None:
        async def attempt(target: EtcdTarget) -> None:
            client = EtcdClient(target, LIMITS)
            try:
                await client.txn([], [put(b"mine/x", b"1")])
            finally:
                client.close()

        with pytest.raises(MetadataUnavailable, match="requires a login: use etcd://user:password@"):
            await attempt(replace(target, user="", password=""))
        with pytest.raises(
            MetadataUnavailable, match=r"refuses user 'broker': .* Check the password"
        ) as caught:
            await attempt(replace(target, password="wrong"))
        assert "wrong" not in str(caught.value)
        await attempt(target)
        client = EtcdClient(target, LIMITS)
        with pytest.raises(MetadataUnavailable, match=r"permission denied.* readwrite on the prefix mine/"):
            await client.txn([], [put(b"others/x", b"1")])
        await client.txn([], [put(b"mine/x", b"2")])
        restart()  # forgets the tokens that it gave
        await client.txn([], [put(b"mine/x", b"3")])
        stream = await client.watch(b"mine/", b"mine0", 1)
        message = await stream.next(30)
        assert message is not None and message.is_created
        client.close()

    with running_etcd(1) as own:
        own.ctl("user", "add", "root:rootpw")
        own.ctl("user", "grant-role", "root", "root")
        own.ctl("role", "add", "penstock")
        own.ctl("role", "grant-permission", "penstock", "--prefix=true", "readwrite", "mine/")
        own.ctl("user", "add", "broker:s3cret")
        own.ctl("user", "grant-role", "broker", "penstock")
        own.ctl("auth", "enable")
        own.login = "root:rootpw"

        def restart() -> None:
            own.kill()
            own.start()

        target = EtcdTarget(own.endpoints, "broker", "s3cret", "mine")
        asyncio.run(scene(target, restart))


def test_a_login_for_an_etcd_without_users_is_not_used(
    etcd: EtcdCluster, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        client = EtcdClient(replace(etcd.target("t"), user="me", password="x"), LIMITS)
        await client.read(get(b"x"))
        client.close()

    asyncio.run(scene())
    assert "has no authentication enabled" in caplog.text


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    """An authority, and a certificate of 127.0.0.1 that it signed."""
    place = tmp_path_factory.mktemp("tls")

    def openssl(words: str) -> None:
        subprocess.run(["openssl", *words.split()], cwd=place, check=True, capture_output=True)

    openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout ca-key.pem -out ca.pem")
    openssl("req -newkey rsa:2048 -nodes -subj /CN=etcd -keyout key.pem -out request.pem")
    (place / "more").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl(
        "x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile more -out cert.pem"
    )
    return TlsFiles(*(str(place / name) for name in ("ca.pem", "cert.pem", "key.pem")))


def test_tls_with_certificates_on_both_sides(certificates: TlsFiles, tmp_path: Path) -> None:
    async def attempt(target: EtcdTarget, limits: CallLimits = LIMITS) -> None:
        client = EtcdClient(target, limits)
        try:
            await client.read(get(b"x"))
        finally:
            client.close()

    with running_etcd(1, tls=certificates) as etcd:
        target = replace(etcd.target("t"), tls=certificates)
        asyncio.run(attempt(target))
        with pytest.raises(MetadataUnavailable, match="name its authority with ca=FILE"):
            asyncio.run(attempt(replace(target, tls=TlsFiles()), SHORT))
        with pytest.raises(MetadataUnavailable, match="if it expects TLS, use etcds://"):
            asyncio.run(attempt(replace(target, tls=None), SHORT))
        with pytest.raises(MetadataUnavailable):
            asyncio.run(attempt(replace(target, tls=TlsFiles(certificates.ca)), SHORT))


def test_tls_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("not a certificate")
    for files in (TlsFiles(str(tmp_path / "none.pem")), TlsFiles(str(bad)), TlsFiles("", str(bad), str(bad))):
        name = files.ca or files.cert
        with pytest.raises(InvalidConfig, match="cannot use the TLS file") as caught:
            EtcdClient(EtcdTarget((Address(HOST, 1),), tls=files))
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 10\r\n\r\nNot Found\n",
            "does not answer as etcd's HTTP gateway does .*'Not Found'.* etcd 3.4 or later",
        ),
        (
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 96\r\n\r\nCommonName of client sending a request against"
            b" gateway will be ignored and not used as expected\n",
            "has a common name .*use a certificate without one",
        ),
        (b"-ERR unknown command\r\n", "the response is not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "not a JSON object"),
        (b"", "closed the connection without an answer; if it expects TLS"),
    ],
)
def test_a_server_that_is_not_etcd_is_named(answer: bytes, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(serve, HOST, 0)
        address = Address(HOST, server.sockets[0].getsockname()[1])
        client = EtcdClient(EtcdTarget((address,)), SHORT)
        with pytest.raises(MetadataUnavailable, match=words):
            await client.read(get(b"x"))
        client.close()
        server.close()

    asyncio.run(scene())


def test_etcd_that_is_not_there() -> None:
    async def scene() -> None:
        client = EtcdClient(EtcdTarget((Address(HOST, 1), Address("no-such-host.invalid", 1))), SHORT)
        with pytest.raises(MetadataUnavailable, match=r"is unavailable.*Nothing was changed"):
            await client.txn([], [put(b"x", b"1")])

    asyncio.run(scene())
