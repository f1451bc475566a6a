"""Signals of `penstock pipeline run`: the first asks for a stop, whoever took it meanwhile; the second ends at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from penstock.apps.cli.pipeline_run import StopSignals

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = [signal.getsignal(number) for number in NUMBERS]
    yield
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_asks_for_a_stop_also_after_spark_took_it(number: signal.Signals) -> None:
    signals = StopSignals()
    signals.arm()
    signal.signal(signal.SIGINT, lambda *_: pytest.fail("Spark would cancel its jobs"))
    signals.arm()
    assert not signals.is_set()
    signal.raise_signal(number)
    assert signals.is_set()
    assert signal.getsignal(number) is signal.SIG_DFL, "the next one ends the process"
