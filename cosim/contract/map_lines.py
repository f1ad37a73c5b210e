"""Lines under the map of a run, as an adapter leaves them for the report and the view.

They are GeoJSON in the adapter's scratch folder (`Context.scratch`), in m east and north of the scenario's origin.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

FILE = "map.geojson"


def credit(words: str) -> str:
    """The credit that the map of a scenario with these words needs, "" where its data is its own (ODbL 1.0, 4.3)."""
    return "© OpenStreetMap contributors" if re.search(r"openstreetmap|\bosm\b", words, re.IGNORECASE) else ""


def write_lines(folder: Path, lines: Iterable[Iterable[Sequence[float]]]) -> int:
    """Write lines, each of points (east, north) in m, as `map.geojson` to `folder`, to 0.1 m; how many."""
    rounded = [[[round(float(at[0]), 1), round(float(at[1]), 1)] for at in line] for line in lines]
    folder.mkdir(parents=True, exist_ok=True)
    shape = {"type": "MultiLineString", "coordinates": rounded}
    (folder / FILE).write_text(json.dumps(shape, separators=(",", ":")), encoding="utf-8")
    return len(rounded)
