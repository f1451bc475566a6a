"""The version of the package. `penstock.__version__` is its public name; other modules import it from here."""

__version__ = "0.1.0"
