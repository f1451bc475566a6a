"""Maps directories of logs to topic names, from the metadata log of the data directory. Never changes a file."""

from __future__ import annotations

from pathlib import Path

from penstock.core.errors import BrokerError
from penstock.core.log.inspect import dump
from penstock.core.machines.catalog.events import TopicSaved, decode
from penstock.node.cluster.metadata_file import DIRECTORY as METADATA_DIRECTORY
from penstock.node.replicas.partition_table import TOPICS_DIRECTORY
from penstock.node.runtime.disk import DiskFiles

OPEN_FILES_MAX = 16


class TopicNames:
    """Looks up the topic and partition of a log's directory. Reads each metadata log once."""

    def __init__(self) -> None:
        self._known: dict[Path, dict[str, str]] = {}

    def of(self, directory: Path) -> tuple[str, int] | None:
        """`<data>/topics/<id>/<partition>` to its topic and partition; None if unknown."""
        topic_directory = directory.parent
        if topic_directory.parent.name != TOPICS_DIRECTORY or not directory.name.isdecimal():
            return None
        name = self._below(topic_directory.parent.parent).get(topic_directory.name)
        return None if name is None else (name, int(directory.name))

    def directories(self, root: Path) -> dict[str, list[Path]]:
        """The logs of every topic in a data directory, or in those of the brokers below a local cluster's."""
        names: dict[str, str] = {}
        roots = [root, *sorted(one for one in root.iterdir() if one.is_dir())]
        for one in roots:
            if (one / METADATA_DIRECTORY).is_dir():
                names |= self._below(one)
        found: dict[str, list[Path]] = {}
        for one in roots:
            for directory in sorted((one / TOPICS_DIRECTORY).glob("*/*")):
                name = names.get(directory.parent.name)
                if name is not None and directory.name.isdecimal():
                    found.setdefault(name, []).append(directory)
        return found

    def _below(self, root: Path) -> dict[str, str]:
        if root not in self._known:
            self._known[root] = dict(_read(root))
        return self._known[root]


def _read(root: Path) -> list[tuple[str, str]]:
    """Topic ids in hexadecimal, and names. Damaged records are skipped: `log verify` reports them."""
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
