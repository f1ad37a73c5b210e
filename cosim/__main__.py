"""`python -m cosim` is the `cosim` command."""

from cosim.cli.main import main

main()
