"""Compiles every `*_compiled.py` of the tree with Cython, next to its source or elsewhere. Never fails a build.

    python tools/compile_loops.py [TARGET]

Without a C compiler, Cython or setuptools nothing is made, one line says why, and the plain loops run instead.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "src"
PATTERN = "penstock/**/*_compiled.py"


def compile_loops(target: Path) -> list[Path]:
    """Build what is older than its source below `target`; returns the paths of all, relative to it."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    made: list[Path] = []
    stale: list[Path] = []
    for source in sorted(SOURCES.glob(PATTERN)):
        built = target / source.relative_to(SOURCES).with_suffix(suffix)
        made.append(built.relative_to(target))
        if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
            stale.append(source)
    if stale:
        _build(stale, target)
    return made


def _build(sources: list[Path], target: Path) -> None:
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    with tempfile.TemporaryDirectory() as work:
        modules = [
            Extension(
                ".".join(source.relative_to(SOURCES).with_suffix("").parts),
                [str(source)],
                extra_compile_args=["-O3", "-g0"],
            )
            for source in sources
        ]
        ready = cythonize(modules, build_dir=work, language_level=3, quiet=True)
        command = build_ext(Distribution({"name": "penstock", "ext_modules": ready}))
        command.build_lib = str(target)
        command.build_temp = work
        command.ensure_finalized()
        command.run()


def why_not() -> str | None:
    """What is missing for compiling, in words; None when it can be done."""
    try:
        import Cython  # noqa: F401
        import setuptools  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed"
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return None if shutil.which(compiler) else f"there is no C compiler {compiler}"


def compile_or_say(target: Path) -> list[Path]:
    """What was built below `target`; nothing, and one line on stderr, when it cannot be done."""
    missing = why_not()
    if missing is None:
        try:
            return compile_loops(target)
        except (SystemExit, OSError, Exception) as error:  # noqa: BLE001 - whatever a compiler says, plain loops run
            missing = str(error) or type(error).__name__
    print(f"not compiled, the plain loops are used: {missing}", file=sys.stderr)  # noqa: T201
    return []


if __name__ == "__main__":
    compile_or_say(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else SOURCES)
