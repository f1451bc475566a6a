"""At most once, counted: members commit, then work; one is killed, then the broker, and nothing is done twice."""

from __future__ import annotations

import pytest

from compat.members import BEFORE, CONFIGURATIONS
from compat.stages import Stage, live_through_kills


@pytest.mark.parametrize(("client", "protocol"), CONFIGURATIONS)
def test_nothing_is_done_twice(killable: Stage, client: str, protocol: str) -> None:
    with killable.troop(protocol=protocol, commit=BEFORE) as troop:
        live_through_kills(killable, troop, client)
    assert troop.repeated() == []
    assert set(troop.reads()) <= set(killable.written)
