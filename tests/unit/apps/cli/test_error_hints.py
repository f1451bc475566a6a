"""Errors name the limit or setting behind them."""

from __future__ import annotations

import re

from confluent_kafka import KafkaError

from penstock.apps.cli.error_hints import HINTS, with_hint
from penstock.apps.cli.failures import RefusedByBroker, to_click_error
from penstock.client.errors import Refused
from penstock.core.topic_config import SETTINGS
from penstock.node.settings import DEFINITION_OF


def test_every_error_and_every_setting_exists() -> None:
    known = {name.lstrip("_") for name in dir(KafkaError)}
    assert set(HINTS) <= known
    named = {word for hint in HINTS.values() for word in re.findall(r"[a-z]+(?:[._][a-z]+)+", hint)}
    assert {word for word in named if word not in SETTINGS and word not in DEFINITION_OF} == set()


def test_the_hint_follows_the_message() -> None:
    assert with_hint("no.", "NOT_ENOUGH_REPLICAS").startswith("no: fewer replicas are in sync than")
    assert with_hint("no", "OTHER") == "no"
    shown = to_click_error(Refused("g: it has members", code="NON_EMPTY_GROUP"))
    assert isinstance(shown, RefusedByBroker) and "penstock group describe" in shown.message
