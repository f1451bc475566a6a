"""`python -m penstock`: the same as the `penstock` command."""

from penstock.apps.cli.main import main

main()
