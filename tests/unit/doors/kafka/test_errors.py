"""What the door sends is counted; failures of a coordinator's partition send clients to look it up again."""

from __future__ import annotations

from penstock.core import errors
from penstock.doors.kafka.errors import DOOR, code_of, coordinator_code_of
from penstock.node.runtime.meters import ERRORS_SENT
from penstock.wire.kafka import ErrorCode


def test_errors_are_counted_where_they_are_translated() -> None:
    before = ERRORS_SENT[DOOR, "NotLeader"]
    assert code_of(errors.NotLeader("moved")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert coordinator_code_of(errors.NotLeader("moved")) == ErrorCode.NOT_COORDINATOR
    # Transactional clients give up on a code that their calls have never had.
    assert coordinator_code_of(errors.PeerUnavailable("cut off")) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert ERRORS_SENT[DOOR, "NotLeader"] == before + 2
