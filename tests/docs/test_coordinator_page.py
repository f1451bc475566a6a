"""docs/coordinator.md has every command and every path of the coordinator."""

from __future__ import annotations

from memory_services import MemoryFacts, MemoryServices
from pages import ROOT
from penstock.apps.control.commands import FORMS, GUARDED, FailureKind
from penstock.apps.control.console import Console
from penstock.apps.control.http_api import ApiHandlers, api_routes
from penstock.apps.control.services import Health

PAGE = (ROOT / "docs" / "coordinator.md").read_text("utf-8")


def test_every_command_has_its_row() -> None:
    rows = [f"| `{form.text}` | {form.meaning} | {'yes' if form.verb in GUARDED else ''} |" for form in FORMS]
    assert [row for row in rows if row not in PAGE] == []


def test_every_path_health_and_error_is_named() -> None:
    routes = api_routes(ApiHandlers(Console(MemoryServices(), MemoryFacts()), None))
    paths = [route.path.replace("{service}", "{name}") for route in routes]
    acts = tuple(f"/{act}" for act in ("stop", "restart", "kill"))
    assert [path for path in paths if path not in PAGE and not path.endswith(acts)] == []
    assert [one.code for one in FailureKind if f"`{one.code}`" not in PAGE] == []
    assert [one.value for one in Health if f"`{one.value}`" not in PAGE] == []
