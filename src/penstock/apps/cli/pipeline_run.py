"""`penstock pipeline run`: locks pipelines, starts Spark, runs until a signal. `supervision` handles failures."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.pipelines.definition import Pipeline, Project
    from penstock.spark.pipelines.progress import Progress
    from penstock.spark.pipelines.runner import RunningPipeline


class StopSignals:
    """Ctrl-C and SIGTERM as a flag. A second signal terminates the process."""

    def __init__(self) -> None:
        self._stop = threading.Event()

    def arm(self) -> None:
        """Install the handlers. Spark replaces the one for Ctrl-C when it starts, to cancel jobs: arm again then."""
        if not self._stop.is_set():
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()
        signal.signal(number, signal.SIG_DFL)

    def is_set(self) -> bool:
        return self._stop.is_set()


def run_pipelines(
    project: Project,
    chosen: Sequence[Pipeline],
    measure: Callable[[list[Progress]], None],
    *,
    is_once: bool,
) -> None:
    """Run until a signal or until all have ended. `measure` also receives every progress. Raises PipelineError."""
    from penstock.apps.cli.pipeline_view import view
    from penstock.spark.pipelines.analysis import analyse
    from penstock.spark.pipelines.runner import claimed, started, watch
    from penstock.spark.pipelines.session import spark_for

    signals = StopSignals()
    signals.arm()
    with claimed(project, chosen) as claims, spark_for(project) as spark:
        signals.arm()
        analyse(spark, project, chosen)
        with view() as show:
            shown = _both(show, measure)
            running: list[RunningPipeline] = []
            try:
                with started(spark, project, chosen, is_once=is_once, claims=claims) as running:
                    watch(running, shown, signals.is_set)
            finally:
                shown([one.last for one in running])


def _both(
    show: Callable[[list[Progress]], None], measure: Callable[[list[Progress]], None]
) -> Callable[[list[Progress]], None]:
    def take(looks: list[Progress]) -> None:
        show(looks)
        measure(looks)

    return take
