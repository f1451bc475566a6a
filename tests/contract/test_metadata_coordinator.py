"""The metadata log of a coordinator process: the contract, and what only several processes can do to each other."""

from __future__ import annotations

import asyncio
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contract.coordinator_ground import ROOT, CoordinatorGround, CoordinatorProcess, runtime
from contract.metadata_contract import Ground, MetadataContract, fill, opened, seen_until, topic
from penstock.core.errors import (
    ClusterForbidden,
    InvalidRequest,
    Malformed,
    MetadataUnavailable,
    NotLeader,
    Throttled,
    TimedOut,
    TooLarge,
    TornSegment,
    WrongCluster,
)
from penstock.core.machines.catalog.events import encode as encode_event
from penstock.core.machines.catalog.events import key_of
from penstock.node.cluster import metadata_remote
from penstock.node.cluster.metadata_link import connect_coordinator
from penstock.node.cluster.metadata_log import Conflict, Entry
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.cluster.metadata_service import WAITING_MAX
from penstock.node.runtime.clock import SystemRng
from penstock.wire.metadata.fields import encode_metadata_records
from penstock.wire.metadata.frames import (
    NONCE_BYTES,
    Append,
    AppendDone,
    Hello,
    OpenSession,
    Proof,
    ReadFrom,
    encode,
)
from penstock.wire.metadata.handshake import SECRET_BYTES

APP = ROOT / "src/penstock/apps/coordinator.py"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[CoordinatorGround]:
    found = CoordinatorGround(tmp_path)
    yield found
    found.server.kill()
    assert "Traceback" not in found.server.output()


class TestCoordinator(MetadataContract):
    @pytest.fixture(autouse=True)
    def _ground(self, ground: CoordinatorGround) -> None:
        self._coordinator = ground

    def make_ground(self) -> Ground:
        return self._coordinator


def test_appends_of_several_brokers_survive_kills_of_the_coordinator(ground: CoordinatorGround) -> None:
    """Each broker appends until its share is done, reading after each append without an answer, as the host does."""

    async def broker(log: RemoteMetadataLog, number: int, done: list[int]) -> None:
        index = 0
        for step in range(40):
            event = topic(1_000 * number + step + 2)
            while True:
                try:
                    outcome = await log.append(index, [event])
                except TimedOut:
                    outcome = Conflict(index)
                if not isinstance(outcome, Conflict):
                    index = outcome
                    break
                entries = await log.read(index)
                index = entries[-1].index if entries else index
                if any(event in entry.events for entry in entries):
                    break
            done.append(step)

    async def scene() -> None:
        logs = [await ground.open() for _ in range(3)]
        follower = (await ground.open()).follow(0)
        done: list[int] = []
        working = [asyncio.ensure_future(broker(log, number, done)) for number, log in enumerate(logs, 1)]
        followed: list[Entry] = []
        for enough in (20, 50, 80):
            while len(done) < enough:
                followed.append(await anext(follower))
            await ground.kill()
        await asyncio.gather(*working)
        while len(followed) < 120:
            followed.append(await anext(follower))
        entries = list(await logs[0].read(0))
        assert entries == followed, "a follower resumes over the kills without a gap"
        assert [entry.index for entry in entries] == list(range(1, 121))
        assert len({key_of(entry.events[0]) for entry in entries}) == 120, "each was taken once"

    asyncio.run(scene())


def test_sessions_outlive_the_coordinator_and_keep_their_numbers(ground: CoordinatorGround) -> None:
    async def scene() -> None:
        log, other = await ground.open(), await ground.open()
        session = await opened(log, "broker-1", 1)
        for _ in range(2):
            await ground.kill()
            assert isinstance(await other.session("broker-1", 2), Conflict)
            assert await anext(other.follow_sessions()) == (session.live,)
        assert session.is_alive
        later = await opened(other, "broker-2", 2)
        assert later.live.number > session.live.number
        session.end()
        assert await seen_until(other.follow_sessions(), ["broker-2"]) == (later.live,)

    asyncio.run(scene())


