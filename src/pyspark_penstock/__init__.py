"""The package that Spark discovers by its name: exports the data source `penstock` and nothing else."""

from penstock.spark.source import PenstockSource as DefaultSource

__all__ = ["DefaultSource"]
