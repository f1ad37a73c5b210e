"""Writes data/road.net.xml: four kilometres of two lanes with two bends, by SUMO's netconvert.

python scenarios/convoy/make_road.py
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

NODES = {"a": (0, 0), "b": (1400, 0), "c": (2600, 500), "d": (4000, 500)}  # m
SPEED = {"ab": 27.78, "bc": 22.22, "cd": 27.78}  # m/s


def main() -> None:
    out = Path(__file__).parent / "data" / "road.net.xml"
    with tempfile.TemporaryDirectory() as folder:
        nodes, edges = Path(folder, "road.nod.xml"), Path(folder, "road.edg.xml")
        places = "".join(f'<node id="{name}" x="{x}" y="{y}"/>' for name, (x, y) in NODES.items())
        ways = "".join(f'<edge id="{e}" from="{e[0]}" to="{e[1]}" numLanes="2" speed="{v}"/>' for e, v in SPEED.items())
        nodes.write_text(f"<nodes>{places}</nodes>", encoding="utf-8")
        edges.write_text(f"<edges>{ways}</edges>", encoding="utf-8")
        options = [
            "--offset.disable-normalization",
            "true",
            "--no-turnarounds",
            "true",
            "--junctions.limit-turn-speed",
            "-1",
        ]
        subprocess.run(["netconvert", "-n", nodes, "-e", edges, "-o", out, *options], check=True)
    # the comment holds the time and the paths of this machine
    out.write_text(re.sub(r"<!--.*?-->\n*", "", out.read_text(encoding="utf-8"), flags=re.S), encoding="utf-8")


if __name__ == "__main__":
    main()
