"""The directory of a pipeline: whose it is, its lock, its status, its checkpoint. Never reads a record.

`pipeline.json` is written once. It names the definition that the checkpoint belongs to, and an id that is part of every
mark: a pipeline that is started from nothing has another id, so its batches are not taken for those of an older one.
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
    """What is kept about one pipeline between its runs."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.checkpoint = directory / "checkpoint"

    def claim(self, pipeline: Pipeline) -> str:
        """The id of this pipeline; made at its first run. Raises ForeignCheckpoint."""
        wanted = belonging(pipeline)
        found = self.read(_IDENTITY)
        if found is None:
            if self.checkpoint.exists():
                raise ForeignCheckpoint(
                    f"{self.checkpoint} is there, but not {_IDENTITY} beside it: it belongs to something else. "
                    "Give state_dir another directory."
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
            f"The checkpoint {self.directory} belongs to another definition of {name}: {'; '.join(changed)}. "
            "Give the pipeline another name to start it beside the old one, change the definition back, "
            f"or remove {self.directory} to start from nothing (rows that were written before stay)."
        )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Nobody else runs this pipeline meanwhile. The lock ends with the process, however that ends."""
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                raise AlreadyRunning(
                    f"{self.directory.name} is run by process {lock.read().strip() or 'unknown'} already. "
                    "Stop that one first, or give this one another name or state_dir."
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
        """Whole or not at all. Not flushed to the disk: a crash may lose the last one, and nothing depends on it."""
        self._write(_STATUS, status, is_durable=False)

    def write(self, name: str, content: dict[str, Any]) -> None:
        """Whole or not at all, and on the disk when this returns."""
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
        """A small file of this pipeline, such as how far a redrive has come."""
        file = self.directory / name
        if not file.exists():
            return None
        try:
            content = json.loads(file.read_text("utf-8"))
        except ValueError as error:
            raise PipelineError(f"{file} cannot be read: {error}. Remove it if nothing runs here.") from error
        assert isinstance(content, dict)
        return content


@dataclass(frozen=True)
class PipelineClaim:
    """A locked pipeline: its state, and the name that is part of its marks."""

    state: PipelineState
    app: str


def belonging(pipeline: Pipeline) -> dict[str, Any]:
    """What a checkpoint is bound to: positions to the source, state to its steps, marks to the sink.

    All else may change between runs: triggers, limits, rules, columns that are added, steps without a memory.
    """
    source, sink = pipeline.source, pipeline.sink
    return {
        "topics": sorted(source.topics) or source.pattern,
        "history": source.history.table if source.history else None,
        "sink": sink.topic or f"{sink.format}:{sink.table}",
        "mode": sink.mode,
        "steps with state": [repr(step) for step in pipeline.steps if step.keeps_state],
    }
