"""At least once, counted: members commit what is done; one is killed, then the broker, and no record is missing."""

from __future__ import annotations

import pytest

from compat.members import AFTER, CONFIGURATIONS
from compat.stages import Stage, live_through_kills


@pytest.mark.parametrize(("client", "protocol"), CONFIGURATIONS)
def test_no_record_is_missing(killable: Stage, client: str, protocol: str) -> None:
    with killable.troop(protocol=protocol, commit=AFTER) as troop:
        live_through_kills(killable, troop, client)
        troop.until_read(one.value for one in killable.written)
        assert set(troop.reads()) == set(killable.written)
