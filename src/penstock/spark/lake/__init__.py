"""Tables: Delta, Iceberg and plain Parquet behind one port (`port.LakeTable`). Never reads a topic or imports Spark."""
