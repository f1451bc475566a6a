"""Records the answers of a real Apache Kafka to the questions of `questions`, for tests that run without one.

PYTHONPATH=tests python -m compat.reference python -m compat.record
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from compat.plain_calls import Plain, ask
from compat.questions import QUESTIONS, TOPIC_NAME
from compat.raw import RawConnection, batch

ANSWERS = Path(__file__).with_name("kafka_answers.json")
CHOSEN_BY_BROKER = {
    "topic_id",
    "leader_epoch",
    "high_watermark",
    "log_end_offset",
    "last_fetch_timestamp",
    "last_caught_up_timestamp",
    "finalized_features_epoch",
    "listeners",
}
"""Fields that differ from run to run."""
_UNORDERED = {
    "api_keys": "api_key",
    "configs": "name",
    "config_resources": "resource_type",
    "finalized_features": "name",
    "results": "user",
    "supported_features": "name",
}
"""Lists whose order is the broker's own affair, and the field that they are sorted by here."""

_OTHERS = {"config_resources": "resource_name", "replica_election_results": "topic"}
"""Lists of everything there is, and the field by which the topics of other tests are left out."""
OTHER_TESTS = ("tools-", "compat-", "__")


def answers_of(bootstrap: str) -> dict[str, Plain | None]:
    """Every answer by the name of its question; None where the broker hung up instead."""
    answers: dict[str, Plain | None] = {}
    for question in QUESTIONS:
        with RawConnection(bootstrap) as raw:
            try:
                answer = ask(raw, question.key, question.version, question.body)
                answers[question.name] = comparable(answer)
            except ConnectionError:
                answers[question.name] = None
            if question.name == "create":
                raw.await_leaders(TOPIC_NAME, 2)
                raw.produce(TOPIC_NAME, batch(b"a", b"b"))
    return answers


def comparable(value: Any, name: str = "") -> Any:
    """The same without what differs from run to run."""
    if isinstance(value, dict):
        return {key: comparable(value[key], key) for key in value if key not in CHOSEN_BY_BROKER}
    if not isinstance(value, list):
        return value
    items = [comparable(item) for item in value]
    if name in _OTHERS:
        items = [item for item in items if not str(item.get(_OTHERS[name], "")).startswith(OTHER_TESTS)]
    key = _UNORDERED.get(name)
    if key is None or not all(isinstance(item, dict) and key in item for item in items):
        return items
    return sorted(items, key=lambda item: item[key])


def main() -> None:
    answers = answers_of(os.environ["PENSTOCK_COMPAT_BOOTSTRAP"])
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
