"""Directories of partitions that belong to other brokers: found, set aside, deleted a day later, never at once."""

from __future__ import annotations

from cluster_play import ClusterPlay, topic_id
from penstock.node.replicas.strays import STRAY_MS_MAX, remove_old_strays, set_aside, stray_directories
from penstock.node.runtime.memory import MemoryFiles

ROOT = "topics"
ORDERS = f"{ROOT}/{topic_id('orders').hex()}"


def files_of(*directories: str) -> MemoryFiles:
    files = MemoryFiles()
    for directory in directories:
        files.make_dir(directory)
        files.write_whole(f"{directory}/00000000000000000000.log", b"records")
    return files


def test_only_partitions_that_metadata_places_elsewhere_are_strays() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1], [2])
    unknown = f"{ROOT}/{topic_id('unknown').hex()}/0"
    files = files_of(f"{ORDERS}/0", f"{ORDERS}/1", f"{ORDERS}/2", f"{ORDERS}/0.stray-1", unknown, f"{ROOT}/x")
    assert stray_directories(files, ROOT, play.cluster, 1) == [f"{ORDERS}/1"]
    assert stray_directories(files, ROOT, ClusterPlay().cluster, 1) == [], "a single node holds everything"


def test_they_are_renamed_and_deleted_after_a_period() -> None:
    files = files_of(f"{ORDERS}/0")
    first = set_aside(files, f"{ORDERS}/0", 1_000)
    files.make_dir(f"{ORDERS}/0")
    second = set_aside(files, f"{ORDERS}/0", 1_000)
    assert first != second and not files.exists(f"{ORDERS}/0")
    assert files.read_whole(f"{first}/00000000000000000000.log") == b"records"
    assert remove_old_strays(files, ROOT, 1_000 + STRAY_MS_MAX) == []
    assert remove_old_strays(files, ROOT, 1_001 + STRAY_MS_MAX) == [first]
    assert not files.exists(first) and files.exists(second)


def test_what_has_another_name_is_left_alone() -> None:
    files = files_of(f"{ORDERS}/0", f"{ORDERS}/1.stray-", f"{ORDERS}/2.stray-x", f"{ROOT}/other/3.stray-1")
    assert remove_old_strays(files, ROOT, 10**15) == []
