"""The rows of `python -m bench`, one module per subject."""
