"""Each wall catches a breach: a rule that cannot fail protects nothing."""

from __future__ import annotations

import pytest

from tidy import walls
from tidy.sources import Source


def src(path: str, text: str) -> Source:
    return Source(f"src/penstock/{path}", text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/model.py", "from penstock.node import settings"),
        ("core/model.py", "def f():\n    import penstock.wire.kafka"),
        ("core/log/log.py", "from penstock.core.machines import catalog"),
        ("core/machines/classic_group/group.py", "import penstock.core.log"),
        ("doors/kafka/server.py", "from penstock.doors.text import server"),
        ("node/broker.py", "from penstock.doors.kafka import server"),
        ("client/producer.py", "from penstock.node import disk"),
        ("spark/source.py", "from penstock.core import model"),
        ("wire/kafka/frames.py", "from ...node import disk"),
    ],
)
def test_layers(path: str, text: str) -> None:
    assert len(walls.layer_breaches([src(path, text)])) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("apps/serve.py", "import penstock.doors.kafka.server, penstock.core.model"),
        (
            "doors/kafka/server.py",
            "from penstock.doors.kafka import errors\nfrom penstock.node import slices",
        ),
        ("spark/source.py", "from penstock.core.records import columns"),
        ("core/log/log.py", "from penstock.core import ports\nfrom . import segment"),
        ("apps/cli/main.py", "from penstock.core.version import __version__"),
    ],
)
def test_layers_let_pass(path: str, text: str) -> None:
    assert walls.layer_breaches([src(path, text)]) == []


@pytest.mark.parametrize(
    "text",
    [
        "from penstock.node.broker import Broker",
        "from penstock.node import partition",
        "def f():\n    import penstock.node.coordinators.groups",
        "from penstock.node.settings import Settings",
        "from penstock.core.machines.catalog.catalog import Catalog",
        "from penstock.core.log import segment",
        "def f(waist):\n    return waist._broker.catalog",
        "def f(self):\n    return self._door._waist",
    ],
)
def test_the_waist_is_a_wall(text: str) -> None:
    assert len(walls.waist_breaches([src("doors/kafka/server.py", text)])) == 1
    assert walls.waist_breaches([src("node/connections/listener.py", text)]) == [], (
        "only doors stand before it"
    )


def test_the_waist_lets_pass() -> None:
    text = """
from penstock.core.errors import BrokerError
from penstock.node.connections.connection import Connection
from penstock.core.session import Session
from penstock.node.waist.topics import NewTopic
from penstock.wire.kafka import messages
def f(self, new):
    return self._waist, new._replace(name="x"), new.__class__
"""
    assert walls.waist_breaches([src("doors/kafka/server.py", text)]) == []


def test_verbs_take_a_session_first() -> None:
    verbs = """
class GroupVerbs:
    @property
    def are_ready(self): ...
    def release_waiting(self): ...
    def _find(self, name): ...
    async def join(self, session, name): ...
    def leave(self, name): ...
"""
    assert walls.verbs_without_session([src("node/waist/groups.py", verbs)]) == [
        "src/penstock/node/waist/groups.py:8: GroupVerbs.leave"
    ]
    assert walls.verbs_without_session([src("node/coordinators/groups.py", verbs)]) == []


def test_second_callers() -> None:
    text = "def f(catalog):\n    return catalog.decide_create_topic('orders')"
    assert len(walls.second_callers([src("doors/http/topics.py", text)])) == 1
    assert walls.second_callers([src("node/topic_creation.py", text)]) == []


def test_cycles() -> None:
    ring = [
        src("node/a.py", "from penstock.node import b"),
        src("node/b.py", "def late():\n    from penstock.node.c import thing"),
        src("node/c.py", "import penstock.node.a"),
    ]
    assert walls.cycles(ring) == ["penstock.node.a → penstock.node.b → penstock.node.c → penstock.node.a"]
    assert walls.cycles(ring[:2]) == []


@pytest.mark.parametrize(
    "text",
    [
        "from penstock.node.store import disk",
        "import penstock.node.store.disk",
        "from .store import disk",
        "from penstock.node.store import Disk",
        "def late():\n    from penstock.node.store.disk import Disk",
        "if TYPE_CHECKING:\n    from penstock.node.store.disk import Disk",
    ],
)
def test_folder_cycles(text: str) -> None:
    """Modules in a line are still a cycle of their folders."""
    files = [
        src("node/__init__.py", ""),
        src("node/store/__init__.py", ""),
        src("node/broker.py", text),
        src("node/store/disk.py", ""),
        src("node/store/cache.py", "from penstock.node.settings import Settings"),
        src("node/settings.py", ""),
    ]
    assert walls.cycles(files) == []
    assert walls.folder_cycles(files) == ["penstock.node ↔ penstock.node.store"]


def test_folder_cycles_of_three() -> None:
    loop = [
        src("spark/a/one.py", "from penstock.spark.b.two import two"),
        src("spark/b/two.py", ""),
        src("spark/b/three.py", "def late():\n    import penstock.spark.c.four"),
        src("spark/c/four.py", ""),
        src("spark/c/five.py", "from penstock.spark.a import six"),
        src("spark/a/six.py", ""),
    ]
    assert walls.folder_cycles(loop) == [
        "penstock.spark.a → penstock.spark.b → penstock.spark.c → penstock.spark.a"
    ]
    assert walls.folder_cycles(loop[:4]) == []


