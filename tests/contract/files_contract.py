"""What every implementation of the core's `Files` port must do. Never tests what a crash leaves.

Use: `class TestMine(FilesContract): def make_files(self, root): return MyFiles(root)`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from penstock.core.errors import TornSegment
from penstock.core.ports import Files


class FilesContract:
    """Inherit, give `make_files`, and pytest runs the suite over that implementation."""

    def make_files(self, root: Path) -> Files:
        """A fresh and empty tree; `root` is an empty directory for those that need one."""
        raise NotImplementedError

    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return self.make_files(tmp_path)

    def test_a_fresh_tree_is_empty(self, files: Files) -> None:
        assert files.names("") == []
        assert files.names("nowhere") == []
        assert not files.exists("a")
        assert files.read_whole("a") is None

    def test_a_missing_file_opens_only_when_created(self, files: Files) -> None:
        with pytest.raises(TornSegment):
            files.open("a")
        assert not files.exists("a")
        file = files.open("a", create=True)
        assert (file.path, file.size(), files.exists("a"), files.size("a")) == ("a", 0, True, 0)

    def test_buffers_of_every_kind_are_appended_as_one(self, files: Files) -> None:
        file = files.open("a", create=True)
        file.append([b"one", bytearray(b"two"), memoryview(b"three")])
        file.append([])
        file.append([b""])
        file.append([memoryview(b"xxfourxx")[2:6]])
        assert file.size() == files.size("a") == 15
        assert file.read(0, 15) == b"onetwothreefour"

    def test_more_buffers_than_one_system_call_takes(self, files: Files) -> None:
        file = files.open("a", create=True)
        pieces = [index.to_bytes(2, "big") for index in range(5_000)]
        file.append(pieces)
        assert file.read(0, 20_000) == b"".join(pieces)

    def test_the_buffers_may_change_after_the_append(self, files: Files) -> None:
        file = files.open("a", create=True)
        buffer = bytearray(b"before")
        file.append([buffer])
        buffer[:] = b"after!"
        assert file.read(0, 6) == b"before"

    def test_reads_stop_at_the_end(self, files: Files) -> None:
        file = files.open("a", create=True)
        file.append([b"0123456789"])
        assert file.read(3, 4) == b"3456"
        assert file.read(8, 100) == b"89"
        assert file.read(10, 1) == b""
        assert file.read(50, 1) == b""
        assert file.read(0, 0) == b""

    def test_create_keeps_what_is_there(self, files: Files) -> None:
        first = files.open("a", create=True)
        first.append([b"kept"])
        first.close()
        again = files.open("a", create=True)
        assert again.read(0, 10) == b"kept"
        again.append([b"!"])
        assert files.read_whole("a") == b"kept!"

    def test_open_files_share_the_content(self, files: Files) -> None:
        writer, reader = files.open("a", create=True), files.open("a")
        writer.append([b"hello"])
        assert (files.size("a"), reader.read(0, 10)) == (5, b"hello")

    def test_truncate_cuts_and_the_next_append_goes_there(self, files: Files) -> None:
        file = files.open("a", create=True)
        file.append([b"0123456789"])
        file.truncate(4)
        assert (file.size(), file.read(0, 10)) == (4, b"0123")
        file.append([b"new"])
        assert file.read(0, 10) == b"0123new"
        file.truncate(0)
        assert (file.size(), files.read_whole("a")) == (0, b"")

    def test_syncs_change_nothing_that_is_seen(self, files: Files) -> None:
        files.make_dir("d")
        file = files.open("d/a", create=True)
        file.append([b"data"])
        file.sync()
        file.sync()
        files.sync_dir("d")
        files.sync_dir("")
        assert files.read_whole("d/a") == b"data"
        assert files.names("d") == ["a"]

    def test_directories_come_with_their_parents(self, files: Files) -> None:
        files.make_dir("x/y/z")
        files.make_dir("x/y/z")
        files.make_dir("x")
        assert (files.names(""), files.names("x"), files.names("x/y/z")) == (["x"], ["y"], [])
        assert files.exists("x/y")

    def test_names_are_sorted_and_of_one_directory(self, files: Files) -> None:
        files.make_dir("d/sub")
        for name in ("d/10", "d/9", "d/a", "d/B", "d/sub/deep", "top"):
            files.open(name, create=True)
        assert files.names("d") == ["10", "9", "B", "a", "sub"]
        assert files.names("") == ["d", "top"]

    def test_rename_replaces_the_target(self, files: Files) -> None:
        files.write_whole("old", b"new content")
        files.write_whole("target", b"stale")
        files.rename("old", "target")
        assert files.read_whole("target") == b"new content"
        assert files.names("") == ["target"]

    def test_rename_moves_directories_and_crosses_them(self, files: Files) -> None:
        files.make_dir("d")
        files.make_dir("e")
        files.write_whole("d/a", b"1")
        files.rename("d/a", "e/b")
        files.rename("e", "f")
        assert (files.names(""), files.names("d"), files.names("f")) == (["d", "f"], [], ["b"])
        assert files.read_whole("f/b") == b"1"

    def test_remove_is_content_with_nothing(self, files: Files) -> None:
        files.write_whole("a", b"x")
        files.remove("a")
        files.remove("a")
        assert not files.exists("a")
        assert files.names("") == []

    def test_a_removed_name_starts_empty_again(self, files: Files) -> None:
        files.write_whole("a", b"old")
        files.remove("a")
        assert files.open("a", create=True).size() == 0

    def test_remove_dir_takes_all_below(self, files: Files) -> None:
        files.make_dir("d/sub")
        files.write_whole("d/a", b"1")
        files.write_whole("d/sub/b", b"2")
        files.write_whole("dd", b"stays")
        files.remove_dir("d")
        files.remove_dir("d")
        assert files.names("") == ["dd"]
        assert files.read_whole("d/sub/b") is None

    def test_write_whole_replaces_and_leaves_no_litter(self, files: Files) -> None:
        files.make_dir("d")
        files.write_whole("d/state", b"first, longer")
        files.write_whole("d/state", b"second")
        assert files.read_whole("d/state") == b"second"
        assert files.names("d") == ["state"]
        files.write_whole("d/state", b"")
        assert files.read_whole("d/state") == b""

    def test_write_whole_without_a_sync_shows_the_same(self, files: Files) -> None:
        files.make_dir("d")
        files.write_whole("d/state", b"first, longer")
        files.write_whole("d/state", b"second", sync=False)
        assert files.read_whole("d/state") == b"second"
        assert files.names("d") == ["state"]

    def test_the_space_is_known_or_means_nothing(self, files: Files) -> None:
        total, free = files.space()
        assert (total, free) == (-1, -1) or 0 <= free <= total

    def test_a_pinned_file_is_readable_after_its_removal(self, files: Files) -> None:
        files.make_dir("d")
        file = files.open("d/a", create=True)
        file.append([b"still here"])
        file.pin()
        file.pin()
        files.remove("d/a")
        assert not files.exists("d/a")
        file.unpin()
        assert file.read(0, 100) == b"still here"
        file.unpin()
        file.close()
        assert files.names("d") == []

    def test_a_flush_that_comes_after_the_end_of_its_file_is_no_error(self, files: Files) -> None:
        file = files.open("a", create=True)
        file.append([b"x"])
        files.remove("a")
        file.close()
        file.sync()
        assert files.names("") == []

    def test_a_handle_is_a_descriptor_or_nothing(self, files: Files) -> None:
        handle = files.open("a", create=True).handle()
        assert handle is None or handle >= 0

    def test_random_work_agrees_with_a_model(self, files: Files) -> None:
        chance = random.Random(20)
        model: dict[str, bytes] = {}
        for _ in range(400):
            name = chance.choice("abcd")
            self._one_random_act(files, model, name, chance)
            assert files.names("") == sorted(model)
            assert files.read_whole(name) == model.get(name)

    def _one_random_act(
        self, files: Files, model: dict[str, bytes], name: str, chance: random.Random
    ) -> None:
        act = chance.choice(("append", "append", "append", "truncate", "remove", "rename", "whole"))
        if act == "append":
            data = chance.randbytes(chance.randrange(2_000))
            file = files.open(name, create=True)
            file.append([data[:7], data[7:]])
            file.close()
            model[name] = model.get(name, b"") + data
        elif act == "truncate" and name in model:
            size = chance.randint(0, len(model[name]))
            file = files.open(name)
            file.truncate(size)
            file.close()
            model[name] = model[name][:size]
        elif act == "remove":
            files.remove(name)
            model.pop(name, None)
        elif act == "rename" and name in model:
            files.rename(name, "d")
            model["d"] = model.pop(name)
        elif act == "whole":
            model[name] = chance.randbytes(100)
            files.write_whole(name, model[name])
