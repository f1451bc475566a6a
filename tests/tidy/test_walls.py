"""The walls hold in this tree. Never a judgement by hand: each rule is a function in walls.py."""

from __future__ import annotations

import pytest

from tidy import walls
from tidy.sources import Source, python_sources, text_files

WAIVERS_GRANTED = 0
"""How many functions over the limit carry a reason. Raising this is a decision of its own."""

OWN_WORDS = ("tests/tidy/walls.py", "tests/tidy/test_walls_bite.py")
"""Files that must spell out what others may not contain."""

OFFERED = {
    "Aborted",
    "Broker",
    "Cluster",
    "Delivery",
    "Fenced",
    "Group",
    "Lag",
    "Message",
    "OffsetOutOfRange",
    "Partition",
    "Producer",
    "Record",
    "Refused",
    "TimedOut",
    "Topic",
}
"""Names that `client` and `testing` offer to users, who need not know that the broker has its own class for it."""

DEFINED_TWICE = {
    "read",
    "text",
    "write",
}
"""Names that still mean two things. A name that is renamed goes from this list; none is added."""


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    found = python_sources()
    assert len(found) > 10, "the tree was not found"
    return found


@pytest.fixture(scope="module")
def files() -> list[Source]:
    return [file for file in text_files() if file.path not in OWN_WORDS]


def test_imports_point_down(sources: list[Source]) -> None:
    assert walls.layer_breaches(sources) == []


def test_doors_see_only_the_waist(sources: list[Source]) -> None:
    assert walls.waist_breaches(sources) == []


def test_every_verb_is_told_who_calls(sources: list[Source]) -> None:
    assert walls.verbs_without_session(sources) == []


def test_what_is_written_once_is_called_once(sources: list[Source]) -> None:
    assert walls.second_callers(sources) == []


def test_no_import_cycles(sources: list[Source]) -> None:
    assert walls.cycles(sources) == []


def test_no_folder_cycles(sources: list[Source]) -> None:
    assert walls.folder_cycles(sources) == []


def test_no_root_imports(sources: list[Source]) -> None:
    assert walls.root_imports(sources) == []


def test_the_thought_does_not_touch_the_world(sources: list[Source]) -> None:
    assert walls.impurities(sources) == []


def test_files_are_short(sources: list[Source]) -> None:
    assert walls.long_files(sources) == []


def test_functions_are_short(sources: list[Source]) -> None:
    assert walls.long_functions(sources) == []


def test_waivers_are_counted(sources: list[Source]) -> None:
    waived = walls.waivers([source for source in sources if source.path not in OWN_WORDS])
    assert len(waived) == WAIVERS_GRANTED, waived


def test_every_room_has_a_sign(sources: list[Source]) -> None:
    assert walls.unsigned_rooms(sources) == []


def test_unit_tests_mirror_the_package(sources: list[Source]) -> None:
    assert walls.strayed_tests(sources) == []


def test_names_say_something(sources: list[Source]) -> None:
    assert walls.vague_names(sources) == []


def test_a_public_name_is_defined_once(sources: list[Source]) -> None:
    found = walls.second_definitions(sources)
    added = {name: modules for name, modules in found.items() if name not in OFFERED | DEFINED_TWICE}
    assert added == {}
    assert (OFFERED | DEFINED_TWICE) - found.keys() == set(), "defined once now: take it from the list"


def test_nothing_is_left_for_later(files: list[Source]) -> None:
    assert walls.unfinished(files) == []


def test_nothing_points_elsewhere(files: list[Source]) -> None:
    assert walls.places_elsewhere(files) == []
