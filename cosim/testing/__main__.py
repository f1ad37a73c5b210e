"""`python -m cosim.testing PACKAGE...` checks the adapters that packages export."""

import sys

from cosim.testing import main

sys.exit(main(sys.argv[1:]))
