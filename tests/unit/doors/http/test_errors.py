"""Every error has a status, and says what it is and what to do."""

from __future__ import annotations

import json

import pytest

from penstock.core.errors import BrokerError, MemberIdRequired, NotNow, leaves
from penstock.doors.http.errors import STATUSES, problem_of
from penstock.node.runtime.meters import ERRORS_SENT


def test_the_table_is_the_tree() -> None:
    assert set(STATUSES) == set(leaves())


@pytest.mark.parametrize(
    "kind", sorted(leaves(), key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_a_problem_says_what_and_what_to_do(kind: type[BrokerError]) -> None:
    error = MemberIdRequired("m") if kind is MemberIdRequired else kind("words " * 1_000)
    before = ERRORS_SENT["http", error.code]
    response = problem_of(error)
    assert response.content_type == "application/problem+json"
    body = json.loads(response.body)
    assert (body["status"], body["code"]) == (STATUSES[kind], error.code)
    assert body["detail"] and len(body["detail"]) < 1_100 and body["what_to_do"].endswith(".")
    assert (("Retry-After", "1") in response.headers) == issubclass(kind, NotNow)
    assert ERRORS_SENT["http", error.code] == before + 1
