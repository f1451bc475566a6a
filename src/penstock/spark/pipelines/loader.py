"""Loads a project from YAML, from a Python file, or from Python calls. Never starts anything."""

from __future__ import annotations

import dataclasses
import os
import re
import runpy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from penstock.client.errors import NotInstalled
from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.pipelines.checks import check_pipeline
from penstock.spark.pipelines.columns import check_named_columns
from penstock.spark.pipelines.conflicts import check_conflicts
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.locations import Locations, read_lines
from penstock.spark.pipelines.problems import Problems
from penstock.spark.pipelines.shapes import joined, read_shape

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class WrongProject(WrongDefinition):
    """The errors of a project. `readable` holds the pipelines that further checks can still analyse."""

    def __init__(self, problems: list[ProjectProblem], readable: Project | None) -> None:
        super().__init__(problems)
        self.readable = readable


def load_project(file: Path) -> Project:
    """Load a project file. Raises WrongDefinition with every error in it."""
    if not file.is_file():
        remedy = "Create a first project with: penstock pipeline init"
        raise WrongDefinition([ProjectProblem("", "there is no such file.", remedy, str(file))])
    if file.suffix == ".py":
        return _load_python(file)
    raw, lines, twice = _load_yaml(file)
    return read_project(raw, file.resolve().parent, Locations(file.name, lines), twice)


def read_project(
    raw: object, home: Path, locations: Locations | None = None, known: Sequence[ProjectProblem] = ()
) -> Project:
    """Load a project from plain values. Paths are relative to `home`; `known` problems are reported with the others."""
    problems = Problems([*known])
    locations = locations or Locations()
    raw = _expanded(raw, "", problems)
    if not isinstance(raw, Mapping):
        raise locations.located([ProjectProblem("", "is not a mapping.", "Start with `pipelines:`.")])
    rest = {name: value for name, value in raw.items() if name != "pipelines"}
    project = read_shape(Project, rest, "", problems)
    pipelines = _read_pipelines(raw.get("pipelines"), "pipelines", home, problems)
    check_conflicts(pipelines, home, problems)
    whole = None
    if project is not None:
        whole = dataclasses.replace(project, pipelines=pipelines, home=home, locations=locations)
    if problems.found:
        raise WrongProject([locations.place(one) for one in problems.found], whole)
    assert whole is not None
    return whole


def _read_pipelines(raw: object, path: str, home: Path, problems: Problems) -> tuple[Pipeline, ...]:
    """The pipelines whose parts fit together; their columns may still be wrong."""
    if not isinstance(raw, Mapping) or not raw:
        problems.add(path, "is missing.", "Add pipelines by name, each with source and sink.")
        return ()
    found = []
    for name, body in raw.items():
        if not isinstance(body, Mapping):
            problems.add(f"{path}.{name}", "expected a mapping.", "It needs source and sink.")
            continue
        pipeline = read_shape(Pipeline, {"name": str(name), **body}, f"{path}.{name}", problems)
        if pipeline is not None:
            before = len(problems.found)
            check_pipeline(pipeline, f"{path}.{name}", home, problems)
            is_sound = len(problems.found) == before
            check_named_columns(pipeline, f"{path}.{name}", home, problems)
            found += [pipeline] if is_sound else []
    return tuple(found)


def _load_yaml(file: Path) -> tuple[object, dict[str, int], list[ProjectProblem]]:
    """Plain values, the line of each path, and duplicate keys."""
    import yaml

    try:
        text = file.read_text("utf-8")
        return yaml.safe_load(text), *read_lines(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        what = f"is not valid YAML: {' '.join(str(error).split())}."
        raise WrongDefinition([ProjectProblem("", what, file=file.name, line=line)]) from error


def _load_python(file: Path) -> Project:
    try:
        names = runpy.run_path(str(file))
    except (WrongDefinition, NotInstalled):
        raise
    except Exception as error:
        line = error.lineno if isinstance(error, SyntaxError) else None
        problem = ProjectProblem(
            "", f"cannot be loaded: {type(error).__name__}: {error}.", file=file.name, line=line
        )
        raise WrongDefinition([problem]) from error
    found = [value for value in names.values() if isinstance(value, Workshop)]
    if len(found) != 1:
        remedy = "Create one: shop = Workshop(bootstrap=…)."
        raise WrongDefinition([ProjectProblem("", f"defines {len(found)} projects.", remedy, file.name)])
    return found[0].project(file.resolve().parent, file.name)


def _expanded(raw: object, path: str, problems: Problems) -> object:
    """Replace `${NAME}` and `${NAME:-default}` with environment variables."""
    if isinstance(raw, Mapping):
        return {name: _expanded(value, joined(path, name), problems) for name, value in raw.items()}
    if isinstance(raw, list):
        return [_expanded(value, f"{path}[{index}]", problems) for index, value in enumerate(raw)]
    if not isinstance(raw, str):
        return raw

    def replace(match: re.Match[str]) -> str:
        otherwise: str | None = match[2]
        value = os.environ.get(match[1], otherwise)
        if value is None:
            problems.add(
                path,
                f"the environment variable {match[1]} is not set.",
                f"Set it, or write ${{{match[1]}:-value}}.",
            )
            return ""
        return value

    return _VARIABLE.sub(replace, raw)


class Workshop:
    """Defines pipelines in Python: the same keys as in a file, with functions instead of their names.

    >>> shop = Workshop(bootstrap="127.0.0.1:9092")
    >>> @shop.pipeline(source={"topics": ["orders"]}, decode={"schema": "id bigint, amount double"},
    ...                sink={"topic": "large-orders"})
    ... def large_orders(orders):
    ...     return orders.where("amount > 100")
    """

    def __init__(self, **shared: Any) -> None:
        self._raw: dict[str, Any] = {**shared, "pipelines": {}}

    def pipeline(self, **keys: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorator: the function is the last step of a pipeline with its name, with - for _."""

        def take(made: Callable[..., Any]) -> Callable[..., Any]:
            name = keys.pop("name", made.__name__.replace("_", "-"))
            self.add(name, **{**keys, "steps": [*keys.get("steps", []), {"python": made}]})
            return made

        return take

    def add(self, name: str, **keys: Any) -> None:
        """Add a pipeline without a function."""
        if name in self._raw["pipelines"]:
            raise WrongDefinition(
                [ProjectProblem(name, "is the name of two pipelines.", "Rename one with name=.")]
            )
        self._raw["pipelines"][name] = keys

    def project(self, home: Path | None = None, file: str = "") -> Project:
        """The validated project. Raises WrongDefinition."""
        return read_project(self._raw, home or Path.cwd(), Locations(file))
