"""`python -m cosim` is the `cosim` command."""

import sys
from pathlib import Path

if not sys.flags.safe_path and Path(sys.path[0]).resolve() != Path(__file__).resolve().parents[1]:
    del sys.path[0]  # the working folder, in which anybody's modules may lie; the command itself has it not either

from cosim.cli.main import main

main()
