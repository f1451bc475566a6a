"""What Spark finds by itself: the data source `penstock`. Never holds anything of its own."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
