"""`python -m cosim.autopilot`: vehicles that MAVLink tools can fly, without a scenario."""

from __future__ import annotations

import sys

from cosim.contract.errors import CosimError


def main(words: list[str] | None = None) -> int:
    """The exit code: 0, 1 or 2. The program is imported here, so that a missing pymavlink is a message."""
    try:
        from cosim.autopilot.program import arguments, fly

        return fly(arguments().parse_args(words))
    except CosimError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
