"""The table of errors of the page on gRPC is that of the code. test_one_broker.py runs the page."""

from __future__ import annotations

import re

from pages import ROOT
from penstock.apps.gateways.errors import BY_CODE, TABLE


def test_every_status_and_reason_is_in_the_page() -> None:
    page = (ROOT / "docs" / "grpc.md").read_text("utf-8")
    table = page[page.index("## Errors") :]
    rows = {row.split("|")[1].strip(" `"): row for row in table.splitlines() if row.startswith("| `")}
    for found in (*TABLE.values(), *BY_CODE.values()):
        assert f"`{found.reason}`" in rows[found.code.name], found
    known = {found.reason for found in (*TABLE.values(), *BY_CODE.values())}
    named = {reason for row in rows.values() for reason in re.findall(r"`([A-Z_]+)`", row.split("|")[2])}
    assert named <= known
