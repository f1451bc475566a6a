"""Pipelines between topics and tables, declared in YAML or Python. Never imports the node.

>>> from penstock.spark.pipelines import Workshop
"""

from __future__ import annotations

from penstock.spark.errors import PipelineError, WrongDefinition
from penstock.spark.pipelines.loader import Workshop, load_project

__all__ = ["PipelineError", "Workshop", "WrongDefinition", "load_project"]
