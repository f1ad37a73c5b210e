"""Print the differences between an autopilot's answers and the recorded ones."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.clients.probes.peer import Link, Persona
from tests.clients.probes.probe import Probe, differences


def tell(text: str) -> None:
    sys.stdout.write(text + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.probes", description=__doc__)
    parser.add_argument("--connect", metavar="ADDRESS", help="of a real autopilot, as pymavlink writes it")
    options = parser.parse_args()
    reference = json.loads((Path(__file__).parent / "arducopter.json").read_text())
    found = Probe(Link(options.connect) if options.connect else Persona(), reference).run()
    unlike = differences(reference, found)
    asked = [name for name in reference if name in found]
    for name, (real, ours) in unlike.items():
        tell(f"{name:45} {real[:50]:50} {ours[:50]}")
    tell(f"{len(asked)} of {len(reference)} probes: {len(asked) - len(unlike)} equal, {len(unlike)} differ")
    tell("not asked: " + ", ".join(name for name in reference if name not in found))


if __name__ == "__main__":
    main()
