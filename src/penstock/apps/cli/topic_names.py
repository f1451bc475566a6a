"""The names of the topics whose directories lie below a data directory, from its metadata log. Never changes a file."""

from __future__ import annotations

from pathlib import Path

from penstock.core.errors import BrokerError
from penstock.core.log.inspect import dump
from penstock.core.machines.catalog.events import TopicSaved, decode
from penstock.node.broker import TOPICS_DIRECTORY
from penstock.node.cluster.metadata_file import DIRECTORY as METADATA_DIRECTORY
from penstock.node.runtime.disk import DiskFiles

OPEN_FILES_MAX = 16


class TopicNames:
    """Finds the topic and partition of a log's directory. Reads each metadata log once."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, str]] = {}

    def of(self, directory: Path) -> tuple[str, int] | None:
        """`<data>/topics/<id>/<partition>` to its topic and partition; None where the name is not known."""
        topic_directory = directory.parent
        if topic_directory.parent.name != TOPICS_DIRECTORY or not directory.name.isdecimal():
            return None
        name = self._below(topic_directory.parent.parent).get(topic_directory.name)
        return None if name is None else (name, int(directory.name))

    def _below(self, root: Path) -> dict[str, str]:
        if root not in self._known:
            self._known[root] = dict(_read(root))
        return self._known[root]


def _read(root: Path) -> list[tuple[str, str]]:
    """Ids in hexadecimal, and names. What cannot be read is left out: `log verify` reports it."""
    found = []
    files = DiskFiles(root, OPEN_FILES_MAX, read_only=True)
    try:
        for batch in dump(files, METADATA_DIRECTORY, with_records=True):
            for record in batch.records or ():
                event = decode(record.key, record.value)
                if isinstance(event, TopicSaved):
                    found.append((event.topic.id.hex(), event.topic.name))
    except BrokerError:
        return found
    return found
