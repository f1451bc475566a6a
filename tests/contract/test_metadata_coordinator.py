"""The metadata log of a coordinator process: the contract, and what only several processes can do to each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.coordinator_ground import CoordinatorGround
from contract.metadata_contract import Ground, MetadataContract


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
