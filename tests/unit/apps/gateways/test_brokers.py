"""The addresses of brokers in the description of a cluster."""

from __future__ import annotations

import socket

import pytest

from penstock.apps.gateways.brokers import ask_coordinator, broker_addresses
from penstock.client.errors import Unreachable


def row(port: int, **fields: object) -> dict[str, object]:
    return {"addresses": {"kafka": f"127.0.0.1:{port}", "http": "127.0.0.1:1"}, **fields}


def test_fenced_brokers_are_left_out() -> None:
    content = {"brokers": [row(1, fenced=True), row(2, fenced=False), row(3)]}
    assert broker_addresses(content) == ["127.0.0.1:2", "127.0.0.1:3"]


def test_fenced_brokers_are_better_than_none() -> None:
    assert broker_addresses({"brokers": [row(1, fenced=True)]}) == ["127.0.0.1:1"]


def test_nobody_answers() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(Unreachable, match=f"coordinator at 127.0.0.1:{port}"):
        ask_coordinator(f"127.0.0.1:{port}")