def test_a_broker_that_is_cut_off_knows_it_before_the_others(
    tmp_path: Path, ground: CoordinatorGround
) -> None:
    async def scene() -> None:
        ground.server.start(ttl_ms=2_000)
        log, watcher = await ground.open(), await ground.direct()
        session = await opened(log, "broker-1", 1)
        following = watcher.follow_sessions()
        assert await anext(following) == (session.live,)
        assert ground.relay is not None
        ground.relay.cut()
        assert await seen_until(following, []) == ()
        assert not session.is_alive, "it ended here first"
        await session.ended()
        ground.relay.heal()
        again = await opened(log, "broker-1", 1)
        assert again.is_alive and not session.is_alive

    asyncio.run(scene())


def test_a_broker_that_has_seen_more_refuses_a_store_from_an_old_backup(ground: CoordinatorGround) -> None:
    async def scene() -> None:
        log = await ground.open()
        await fill(log, 0, [topic(1)])
        await ground.back_up()
        await fill(log, 1, [topic(2)], [topic(3)])
        session = await opened(log, "broker-1", 1)
        await ground.restore()
        await session.ended()
        for work in (
            log.read(0),
            log.append(1, [topic(4)]),
            anext(log.follow(0)),
            log.session("broker-1", 1),
        ):
            with pytest.raises(TornSegment, match="ends at 1, but index 3 was seen before"):
                await work
        with pytest.raises(TornSegment, match="ends at 1, but index 3 was seen before"):
            await RemoteMetadataLog(ground.server.access(), runtime(), seen_index=3).open()
        assert list(await (await ground.open()).read(0)) == [Entry(1, (topic(1),))], (
            "nothing was written to it"
        )

    asyncio.run(scene())


def test_a_coordinator_that_hangs_leaves_the_outcome_open_until_it_goes_on(ground: CoordinatorGround) -> None:
    async def scene() -> None:
        await ground.open()
        log = RemoteMetadataLog(ground.server.access(), runtime(), call_s_max=0.5)
        await log.open()
        ground.server.send(signal.SIGSTOP)
        with pytest.raises(TimedOut, match="outcome of the append at index 0 is unknown"):
            await log.append(0, [topic(1)])
        with pytest.raises(MetadataUnavailable):
            await log.read(0)
        ground.server.send(signal.SIGCONT)
        assert await anext((await ground.open()).follow(0)) == Entry(1, (topic(1),)), "it took effect later"

    asyncio.run(scene())


def test_strangers_are_refused(ground: CoordinatorGround) -> None:
    async def scene() -> None:
        await ground.open()
        access = ground.server.access()
        cases = (
            (
                replace(access, secret=bytes(SECRET_BYTES)),
                ClusterForbidden,
                "does not know the cluster secret",
            ),
            (replace(access, cluster_id="another"), WrongCluster, "belongs to cluster 'another'"),
        )
        for one, kind, words in cases:
            with pytest.raises(kind, match=words):
                await RemoteMetadataLog(one, runtime()).open()
        bound = replace(access, cluster_id=ground.server.ready["cluster_id"])
        log = RemoteMetadataLog(bound, runtime())
        await log.open()
        assert log.cluster_id == ground.server.ready["cluster_id"]
        await log.close()
        with pytest.raises(NotLeader):
            await log.read(0)

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("sent", "logged"),
    [
        (encode(1, Append(0, b"")), "must first prove that it knows the cluster secret"),
        (encode(1, Proof(b"")), "must first prove that it knows the cluster secret"),
        (encode(1, Hello(2, 1, "", bytes(NONCE_BYTES))), "speaks level 2"),
        (encode(1, Hello(1, 1, "", b"")), "the nonce has 0 bytes"),
        (
            encode(1, Hello(1, 1, "", bytes(NONCE_BYTES))) + encode(2, Proof(bytes(32))),
            "the peer does not know the cluster secret",
        ),
        (b"\x00\x00\x10\x00" + bytes(4_096), "exceeds the limit of 1024"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP"),
        (b"\x00\x00\x00\x01\xff", "too few"),
    ],
)
def test_whoever_cannot_prove_itself_is_disconnected_with_a_reason(
    ground: CoordinatorGround, sent: bytes, logged: str
) -> None:
    async def scene() -> None:
        log = await ground.open()
        reader, writer = await asyncio.open_connection("127.0.0.1", ground.server.port)
        writer.write(sent)
        await reader.read()
        writer.close()
        assert logged in ground.server.output()
        assert await log.append(0, [topic(1)]) == 1, "others are served"

    asyncio.run(scene())


