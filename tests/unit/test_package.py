"""What `import penstock` offers, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import penstock

QUICK = """
import sys, penstock
loaded = [name for name in sys.modules if name.startswith(("penstock.", "confluent_kafka", "asyncio"))]
assert not loaded, loaded
"""


def test_every_offered_name_is_there() -> None:
    for name in penstock.__all__:
        assert getattr(penstock, name) is not None
        assert name in dir(penstock)


def test_any_other_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Prodcer"):
        penstock.__getattr__("Prodcer")


def test_importing_it_loads_nothing() -> None:
    subprocess.run([sys.executable, "-c", QUICK], check=True)
