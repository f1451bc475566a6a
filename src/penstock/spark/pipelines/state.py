"""The state directory of a pipeline: identity, lock, status, checkpoint. Never reads a record.

`pipeline.json` is written once. It identifies the definition that the checkpoint belongs to, and holds an id that is
part of every mark: a pipeline that starts from scratch gets a new id, so its batches are not mistaken for older ones.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.spark.errors import AlreadyRunning, ForeignCheckpoint, PipelineError
from penstock.spark.pipelines.definition import Pipeline

_IDENTITY = "pipeline.json"
_STATUS = "status.json"


class PipelineState:
    """Persistent state of one pipeline."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = directory / "checkpoint"

    def claim(self, pipeline: Pipeline) -> str:
        """The id of this pipeline, created at its first run. Raises ForeignCheckpoint."""
        wanted = belonging(pipeline)
        found = self.read(_IDENTITY)
        if found is None:
            if self.checkpoint.exists():
                raise ForeignCheckpoint(
                    f"{self.checkpoint} exists without {_IDENTITY}: it does not belong to a pipeline. "
                    "Set state_dir to another directory."
                )
            found = {"id": uuid.uuid4().hex[:12], "belongs_to": wanted}
            self.write(_IDENTITY, found)
        if found["belongs_to"] != wanted:
            raise ForeignCheckpoint(self._difference(pipeline.name, found["belongs_to"], wanted))
        return f"{pipeline.name}:{found['id']}"

    def _difference(self, name: str, before: dict[str, Any], now: dict[str, Any]) -> str:
        changed = [
            f"{key} was {json.dumps(before.get(key))} and is {json.dumps(now.get(key))}"
            for key in sorted({*before, *now})
            if before.get(key) != now.get(key)
        ]
        return (
            f"the checkpoint {self.directory} belongs to another definition of {name}: {'; '.join(changed)}. "
            "Rename the pipeline to run it alongside the old one, revert the definition, "
            f"or remove {self.directory} to start from scratch (rows already written stay)."
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the pipeline against other processes. The operating system releases the lock when the process dies."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise AlreadyRunning(
                    f"{self.directory.name} is already running in process {lock.read().strip() or 'unknown'}. "
                    "Stop it first, or use another name or state_dir."
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    @property
    def is_running(self) -> bool:
        if not (self.directory / "lock").exists():
            return False
        with (self.directory / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def status(self) -> dict[str, Any] | None:
        return self.read(_STATUS)

    def put_status(self, status: dict[str, Any]) -> None:
        """Replace atomically, without fsync: a crash may lose the last status, and nothing depends on it."""
        self._write(_STATUS, status, is_durable=False)

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Replace atomically; durable when this returns."""
        self._write(name, content, is_durable=True)

    def _write(self, name: str, content: dict[str, Any], *, is_durable: bool) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        draft = self.directory / f".{name}.draft"
        with draft.open("w", encoding="utf-8") as out:
            json.dump(content, out, indent=1)
            out.flush()
            if is_durable:
                os.fsync(out.fileno())
        draft.rename(self.directory / name)

    def read(self, name: str) -> dict[str, Any] | None:
        """Read a state file, such as the position of a redrive."""
        file = self.directory / name
        if not file.exists():
            return None
        try:
            content = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise PipelineError(
                f"{file} is not valid JSON: {error}. Remove it if the pipeline is not running."
            ) from error
        assert isinstance(content, dict)
        return content


@dataclass(frozen=True)
class PipelineClaim:
    """A locked pipeline: its state, and the name used in its marks."""

    state: PipelineState
    app: str


def belonging(pipeline: Pipeline) -> dict[str, Any]:
    """The parts of a definition a checkpoint depends on: offsets on the source, state on the steps, marks on the sink.

    Everything else may change between runs: triggers, limits, rules, added columns, stateless steps.
    """
    source, sink = pipeline.source, pipeline.sink
    return {
        "topics": sorted(source.topics) or source.pattern,
        "history": source.history.table if source.history else None,
        "sink": sink.topic or f"{sink.format}:{sink.table}",
        "mode": sink.mode,
        "steps with state": [repr(step) for step in pipeline.steps if step.keeps_state],
    }
