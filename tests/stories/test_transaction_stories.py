"""Stories of transactions, each told as the transcript of what producers ask, what they are told, what readers see."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from textwrap import dedent

from group_node import Node, on_a_node
from penstock.core.errors import BrokerError
from penstock.core.model import TopicPartition
from transaction_node import Writer, committed_values

T = TopicPartition("t", 0)


class Stage:
    """Producers on one partition. Every line is an act, and what came of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.lines: list[str] = []
        self._actors: dict[str, Writer] = {}

    async def _tell(self, act: str, work: Awaitable[object]) -> None:
        try:
            await work
            self.lines.append(act)
        except BrokerError as error:
            self.lines.append(f"{act}: {error.code}")

    async def enter(self, actor: str, *, is_v2: bool = False, timeout_ms: int = 60_000) -> None:
        writer = self._actors[actor] = Writer(self.node.broker, "pay", is_v2=is_v2, timeout_ms=timeout_ms)
        await self._tell(f"{actor} takes over", writer.begin())

    async def write(self, actor: str, value: str) -> None:
        await self._tell(f"{actor} writes {value}", self._actors[actor].write(T, value.encode()))

    async def commit(self, actor: str) -> None:
        await self._tell(f"{actor} commits", self._actors[actor].end(commit=True))

    async def abort(self, actor: str) -> None:
        await self._tell(f"{actor} aborts", self._actors[actor].end(commit=False))

    def read(self) -> None:
        seen = [
            value.decode() for value in committed_values(self.node.broker.partition(*T)) if value is not None
        ]
        self.lines.append(f"  readers see {' '.join(seen) or 'nothing'}")

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        self.lines.append(f"{seconds:g} s pass")


def told(play: Callable[[Stage], Awaitable[None]], story: str) -> None:
    """The transcript must read exactly so."""

    async def scene(node: Node) -> list[str]:
        stage = Stage(node)
        await play(stage)
        return stage.lines

    assert "\n".join(on_a_node(scene, transaction_check_ms=100)) == dedent(story).strip("\n")


def test_nothing_is_seen_before_it_is_committed() -> None:
    async def play(stage: Stage) -> None:
        await stage.enter("ann")
        await stage.write("ann", "a")
        await stage.write("ann", "b")
        stage.read()
        await stage.commit("ann")
        stage.read()
        await stage.write("ann", "c")
        await stage.abort("ann")
        stage.read()

    told(
        play,
        """
        ann takes over
        ann writes a
        ann writes b
          readers see nothing
        ann commits
          readers see a b
        ann writes c
        ann aborts
          readers see a b
        """,
    )


def test_a_zombie_wakes_up() -> None:
    async def play(stage: Stage) -> None:
        await stage.enter("ann")
        await stage.write("ann", "a")
        await stage.enter("bob")
        await stage.write("ann", "again")
        await stage.commit("ann")
        await stage.write("bob", "b")
        await stage.abort("ann")
        await stage.commit("bob")
        stage.read()

    told(
        play,
        """
        ann takes over
        ann writes a
        bob takes over
        ann writes again: FencedProducer
        ann commits: FencedProducer
        bob writes b
        ann aborts: FencedProducer
        bob commits
          readers see b
        """,
    )


def test_a_producer_dawdles() -> None:
    async def play(stage: Stage) -> None:
        await stage.enter("ann", timeout_ms=1_000)
        await stage.write("ann", "a")
        await stage.wait(2)
        await stage.commit("ann")
        await stage.enter("ann")
        await stage.write("ann", "b")
        await stage.commit("ann")
        stage.read()

    told(
        play,
        """
        ann takes over
        ann writes a
        2 s pass
        ann commits: FencedProducer
        ann takes over
        ann writes b
        ann commits
          readers see b
        """,
    )


def test_a_commit_that_was_delayed_on_its_way_ends_another_transaction_only_in_the_old_protocol() -> None:
    """The network holds a commit back; the producer gives up on it, aborts, and starts anew. Then it arrives."""

    def play(is_v2: bool) -> Callable[[Stage], Awaitable[None]]:
        async def scene(stage: Stage) -> None:
            await stage.enter("ann", is_v2=is_v2)
            await stage.write("ann", "given-up")
            delayed = stage._actors["ann"].by
            await stage.abort("ann")
            await stage.write("ann", "half")
            transactions = stage.node.broker.transactions
            late = transactions.end("pay", delayed, commit=True, is_v2=is_v2)
            await stage._tell("the delayed commit arrives", late)
            await stage.abort("ann")
            stage.read()

        return scene

    told(
        play(is_v2=True),
        """
        ann takes over
        ann writes given-up
        ann aborts
        ann writes half
        the delayed commit arrives: FencedProducer
        ann aborts
          readers see nothing
        """,
    )
    told(
        play(is_v2=False),
        """
        ann takes over
        ann writes given-up
        ann aborts
        ann writes half
        the delayed commit arrives
        ann aborts: InvalidTransactionState
          readers see half
        """,
    )
