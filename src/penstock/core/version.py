"""The package version. Users read `penstock.__version__`; modules import it from here."""

__version__ = "0.1.0"
