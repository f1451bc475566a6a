"""Prometheus metrics of running pipelines, from their last progress report. Never measures anything itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, start_http_server

from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.supervision import FAILED, RUNNING


class PipelineMetrics:
    """One registry for all pipelines of a process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._is_up = self._gauge("up", "1 while the pipeline runs")
        self._is_failed = self._gauge("failed", "1 when the pipeline has failed for good")
        self._restarts = self._gauge("restarts", "consecutive restarts")
        self._batch = self._gauge("batch", "number of the last batch")
        self._rows = self._gauge("rows_total", "rows read since the process started")
        self._pace = self._gauge("rows_per_second", "throughput of the last batch")
        self._duration = self._gauge("batch_seconds", "duration of the last batch")
        self._state_rows = self._gauge("state_rows", "rows in the state of windows and functions")
        self._state_bytes = self._gauge("state_bytes", "memory used by that state")
        self._lag = self._gauge("lag_records", "records behind the end of the topic", "topic")

    def _gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        return Gauge(f"penstock_pipeline_{name}", meaning, ["pipeline", *labels], registry=self.registry)

    def serve(self, host: str, port: int) -> int:
        """Serve metrics; returns the port (0 picks a free one)."""
        server, _ = start_http_server(port, addr=host, registry=self.registry)
        return int(server.server_port)

    def show(self, looks: list[Progress]) -> None:
        for progress in looks:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        name = progress.pipeline
        self._is_up.labels(name).set(progress.state == RUNNING)
        self._is_failed.labels(name).set(progress.state == FAILED)
        self._restarts.labels(name).set(progress.restarts)
        self._batch.labels(name).set(progress.batch)
        self._rows.labels(name).set(progress.rows_total)
        self._pace.labels(name).set(progress.rows_per_s)
        self._duration.labels(name).set(progress.batch_ms / 1000)
        self._state_rows.labels(name).set(progress.state_rows)
        self._state_bytes.labels(name).set(progress.state_bytes)
        for topic, behind in progress.lag.items():
            self._lag.labels(name, topic).set(behind)
