"""The ways into the coordinator of `penstock cluster up`: HTTP API, TCP console, terminal. Opens none by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial

from penstock.apps.control.cluster_plan import ClusterPlan
from penstock.apps.control.cluster_run import Frontend
from penstock.apps.control.console_token import make_token, remove_token
from penstock.apps.control.services import Services
from penstock.apps.ready import StartError
from penstock.core.model import Address

LOOPBACK = "127.0.0.1"


def cluster_frontends(plan: ClusterPlan, *, has_terminal: bool) -> Mapping[str, Frontend]:
    """Frontends by name, the terminal last: it prompts after the ready message."""

    @cache
    def token() -> str:
        return make_token(plan.run_dir)

    forget = partial(remove_token, plan.run_dir)
    system = plan.system
    found: dict[str, Frontend] = {}
    if system.api_port is not None:
        found["api"] = partial(_listen, _open_api, system.api_port, token, forget)
    if system.console_port is not None:
        found["console"] = partial(_listen, _open_console, system.console_port, token, forget)
    if has_terminal:
        found["terminal"] = _open_terminal
    return found


Opener = Callable[[Services, Address, str], AbstractAsyncContextManager[Address]]


@asynccontextmanager
async def _listen(
    opener: Opener, port: int, token: Callable[[], str], forget: Callable[[], None], services: Services
) -> AsyncIterator[Address]:
    """Until the services stop; then their token is removed as well."""
    address = Address(LOOPBACK, port)
    is_open = False
    try:
        async with opener(services, address, token()) as bound:
            is_open = True
            yield bound
    except OSError as error:
        if is_open:
            raise
        raise StartError(f"The coordinator cannot listen on {address}: {error.strerror or error}.") from error
    finally:
        forget()


def _open_api(services: Services, address: Address, token: str) -> AbstractAsyncContextManager[Address]:
    from penstock.apps.control.http_api import http_api

    return http_api(services, address, token=token)


def _open_console(services: Services, address: Address, token: str) -> AbstractAsyncContextManager[Address]:
    from penstock.apps.control.console_server import console_server

    return console_server(services, address, token=token)


def _open_terminal(services: Services) -> AbstractAsyncContextManager[None]:
    from penstock.apps.control.terminal import terminal

    return terminal(services)
