"""Puts the compiled loops into the wheel. Never into an editable install: `tools/setup` compiles in the tree."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledLoops(BuildHookInterface[Any]):
    """Named `custom` in pyproject.toml."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        target = Path(self.directory) / "compiled"
        built = _tool(Path(self.root)).compile_or_say(target)
        if built:
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["force_include"].update({str(target / path): str(path) for path in built})


def _tool(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compile_loops", root / "tools" / "compile_loops.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
