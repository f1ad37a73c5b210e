"""Files of others in any form: what a reader makes of them is right, refused or noted, and never a traceback.

`COSIM_FUZZ=1430 pytest tests/unit/sources/test_fuzz.py` reads 10,000 files.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cosim.adapters.replay.backend import UnreadableError
from cosim.adapters.replay.backend import read as read_track
from cosim.adapters.replay.trajectories import Trajectories
from cosim.contract.errors import ScenarioError
from cosim.sources.tables.requests import requests
from cosim.sources.tables.table import read

COUNT = int(os.environ.get("COSIM_FUZZ", "25"))
each = settings(max_examples=COUNT, deadline=None, suppress_health_check=list(HealthCheck))
PACKS = st.sampled_from([bytes, gzip.compress, bz2.compress, lzma.compress])
# How a head names a unit, and how many of it are one of SI.
LENGTHS = {"{}": 1.0, "{} [m]": 1.0, "{}(ft)": 1 / 0.3048, "{}_ft": 1 / 0.3048, "{} (feet)": 1 / 0.3048, "{}_km": 1e-3,
           "{} [cm]": 100.0}  # fmt: skip
SPEEDS = {"{}": 1.0, "{} [m/s]": 1.0, "{}(mph)": 1 / 0.44704, "{}_kmh": 3.6, "{} [km/h]": 3.6, "{} (kn)": 3600 / 1852,
          "{}_ms": 1.0}  # fmt: skip
TIMES = {
    "time": (0, 1.0), "time_ms": (0, 1e3), "t(millisecond)": (0, 1e3), "timestamp [us]": (0, 1e6),
    "timestamp": (1893456000, 1.0), "TIME": (1893456000000, 1e3), "t": (1893456000000000, 1e6),
}  # fmt: skip


def stamped(head, seconds, form):
    if form != "number":
        base = np.datetime64("2030-05-01T10:00:00.000") + np.timedelta64(round(seconds * 1e3), "ms")
        return {"Z": f"{base}Z", "zone": f"{base}000000+00:00", "bare": str(base).replace("T", " ")}[form]
    zero, factor = TIMES[head]
    return str(zero + round(seconds * factor)) if factor > 1 else str(zero + seconds)


@each
@given(st.data())
def test_tracks(tmp_path_factory, data):
    draw = data.draw
    time = draw(st.sampled_from(list(TIMES)))
    form = draw(st.sampled_from(["number", "number", "Z", "zone", "bare"]))
    place, high, fast = (draw(st.sampled_from(list(kind))) for kind in (LENGTHS, LENGTHS, SPEEDS))
    columns = {
        (time if form == "number" else "time"): lambda k: stamped(time, 0.5 * k, form),
        "id": lambda k: "d",
        place.format("x"): lambda k: repr(5.0 * k * LENGTHS[place]),
        place.format("y"): lambda k: "0",
        high.format("height" if draw(st.booleans()) else "z"): lambda k: repr(120 * LENGTHS[high]),
        fast.format("speed"): lambda k: repr(10 * SPEEDS[fast]),
        "remark": lambda k: "",
    }
    optional = [name for name in columns if name.startswith(("z", "speed", "remark"))]
    left = draw(st.sets(st.sampled_from(optional)))
    names = draw(st.permutations([name for name in columns if name not in left]))
    rows = [[columns[name](k) for name in names] for k in draw(st.permutations(range(12)))]
    fault = draw(st.sampled_from(["", "", "", "twice", "empty", "short", "unit"]))
    if fault == "twice":
        rows.append(rows[0])
    elif fault == "empty":
        rows[3][names.index(place.format("x"))] = ""
    elif fault == "short":
        rows[3] = rows[3][:-2]
    heads = [name.replace("x", "x (furlongs)") if fault == "unit" and name[0] == "x" else name for name in names]
    mark = draw(st.sampled_from(",;\t"))
    path = tmp_path_factory.mktemp("f") / "t.csv"
    path.write_bytes(draw(PACKS)("\n".join(mark.join(row) for row in [heads, *rows]).encode()))
    try:
        found = Trajectories(read_track(path, {}, 1e9))
    except (UnreadableError, ValueError):
        assert fault
        return
    assert not fault
    _, at = found.at(found.span[0] + 2_250_000_000, interpolate=True, gap=None)
    assert at["x"][0] == pytest.approx(22.5, rel=1e-5)
    assert at["speed"][0] == pytest.approx(10.0, rel=1e-5)
    assert found.doubts == ()
    if any(name.startswith("z") for name in names):
        assert at["z"][0] == pytest.approx(120.0)


def test_a_head_of_ns_is_exact(tmp_path):
    rows = [f"{1893456000000000000 + k * 10**9},d,{k},0" for k in range(4)]
    (tmp_path / "t.csv").write_text("\n".join(["timestamp [ns],id,x,y", *rows]))
    assert Trajectories(read_track(tmp_path / "t.csv", {}, 1e9)).span == (0, 3_000_000_000)


@each
@given(st.data())
def test_requests(tmp_path_factory, data):
    draw = data.draw
    message, thread, parents = (draw(st.booleans()) for _ in range(3))
    rows, took = [], draw(st.integers(1, 60))
    for user in range(draw(st.integers(1, 4))):
        at = 1893456000000 + 3 * user
        for _ in range(20):
            first = at
            for _ in range(3):
                rows.append((at, took, "ask", "OK", f"t {user}"))
                at += took
            if parents:
                words = "Number of samples in transaction : 3, number of failing samples : 0" if message else "OK"
                rows.append((first, at - first + draw(st.integers(0, 9)), "all", words, f"t {user}"))
            at += 50
    asked = sum(row[2] == "ask" for row in rows)
    names = ["timeStamp", "elapsed", "label", *["responseMessage"] * message, *["threadName"] * thread]
    order = draw(st.permutations(names))
    known = ("timeStamp", "elapsed", "label", "responseMessage", "threadName")
    lines = [",".join(f'"{row[known.index(name)]}"' for name in order) for row in rows]
    path = tmp_path_factory.mktemp("f") / "j.csv"
    path.write_bytes(draw(PACKS)("\n".join([",".join(order), *lines]).encode()))
    found = requests(path)
    if not parents or message or thread:
        assert len(found.created) == asked
        assert (found.ended - found.created).mean() == pytest.approx(took / 1e3, abs=1e-6)
        assert bool(found.notes) == parents
    else:
        assert "requests of 2 kinds ('label') are taken as one service: all, ask" in found.notes


def cut(draw, part, odds=12):
    """The same JSON with fields missing or of another kind, here and there."""
    if draw(st.integers(0, odds)) == 0:
        return draw(st.sampled_from([None, {}, [], "", "x", 5, True]))
    if isinstance(part, dict):
        return {key: cut(draw, one, odds) for key, one in part.items() if draw(st.integers(0, odds)) > 0}
    return [cut(draw, one, odds) for one in part] if isinstance(part, list) else part


SERIES = {"metric": {"__name__": "w", "instance": "a:1"}, "values": [[1893456000, "5"], [1893456001, "6"]]}
NATIVE = {"metric": {"__name__": "h"}, "histograms": [[1893456000, {"count": "2"}]]}
POINT = {
    "asDouble": 5.0,
    "timeUnixNano": "1893456000000000000",
    "attributes": [{"key": "a", "value": {"intValue": "1"}}],
}
SPAN = {"name": "s", "startTimeUnixNano": "1893456000000000000", "endTimeUnixNano": "1893456001000000000"}
EXPORTS = [
    {"status": "success", "data": {"resultType": "matrix", "result": [SERIES, SERIES, NATIVE]}},
    {"status": "success", "data": {"resultType": "scalar", "result": [1893456000, "5"]}},
    {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{"name": "g", "gauge": {"dataPoints": [POINT, POINT]}}]}]}]},
    {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [SPAN]}]}]},
]


@each
@given(st.data())
def test_exports_without_what_is_optional(tmp_path_factory, data):
    whole = data.draw(st.sampled_from(EXPORTS))
    path = tmp_path_factory.mktemp("f") / "e.json"
    path.write_bytes(data.draw(PACKS)(json.dumps(cut(data.draw, whole)).encode()))
    try:
        found = read(path)
    except ScenarioError:
        return
    for name in ("w", "g"):
        values = found.columns.get(name, np.array([]))
        assert all(
            value in (5.0, 6.0, 1.0) or math.isnan(value) for value in values.tolist() if isinstance(value, float)
        )


SAMPLES = {
    "t.csv": "time,id,x,y,speed\n0,a,0,0,1\n1,a,1,0,1\n2,a,2,0,1\n",
    "s.csv": "lat,lon,height_m,name\n45,7,30,a\n45.1,7.1,30,b\n",
    "e.json": json.dumps(EXPORTS[0]),
    "k.csv": "metric_name,timestamp,metric_value,status\nvus,1893456000,1,200\n",
    "m.osm": "<osm><node id='1' lat='1' lon='1'/><way id='1'><nd ref='1'/><tag k='highway' v='road'/></way></osm>",
}
READERS = (lambda path: Trajectories(read_track(path, {}, 1e9)), read, requests)
EDITS = st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=3)), max_size=4)


def damaged(path: Path, text: str, edits: list[tuple[int, bytes]], pack: Callable[[bytes], bytes]) -> Path:
    raw = bytearray(text.encode())
    for place, new in edits:
        raw[place % len(raw) : place % len(raw) + 1] = new
    path.write_bytes(pack(bytes(raw)))
    return path


@each
@given(st.sampled_from(list(SAMPLES)), EDITS, PACKS)
def test_damaged_files_are_refused_or_read(tmp_path_factory, name, edits, pack):
    path = damaged(tmp_path_factory.mktemp("f") / name, SAMPLES[name], edits, pack)
    for reader in READERS:
        try:
            reader(path)
        except (ScenarioError, UnreadableError):
            continue
        except ValueError:  # of a track's own, which its adapter reports with the file
            if reader is not READERS[0]:
                raise
