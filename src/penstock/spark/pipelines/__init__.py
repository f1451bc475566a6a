"""Pipelines from topics to tables and back, declared in a file or in Python. Never imports the node.

>>> from penstock.spark.pipelines import Workshop
"""

from __future__ import annotations

from penstock.spark.pipelines.loading import Workshop, load_project
from penstock.spark.pipelines.problems import PipelineError, WrongDefinition

__all__ = ["PipelineError", "Workshop", "WrongDefinition", "load_project"]
