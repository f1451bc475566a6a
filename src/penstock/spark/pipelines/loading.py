"""A project from its file, YAML or Python, or from Python calls. Never starts anything."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.spark.pipelines.checking import check_pipeline
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.problems import Problem, Problems, WrongDefinition
from penstock.spark.pipelines.shapes import read_shape

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def load_project(file: Path) -> Project:
    """The project that a file defines. Raises WrongDefinition with every problem that it has."""
    if not file.is_file():
        remedy = "Write a first project with: penstock pipeline init"
        raise WrongDefinition([Problem(str(file), "there is no such file.", remedy)])
    if file.suffix == ".py":
        return _load_python(file)
    return read_project(_load_yaml(file), file.resolve().parent, file.name)


def read_project(raw: object, home: Path, label: str = "project") -> Project:
    """The same from plain values. Paths in it start at `home`."""
    problems = Problems()
    raw = _expanded(raw, label, problems)
    if not isinstance(raw, Mapping):
        raise WrongDefinition([Problem(label, "holds no mapping.", "Start with `pipelines:`.")])
    rest = {name: value for name, value in raw.items() if name != "pipelines"}
    project = read_shape(Project, rest, label, problems)
    pipelines = _read_pipelines(raw.get("pipelines"), f"{label}.pipelines", home, problems)
    problems.raise_any()
    assert project is not None
    return dataclasses.replace(project, pipelines=pipelines, home=home)


def _read_pipelines(raw: object, path: str, home: Path, problems: Problems) -> tuple[Pipeline, ...]:
    if not isinstance(raw, Mapping) or not raw:
        problems.add(path, "is missing.", "Give each pipeline a name, with source and sink below it.")
        return ()
    found = []
    for name, body in raw.items():
        if not isinstance(body, Mapping):
            problems.add(f"{path}.{name}", "expected a mapping.", "It needs source and sink.")
            continue
        pipeline = read_shape(Pipeline, {"name": str(name), **body}, f"{path}.{name}", problems)
        if pipeline is not None:
            check_pipeline(pipeline, f"{path}.{name}", home, problems)
            found.append(pipeline)
    return tuple(found)


def _load_yaml(file: Path) -> object:
    import yaml

    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WrongDefinition([Problem(file.name, f"is no YAML: {' '.join(str(error).split())}.")]) from error


def _load_python(file: Path) -> Project:
    try:
        names = runpy.run_path(str(file))
    except (SyntaxError, NameError, ImportError) as error:
        problem = Problem(file.name, f"does not load: {type(error).__name__}: {error}.")
        raise WrongDefinition([problem]) from error
    found = [value for value in names.values() if isinstance(value, Workshop)]
    if len(found) != 1:
        remedy = "Make one: shop = Workshop(bootstrap=…)."
        raise WrongDefinition([Problem(file.name, f"holds {len(found)} projects.", remedy)])
    return found[0].project(file.resolve().parent, file.name)


def _expanded(raw: object, path: str, problems: Problems) -> object:
    """`${NAME}` and `${NAME:-otherwise}` in texts stand for variables of the environment."""
    if isinstance(raw, Mapping):
        return {name: _expanded(value, f"{path}.{name}", problems) for name, value in raw.items()}
    if isinstance(raw, list):
        return [_expanded(value, f"{path}[{index}]", problems) for index, value in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def replace(match: re.Match[str]) -> str:
        otherwise: str | None = match[2]
        value = os.environ.get(match[1], otherwise)
        if value is None:
            problems.add(
                path, f"the variable {match[1]} is not set.", f"Set it, or write ${{{match[1]}:-value}}."
            )
            return ""
        return value

    return _VARIABLE.sub(replace, raw)


class Workshop:
    """Pipelines in Python: the same keys as in a file, and functions where a file names them.

    >>> shop = Workshop(bootstrap="127.0.0.1:9092")
    >>> @shop.pipeline(source={"topics": ["orders"]}, decode={"schema": "id bigint, amount double"},
    ...                sink={"topic": "large-orders"})
    ... def large_orders(orders):
    ...     return orders.where("amount > 100")
    """

    def __init__(self, **shared: Any) -> None:
        self._raw: dict[str, Any] = {**shared, "pipelines": {}}

    def pipeline(self, **keys: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function the last step of a pipeline that has its name, with - for _."""

        def take(made: Callable[..., Any]) -> Callable[..., Any]:
            name = keys.pop("name", made.__name__.replace("_", "-"))
            self.add(name, **{**keys, "steps": [*keys.get("steps", []), {"python": made}]})
            return made

        return take

    def add(self, name: str, **keys: Any) -> None:
        """A pipeline without a function of its own."""
        if name in self._raw["pipelines"]:
            raise WrongDefinition([Problem(name, "is the name of two pipelines.", "Give one another name=.")])
        self._raw["pipelines"][name] = keys

    def project(self, home: Path | None = None, label: str = "project") -> Project:
        """Checked whole. Raises WrongDefinition."""
        return read_project(self._raw, home or Path.cwd(), label)
