"""Errors of aiokafka after which a worker must not use the same client again."""

from __future__ import annotations

import pytest
from aiokafka.errors import KafkaError, NotLeaderForPartitionError

from checker.workers.aio import AiokafkaStack
from checker.workers.stack import Place, Unknown


@pytest.mark.parametrize(
    ("error", "is_fatal"),
    [
        (KafkaError("Unexpected error during coordination AssertionError()"), True),
        (AssertionError(), True),
        (NotLeaderForPartitionError(), False),
    ],
)
def test_a_consumer_whose_coordination_failed_is_not_used_again(error: Exception, is_fatal: bool) -> None:
    async def work() -> None:
        raise error

    stack = AiokafkaStack(Place("nowhere:1", "name", "", "group"))
    try:
        with pytest.raises(Unknown) as unknown:
            stack._run(work(), 10)
    finally:
        stack.close()
    assert unknown.value.is_fatal == is_fatal