def test_an_append_that_the_coordinator_cannot_read_is_refused_and_the_next_one_taken(
    ground: CoordinatorGround,
) -> None:
    async def scene() -> None:
        await ground.open()
        link = await connect_coordinator(ground.server.access(), SystemRng())
        for records, kind in (
            (b"", InvalidRequest),
            (b"\x00\x00\x00\x01xx", Malformed),
            (_UNKNOWN, InvalidRequest),
        ):
            with pytest.raises(kind):
                await link.call(Append(0, records))
        for name, token in (("", b""), ("x" * 101, b""), ("x", bytes(33))):
            with pytest.raises((InvalidRequest, TooLarge)):
                await link.call(OpenSession(name, 1, token))
        assert await link.call(Append(0, encode_metadata_records([encode_event(topic(1))]))) == AppendDone(1)

    asyncio.run(scene())


_UNKNOWN = encode_metadata_records([(b"from-the-future", b"{}")])


def test_a_change_that_is_too_large_is_refused_before_it_is_sent(
    ground: CoordinatorGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        log = await ground.open()
        monkeypatch.setattr(metadata_remote, "METADATA_APPEND_BYTES_MAX", 1_000)
        with pytest.raises(TooLarge, match="divide it into several changes"):
            await log.append(0, [topic(number) for number in range(2, 30)])
        assert await log.append(0, [topic(1)]) == 1

    asyncio.run(scene())


def test_requests_that_wait_have_a_limit_and_are_given_up_when_nobody_wants_them(
    ground: CoordinatorGround,
) -> None:
    async def scene() -> None:
        await ground.open()
        link = await connect_coordinator(ground.server.access(), SystemRng())
        for _ in range(3):
            waiting = [
                asyncio.ensure_future(link.call(ReadFrom(0, is_waiting=True))) for _ in range(WAITING_MAX + 1)
            ]
            with pytest.raises(Throttled):
                await waiting[-1]
            for one in waiting:
                one.cancel()
            await asyncio.wait(waiting)

    asyncio.run(scene())


# -- the process


def test_the_coordinator_stops_cleanly_and_starts_again(tmp_path: Path) -> None:
    server = CoordinatorProcess(tmp_path, APP)
    server.start()
    first = server.ready

    async def scene(index: int) -> None:
        log = RemoteMetadataLog(server.access(), runtime())
        await log.open()
        assert await log.append(index, [topic(index + 1)]) == index + 1

    asyncio.run(scene(0))
    assert stat.S_IMODE(Path(first["secret_file"]).stat().st_mode) == 0o600
    assert server.stop() == 0
    server.start()
    assert server.ready["cluster_id"] == first["cluster_id"] and server.ready["port"] == first["port"]
    asyncio.run(scene(1))
    assert server.stop() == 0
    assert "Traceback" not in server.output() and "verifying" not in server.output()


def test_a_coordinator_that_cannot_start_says_why(tmp_path: Path) -> None:
    server = CoordinatorProcess(tmp_path, APP)
    server.start()
    try:
        words = [sys.executable, str(APP), "--data-dir"]
        for more, why in (
            ([str(server.data_dir)], f"in use by another coordinator (pid {server.ready['pid']})"),
            ([str(tmp_path / "b"), "--port", str(server.port)], f"Cannot listen on 127.0.0.1:{server.port}"),
            ([str(tmp_path / "c"), "--host", "0.0.0.0"], "0.0.0.0 is not a loopback address"),
        ):
            done = subprocess.run([*words, *more], capture_output=True, text=True, check=False)
            assert done.returncode == 1 and why in done.stderr
    finally:
        server.kill()
    server.start()
    secret = Path(server.ready["secret_file"])
    server.kill()
    secret.chmod(0o644)
    done = subprocess.run([*words, str(server.data_dir)], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"run `chmod 600 {secret}`" in done.stderr
