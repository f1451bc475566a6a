"""Feature levels: which moves are allowed."""

from __future__ import annotations

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.features import (
    FEATURES,
    GROUP_VERSION,
    METADATA_VERSION,
    TRANSACTION_VERSION,
    FeatureUpdate,
    Move,
)
from penstock.core.machines.catalog.catalog import Catalog


def chosen(catalog: Catalog, name: str, level: int, move: int = Move.UPGRADE) -> dict[str, int]:
    for event in catalog.decide_update_features([FeatureUpdate(name, level, move)], 1):
        catalog.apply(event)
    return catalog.features


def test_what_holds_unless_something_else_was_chosen() -> None:
    assert Catalog().features == {GROUP_VERSION: 1, METADATA_VERSION: 30, TRANSACTION_VERSION: 2}
    assert Catalog(features={TRANSACTION_VERSION: 1}).features[TRANSACTION_VERSION] == 1


def test_a_level_goes_down_only_when_that_is_meant() -> None:
    catalog = Catalog()
    with pytest.raises(InvalidConfig, match="Can't downgrade"):
        chosen(catalog, TRANSACTION_VERSION, 1)
    assert chosen(catalog, TRANSACTION_VERSION, 1, Move.SAFE_DOWNGRADE)[TRANSACTION_VERSION] == 1
    assert chosen(catalog, TRANSACTION_VERSION, 0, Move.UNSAFE_DOWNGRADE)[TRANSACTION_VERSION] == 0
    assert chosen(catalog, TRANSACTION_VERSION, 2)[TRANSACTION_VERSION] == 2
    assert catalog.decide_update_features([FeatureUpdate(TRANSACTION_VERSION, 2, Move.UPGRADE)], 1) == []


@pytest.mark.parametrize(
    ("name", "level", "move", "words"),
    [
        ("share.version", 1, 1, "Local controller 7 does not support this feature"),
        (TRANSACTION_VERSION, 3, 1, "only supports versions 0-2"),
        (GROUP_VERSION, 0, 2, "only supports versions 1-1"),
        (TRANSACTION_VERSION, -1, 2, "cannot be less than 0"),
        (TRANSACTION_VERSION, 1, 0, "upgrade type"),
    ],
)
def test_what_cannot_be_chosen(name: str, level: int, move: int, words: str) -> None:
    good = FeatureUpdate(TRANSACTION_VERSION, 1, Move.SAFE_DOWNGRADE)
    catalog = Catalog()
    with pytest.raises(InvalidConfig, match=words):
        catalog.decide_update_features([good, FeatureUpdate(name, level, move)], 7)


def test_what_is_not_served_is_not_named() -> None:
    assert not FEATURES.keys() & {"share.version", "streams.version", "eligible.leader.replicas.version"}
