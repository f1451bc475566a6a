"""Generates the same orders in every run, some of them invalid."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

OPENED = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
MINUTES = 8
BAD_EVERY = 250
CLOSING_ID = 999_999


class Order(NamedTuple):
    """One record: key, value, and for a valid order its amount and minute."""

    customer: str
    value: bytes
    minute: str | None
    amount: float


def make_orders(count: int, seed: int = 2) -> Iterator[Order]:
    """Orders over MINUTES, in time order, plus a final one that closes the last window."""
    chance = random.Random(seed)
    for number in range(count):
        moment = OPENED + timedelta(seconds=MINUTES * 60 * number / count)
        customer = f"customer-{chance.randint(1, 200)}"
        amount = round(chance.uniform(3, 120), 2)
        if number % BAD_EVERY == BAD_EVERY - 1:
            yield Order(customer, _invalid(number, chance), None, 0.0)
            continue
        yield Order(customer, _value(number, customer, amount, moment), moment.strftime("%H:%M"), amount)
    closing = OPENED + timedelta(hours=1)
    yield Order("closing", _value(CLOSING_ID, "closing", 1.0, closing), None, 0.0)


def _value(number: int, customer: str, amount: float, moment: datetime) -> bytes:
    order = {
        "order_id": number,
        "customer": customer,
        "country": "DE" if number % 3 else "AT",
        "amount": amount,
        "ordered_at": moment.isoformat(),
    }
    return json.dumps(order).encode()


def _invalid(number: int, chance: random.Random) -> bytes:
    """An invalid order: truncated JSON, a string as amount, or a negative amount."""
    kinds = (
        b'{"order_id": %d, "customer": "half an or' % number,
        b'{"order_id": %d, "customer": "c", "amount": "a lot"}' % number,
        b'{"order_id": %d, "customer": "c", "amount": -5, "ordered_at": "2026-11-16T09:01:00Z"}' % number,
    )
    return chance.choice(kinds)
