"""Runs of batches to Arrow: what cannot be read is named by its offsets."""

from __future__ import annotations

import pytest

from log_samples import garbage, keyed_batch
from penstock.core.errors import CorruptBatch
from penstock.core.records.batch import stamp
from penstock.core.records.columns import ColumnLoops, WantedRows, decode_columns
from penstock.core.records.loops import compiled_loops, plain_loops


@pytest.mark.parametrize(
    "loops", [compiled_loops("columns"), plain_loops("columns")], ids=["compiled", "plain"]
)
@pytest.mark.parametrize("kind", [name for name, _ in garbage()])
def test_a_batch_that_cannot_be_opened_is_named_by_its_offsets(kind: str, loops: ColumnLoops) -> None:
    content = bytearray()
    for offset, batch in ((0, keyed_batch([(b"k", b"v")])), (1, dict(garbage())[kind])):
        stamp(batch, offset, 0)
        content += batch
    with pytest.raises(CorruptBatch, match=r"^the batch of offsets 1 to 3 cannot be read: .+$"):
        decode_columns(bytes(content), WantedRows("orders", 0, 0, 10), [], loops)
