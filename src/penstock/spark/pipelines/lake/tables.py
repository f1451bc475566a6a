"""Which class a format's name stands for. Imports a format's library only when it is asked for."""

from __future__ import annotations

from pathlib import Path

from penstock.spark.pipelines.lake.port import LakeTable


def open_table(place: Path, format_name: str) -> LakeTable:
    """The table at a place; it need not exist yet."""
    if format_name == "delta":
        from penstock.spark.pipelines.lake.delta import DeltaLake

        return DeltaLake(place)
    if format_name == "iceberg":
        from penstock.spark.pipelines.lake.iceberg import IcebergLake

        return IcebergLake(place)
    from penstock.spark.pipelines.lake.parquet import ParquetLake

    assert format_name == "parquet", format_name
    return ParquetLake(place)
