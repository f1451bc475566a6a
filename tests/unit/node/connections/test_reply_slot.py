"""Replies in any order: they leave as they are ready, within a limit of their own."""

from __future__ import annotations

import pytest

from manual_ports import turns
from penstock.node.connections import connection as connection_module

from .test_connection import Client, Limits, connected


def test_replies_leave_as_they_are_ready_once_any_order_is_allowed() -> None:
    async def test() -> None:
        client = Client()
        client.connection.allow_any_order()
        client.send(b"1", b"2", b"3")
        assert client.connection.in_flight == 3 and not client.connection.is_quiet
        client.slots[2].answer([b"third "])
        client.slots[0].answer([b"first "])
        await turns()
        assert client.line.sent == b"third first "
        assert client.connection.in_flight == 1
        client.slots[1].answer([b"second"])
        await turns()
        assert client.line.sent == b"third first second"
        assert client.connection.is_quiet

    connected(test)


def test_requests_in_flight_are_limited_in_any_order_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a limit of their own: one connection carries the requests of many clients."""
    monkeypatch.setattr(connection_module, "LINK_REQUESTS_IN_FLIGHT_MAX", 2)

    async def test() -> None:
        client = Client(Limits(requests_in_flight_max=1))
        client.connection.allow_any_order()
        client.send(b"1", b"2", b"3")
        assert client.requests == [b"1", b"2"] and not client.line.is_reading
        client.slots[1].answer([b"second "])
        await turns()
        assert client.requests == [b"1", b"2", b"3"] and not client.line.is_reading

    connected(test)


def test_a_reply_in_any_order_to_a_client_that_is_gone_is_dropped() -> None:
    async def test() -> None:
        client = Client()
        client.connection.allow_any_order()
        client.send(b"1")
        client.connection.close("gone")
        client.connection.connection_lost(None)
        client.slots[0].answer([b"late"])
        await turns()
        assert client.line.sent == b""

    connected(test)
