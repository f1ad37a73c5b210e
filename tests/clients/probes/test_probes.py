"""Our ArduCopter against the answers of a real one: what differs is listed, and never a yes for a no."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("pymavlink")

from tests.clients.probes.peer import Persona
from tests.clients.probes.probe import Probe, differences

HERE = Path(__file__).parent


def test_differences_are_those_that_are_listed():
    reference = json.loads((HERE / "arducopter.json").read_text())
    found = Probe(Persona(), reference).run()
    unlike = differences(reference, found)
    with (HERE / "differences.csv").open(encoding="utf-8", newline="") as file:
        listed = {line["probe"]: line["reason"] for line in csv.DictReader(file)}
    assert {name: pair for name, pair in unlike.items() if name not in listed} == {}
    assert set(listed) == set(unlike)
    asked = [name for name in reference if name in found]
    assert len(asked) - len(unlike) >= 0.9 * len(reference)
    said_yes = [name for name, (real, ours) in unlike.items() if "ACCEPTED" in ours and "ACCEPTED" not in real]
    assert said_yes == []
    assert not [name for name in found if name.startswith(("cmd", "request", "item")) and "SILENT" in found[name]
                and "SILENT" not in str(reference[name])]  # fmt: skip
