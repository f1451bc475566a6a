"""Operations are counted as they are begun, without reading a diary twice."""

from __future__ import annotations

from pathlib import Path

from checker.history import INVOKE, WORK, operations
from checker.model import Model
from checker.tally import Tally


def test_as_many_as_the_history_has(tmp_path: Path) -> None:
    events = Model(3).history(200)
    lines = [event.encode() + "\n" for event in events]
    wanted = [sum(op.f in WORK for op in operations(events[:upto])) for upto in range(len(events) + 1)]
    tally = Tally(tmp_path)
    assert tally.count() == 0
    with (tmp_path / "diary-001.jsonl").open("w") as diary:
        for place, line in enumerate(lines):
            diary.write(line[:10])
            diary.flush()
            assert tally.count() == wanted[place], "half a line does not count"
            diary.write(line[10:])
            diary.flush()
            assert tally.count() == wanted[place + 1]
    (tmp_path / "diary-002.jsonl").write_text(
        next(line for line in lines if f'"{INVOKE}","f":"send"' in line)
    )
    assert tally.count() == wanted[-1] + 1
