"""Opens a table by format name. Imports the library of a format only when it is used."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.lake.port import LakeTable


def open_table(root: Path, format_name: str) -> LakeTable:
    """The table in a directory; it need not exist yet."""
    if format_name == "delta":
        from penstock.spark.lake.delta import DeltaLake

        return DeltaLake(root)
    if format_name == "iceberg":
        from penstock.spark.lake.iceberg import IcebergLake

        return IcebergLake(root)
    from penstock.spark.lake.parquet import ParquetLake

    assert format_name == "parquet", format_name
    return ParquetLake(root)
