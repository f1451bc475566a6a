"""Where the logs of leader and follower part, by their epochs: the stories of KIP-101 and KIP-279."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import OffsetOutOfRange
from penstock.core.log.epochs import Epochs
from penstock.core.model import NO_EPOCH
from penstock.core.replication.divergence import EpochEnd, find_divergence, truncation_offset
from penstock.node.runtime.memory import MemoryFiles


def epochs(*starts: tuple[int, int]) -> Epochs:
    """Epochs and where they start."""
    made = Epochs(MemoryFiles(), "log")
    for epoch, offset in starts:
        made.observe(epoch, offset)
    return made


def test_a_prefix_does_not_diverge() -> None:
    leader = epochs((0, 0), (2, 10))
    assert find_divergence(leader, 20, 15, 2) is None
    assert find_divergence(leader, 20, 10, 0) is None
    assert find_divergence(leader, 20, 0, NO_EPOCH) is None, "an empty follower has nothing that could"


def test_records_that_the_leader_does_not_have() -> None:
    """The follower wrote or copied more in epoch 0 than the leader of epoch 1 has."""
    leader, follower = epochs((0, 0), (1, 10)), epochs((0, 0))
    found = find_divergence(leader, 12, 14, 0)
    assert found == EpochEnd(0, 10)
    assert found is not None and truncation_offset(follower, 14, found) == 10


def test_an_epoch_that_the_leader_never_saw() -> None:
    """KIP-279: two quick elections. The follower led in epoch 1, which the leader of epoch 2 has no record of."""
    leader, follower = epochs((0, 0), (2, 10)), epochs((0, 0), (1, 8))
    found = find_divergence(leader, 15, 12, 1)
    assert found == EpochEnd(0, 10)
    assert found is not None and truncation_offset(follower, 12, found) == 8, "the earlier end of epoch 0"
    assert find_divergence(leader, 15, 8, 0) is None


def test_an_epoch_that_the_leader_cannot_know_has_no_end() -> None:
    with pytest.raises(OffsetOutOfRange, match="epoch 7 is unknown"):
        find_divergence(epochs((0, 0)), 10, 5, 7)


def test_a_leader_whose_log_begins_later() -> None:
    assert find_divergence(epochs((5, 100)), 120, 40, 3) is None, (
        "the fetch is refused as out of range before"
    )
    assert truncation_offset(epochs((1, 0)), 40, EpochEnd(3, 100)) == 40


@given(st.data())
def test_truncating_until_the_epochs_match_leaves_a_shared_prefix(data: st.DataObject) -> None:
    """Two logs that share a prefix and were then written by different leaders, each epoch by one leader only."""
    shared = data.draw(st.lists(st.integers(0, 3), max_size=8).map(sorted), "shared")
    own = data.draw(st.lists(st.sampled_from((4, 6, 8)), max_size=6).map(sorted), "follower's own")
    other = data.draw(st.lists(st.sampled_from((5, 7, 9)), max_size=6).map(sorted), "leader's own")
    leader_log = [*shared, *other]
    follower_log = [*shared, *own]
    # The leader of the epoch that counts now has noted where it began.
    leader = epochs(*_starts(leader_log), (10, len(leader_log)))
    for _ in range(20):
        last = follower_log[-1] if follower_log else NO_EPOCH
        found = find_divergence(leader, len(leader_log), len(follower_log), last)
        if found is None:
            break
        offset = truncation_offset(epochs(*_starts(follower_log)), len(follower_log), found)
        assert offset < len(follower_log) or not follower_log, "every round comes closer"
        del follower_log[offset:]
    assert follower_log == leader_log[: len(follower_log)]
    assert len(follower_log) >= len(shared) or not own


def _starts(log: list[int]) -> list[tuple[int, int]]:
    return [(epoch, at) for at, epoch in enumerate(log) if at == 0 or log[at - 1] != epoch]