def test_folder_cycles_let_pass() -> None:
    files = [
        src("client/__init__.py", ""),
        src("client/errors.py", "from . import access"),
        src("client/access.py", "import os"),
        src("client/raw/cluster.py", "from penstock.client import errors\nfrom . import connection"),
        src("client/raw/connection.py", "from penstock.client.errors import ClientError"),
    ]
    assert walls.folder_cycles(files) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("apps/cli/main.py", "from penstock import __version__"),
        ("apps/serve.py", "import penstock"),
        ("client/queue/line.py", "from ... import Producer"),
        ("spark/sink.py", "def late():\n    from penstock import Producer"),
        ("spark/sink.py", "if TYPE_CHECKING:\n    from penstock import Producer"),
    ],
)
def test_root_imports(path: str, text: str) -> None:
    assert len(walls.root_imports([src(path, text)])) == 1


def test_root_imports_let_pass() -> None:
    files = [
        src("core/version.py", "__version__ = '1'"),
        src("core/__init__.py", ""),
        src("apps/serve.py", "from penstock import core\nfrom penstock.core.version import __version__"),
        Source("tests/unit/test_package.py", "import penstock"),
    ]
    assert walls.root_imports(files) == []


def test_impurities() -> None:
    assert walls.impurities([src("core/model.py", "import os.path")])
    assert walls.impurities([src("wire/kafka/frames.py", "from socket import socket")])
    assert not walls.impurities([src("node/runtime/disk.py", "import os")])


def test_lengths_and_waivers() -> None:
    body = "\n".join("    x = 1" for _ in range(walls.FUNCTION_LINES_MAX))
    assert walls.long_functions([src("node/a.py", f"def f():\n{body}\n")])
    waived = src("node/a.py", f"async def f():  # waiver: one table, read as one\n{body}\n")
    assert not walls.long_functions([waived])
    assert len(walls.waivers([waived])) == 1
    assert walls.long_functions([src("node/a.py", f"def f():  # waiver:\n{body}\n")])
    assert walls.long_files([src("node/a.py", "x = 1\n" * (walls.FILE_LINES_MAX + 1))])
    assert not walls.long_files([src("node/a.py", "x = 1\n" * walls.FILE_LINES_MAX)])


def test_signs() -> None:
    assert walls.unsigned_rooms([src("node/a.py", "import os\n")])
    assert not walls.unsigned_rooms([src("node/a.py", '"""A room."""\n')])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("node/utils.py", ""),
        ("node/log_helpers.py", ""),
        ("common/a.py", ""),
        ("node/a.py", "class TopicManager: ..."),
        ("node/a.py", "class BaseLog: ..."),
        ("node/a.py", "def helper(): ..."),
    ],
)
def test_names(path: str, text: str) -> None:
    assert len(walls.vague_names([src(path, text)])) == 1


def test_names_let_pass() -> None:
    assert not walls.vague_names([src("node/a.py", "class Baseline: ...\ndef base_offset(): ...")])


def test_second_definitions() -> None:
    first = src("node/a.py", "class Place: ...\ndef read(): ...\ndef _own(): ...\ndef decode(): ...")
    second = src("client/b.py", "class Place: ...\nasync def read(): ...\ndef _own(): ...\ndef decode(): ...")
    assert walls.second_definitions([first, second]) == {
        "Place": ["client.b", "node.a"],
        "read": ["client.b", "node.a"],
    }


def test_second_definitions_let_pass() -> None:
    forms = [
        src("core/records/walk_loops.py", "def walk(): ..."),
        src("core/records/walk_compiled.py", "def walk(): ..."),
    ]
    command = src("apps/cli/topic.py", "@topic.command()\ndef walk(): ...")
    method = src("node/a.py", "class Row:\n    def walk(self): ...\n    class Walk: ...")
    assert walls.second_definitions([*forms, command, method]) == {}


@pytest.mark.parametrize("line", ["# TODO later", "x = 1  # FIXME", "XXX"])
def test_unfinished(line: str) -> None:
    assert walls.unfinished([Source("docs/a.md", line)])


@pytest.mark.parametrize(
    "line",
    [
        "cd /work/elsewhere",
        "see /root/x",
        "--index-url https://x",
        "https://" + "registry.example.invalid/a",
        "https://" + "repo1.example.invalid/maven/a",
    ],
)
def test_elsewhere(line: str) -> None:
    assert walls.places_elsewhere([Source("docs/a.md", line)])


def test_elsewhere_lets_pass() -> None:
    assert not walls.places_elsewhere([Source("docs/a.md", "docs/work/plan and ./home/x, /var/log/broker")])


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/test_segment.py", "from penstock.node import disk"),
        ("node/test_segment.py", "from penstock.core.log.segment import Segment"),
        ("gone/test_segment.py", "from penstock.core.log.segment import Segment"),
    ],
)
def test_strayed_tests(path: str, text: str) -> None:
    package = [src("core/log/segment.py", ""), src("node/disk.py", "")]
    assert len(walls.strayed_tests([*package, Source(f"tests/unit/{path}", text)])) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("unit/core/log/test_segment.py", ""),
        ("unit/core/log/test_segment_roll.py", ""),
        ("unit/core/log/test_newest_time.py", "from penstock.core.log.segment import Segment"),
        ("unit/core/log/disks.py", ""),
        ("sim/test_disk.py", ""),
    ],
)
def test_strayed_tests_let_pass(path: str, text: str) -> None:
    package = [src("core/log/segment.py", ""), src("node/disk.py", "")]
    assert walls.strayed_tests([*package, Source(f"tests/{path}", text)]) == []
