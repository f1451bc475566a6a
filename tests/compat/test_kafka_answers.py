"""The same raw requests to Penstock and to Apache Kafka 4.3: the answers are equal, field by field.

Kafka's answers are recorded (`compat.record`); run through `compat.reference`, this checks the recording itself. Fields
that differ on purpose are listed with the reason, and only there may they differ.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from compat.questions import NODE_ID, QUESTIONS
from compat.record import ANSWERS, answers_of
from penstock.testing import running_broker
from several_brokers import NODES

Answers = dict[str, Any]

OWN_WORDS = re.compile(r"(refuse|set|group|append|same|no|describe|create|metrics|broker|strange)( .*)?")
"""Questions about settings are refused with the code of Kafka and with words of our own."""

_ONE_MAP = (
    "Kafka keeps settings of one broker apart from those of all brokers; with one broker they are the same"
)
_DEFAULT_ISR = "Kafka stores it as a dynamic default, because eligible leader replicas are on"
_ONE_REPLICA = "one replica is the default here"

DIFFERENT = {
    r".*configs\.flush\.ms\..*": "the default of penstock.durability=interval",
    r".*configs\.penstock\..*": "a setting of our own",
    r".*configs\.min\.insync\.replicas(\..*)?": _DEFAULT_ISR,
    r".*configs\.consumer\.assignment\.interval\.ms\..*": "assignments are computed at once",
    r".*configs\.group\.coordinator\.rebalance\.protocols\..*": "streams groups are not served",
    r".*configs\.(offsets\.topic|transaction\.state\.log)\.(replication\.factor|min\.isr)\..*": _ONE_REPLICA,
    r".*configs\.process\.roles\..*source": "there is nothing to configure",
    r".*configs\.sasl\.enabled\.mechanisms\..*": "there is no SASL",
    r"versions.*\.api_keys\..*": "share groups, streams groups, SASL and tokens are not served",
    r"versions.*_features\.(eligible|kraft|share|streams).*": "not served, so not named",
    r"versions.*supported_features\.(group|metadata)\.version.*": "one level only",
    r"strange operation\.responses\.0\.error_(code|message)": "Kafka answers with an unknown server error",
    r"describe no topic\.results\.0\.error_message": "Kafka says nothing",
    r"broker (unknown|num\.io\.threads)\.responses\.0\.error_.*": "Kafka stores any name; here it has no effect",
    r"(topic below the broker|brokers? changed)\..*(source|synonyms|segment\.bytes|retention\.ms)(\..*)?": _ONE_MAP,
    r"loggers\.results\.0\.configs\.root\.(value|documentation)": "the loggers have other levels and no text",
}

if NODES > 1:
    DIFFERENT |= {
        r".*configs\.broker\.rack\..*": "the machine is the rack",
        r"quorum( \d)?\.(.*\.leader_id|.*\.replica_id|.*\.node_id)": "any broker may be the controller",
    }


@pytest.fixture(scope="module")
def kafka_answers() -> Answers:
    answers: Answers = json.loads(ANSWERS.read_text())
    return answers


@pytest.fixture(scope="module")
def our_answers() -> Iterator[Answers]:
    given = os.environ.get("PENSTOCK_COMPAT_BOOTSTRAP")
    if given:
        yield answers_of(given)
        return
    with running_broker(node_id=NODE_ID) as broker:
        yield answers_of(broker.bootstrap)


@pytest.mark.parametrize("name", [question.name for question in QUESTIONS])
def test_the_answer_is_kafkas(kafka_answers: Answers, our_answers: Answers, name: str) -> None:
    found = {
        path: (theirs, ours)
        for path, theirs, ours in differences(name, kafka_answers[name], our_answers[name])
        if not any(re.fullmatch(pattern, path) for pattern in DIFFERENT)
        and not (path.endswith("error_message") and theirs and ours and OWN_WORDS.fullmatch(name))
    }
    assert found == {}


def test_calls_of_kafka_that_are_served_have_its_versions(
    kafka_answers: Answers, our_answers: Answers
) -> None:
    theirs, ours = (
        {one["api_key"]: (one["min_version"], one["max_version"]) for one in answers["versions"]["api_keys"]}
        for answers in (kafka_answers, our_answers)
    )
    assert ours.items() <= theirs.items()


def differences(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every place where two answers differ; items with a name are matched by it."""
    if isinstance(theirs, list) and isinstance(ours, list):
        theirs, ours = _by_name(theirs), _by_name(ours)
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from differences(f"{path}.{key}", theirs.get(key), ours.get(key))
    elif theirs != ours:
        yield path, theirs, ours


def _by_name(items: list[Any]) -> dict[str, Any]:
    named = {item["name"]: item for item in items if isinstance(item, dict) and "name" in item}
    if len(named) == len(items):
        return named
    return {str(index): item for index, item in enumerate(items)}
