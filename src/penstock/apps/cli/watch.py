"""Shows something again and again, for `--watch`. Redraws in place on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import RenderableType

T = TypeVar("T")

WATCH_SECONDS = 2.0


def show_repeatedly(
    fetch: Callable[[], T], show: Callable[[T], None], render: Callable[[T], RenderableType], output: str
) -> None:
    """Fetch and show every two seconds until Ctrl-C. A table on a terminal is drawn by `render` in place of the last
    one; everything else is printed by `show`."""
    from rich.console import Console
    from rich.live import Live

    is_live = output == "table" and sys.stdout.isatty()
    try:
        with Live(console=Console(), auto_refresh=False) if is_live else nullcontext() as live:
            while True:
                found = fetch()
                if live is None:
                    show(found)
                    sys.stdout.flush()
                else:
                    live.update(render(found), refresh=True)
                time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return
