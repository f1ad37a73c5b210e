"""The SUMO adapter with SUMO, each run in a process of its own."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
from itertools import count
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from cosim.adapters.sumo import install
from tests.forked import Forks
from tests.ports import free_port

pytestmark = pytest.mark.sumo

ROOT = Path(__file__).parents[3]
DATA = ROOT / "../shared/data/mobility"
COLUMNS = ("slot", "x", "y", "z", "speed", "heading")
BERLIN = "package:sumo/tools/game/DRT/osm.net.xml"


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a grid of six streets by six, and the routes of 80 cars and a bus."""
    folder = tmp_path_factory.mktemp("town")
    subprocess.run(
        [install.binary("netgenerate"), "--grid", "--grid.number", "6", "--grid.length", "120", "-L", "1",
         "--no-turnarounds", "--seed", "1", "-o", folder / "town.net.xml"],
        check=True, capture_output=True, env=install.environment(), timeout=60,
    )  # fmt: skip
    rng = random.Random(5)
    lines = ['<routes><vType id="car" sigma="0.5"/><vType id="bus" vClass="bus"/>']
    for k in range(80):
        column, row = rng.randrange(5), rng.randrange(5)
        east = [f"{'ABCDEF'[c]}{row}{'ABCDEF'[c + 1]}{row}" for c in range(column, 5)]
        north = [f"F{r}F{r + 1}" for r in range(row, 5)]
        kind = "bus" if k == 7 else "car"
        lines.append(
            f'<vehicle id="v{k}" type="{kind}" depart="{k // 2}" departPos="random_free">'
            f'<route edges="{" ".join(east + north)}"/></vehicle>'
        )
    (folder / "town.rou.xml").write_text("\n".join([*lines, "</routes>"]))
    return folder


def block(folder: Path, **more: object) -> dict:
    return {"network": str(folder / "town.net.xml"), "routes": str(folder / "town.rou.xml"), **more}


_serial = count()
SUMO = Forks("libsumo", "cosim.adapters.sumo.adapter", "cosim.adapters.sumo.config")


def drive(tmp_path: Path, job: dict, environment: dict[str, str] | None = None) -> dict:
    """Runs the job in a child; its answer, with the frames as a list under `frames`."""
    out = tmp_path / f"drive{next(_serial)}"
    out.mkdir(parents=True)
    reported = json.dumps({**job, "out": str(out)})
    done = SUMO.run("cosim.adapters.sumo.tests.drive", env={**os.environ, **(environment or {})}, reported=reported)
    assert done.returncode == 0, done.stderr
    answer = json.loads((out / "answer.json").read_text())
    answer["stderr"] = done.stderr
    files = (out / f"{k}.npz" for k in range(job.get("steps", -1) + 1))
    answer["frames"] = [dict(np.load(path)) for path in files if path.is_file()]
    return answer


def same(a: dict, b: dict) -> bool:
    """Bit-equal frames and equal tables."""
    return a["tables"] == b["tables"] and all(
        f[c].tobytes() == g[c].tobytes() for f, g in zip(a["frames"], b["frames"], strict=True) for c in COLUMNS
    )


def names(answer: dict, step: int) -> list[str]:
    return [answer["tables"][step]["ids"][str(slot)] for slot in answer["frames"][step]["slot"]]


def test_vehicles_come_go_and_their_slots_are_taken_again(town: Path, tmp_path: Path) -> None:
    (tmp_path / "few.rou.xml").write_text(
        '<routes><vehicle id="first" depart="0"><route edges="A0B0 B0C0"/></vehicle>'
        '<vehicle id="stays" depart="5"><route edges="A1B1 B1C1 C1D1 D1E1 E1F1 F1F2 F2F3"/></vehicle>'
        '<vehicle id="later" depart="40"><route edges="A0B0 B0C0"/></vehicle></routes>'
    )
    job = {"config": block(town, routes=str(tmp_path / "few.rou.xml")), "steps": 60}
    answer = drive(tmp_path, job)
    assert names(answer, 0) == ["first"]
    assert names(answer, 5) == ["first", "stays"]
    assert names(answer, 39) == ["stays"]
    assert sorted(names(answer, 45)) == ["later", "stays"]
    assert [answer["tables"][k]["generation"] for k in (0, 39, 45)] == [[0], [0, 0], [1, 0]]
    assert answer["tables"][45]["ids"] == {"1": "later", "2": "stays"}  # slot 0 is the static node
    assert answer["tables"][39]["epoch"] == answer["tables"][6]["epoch"] != answer["tables"][45]["epoch"]
    assert answer["summary"]["departed"] == 3
    assert answer["summary"]["arrived"] + answer["summary"]["running"] == 3
    rows = sum(len(frame["slot"]) for frame in answer["frames"])
    speeds = np.concatenate([frame["speed"] for frame in answer["frames"]])
    assert answer["summary"]["rows"] == rows
    assert answer["summary"]["mean_speed"] == pytest.approx(speeds.mean())
    assert answer["summary"]["version"].startswith("SUMO ")
    assert answer["loaded"] == []


def test_frames_say_what_sumo_writes_itself(town: Path, tmp_path: Path) -> None:
    """SUMO's own trajectory output of the bare program is the reference, time stamps included."""
    reference = tmp_path / "fcd.xml"
    subprocess.run(
        [install.binary("sumo"), "-n", town / "town.net.xml", "-r", town / "town.rou.xml", "--seed", "9", "--end", "51",
         "--fcd-output", reference, "--precision", "9", "--no-step-log"],
        check=True, capture_output=True, env=install.environment(), timeout=60,
    )  # fmt: skip
    answer = drive(tmp_path, {"config": block(town, seed=9), "steps": 50})
    steps = ElementTree.parse(reference).getroot().findall("timestep")
    assert [float(step.attrib["time"]) for step in steps] == [float(k) for k in range(51)]
    for k, step in enumerate(steps):
        rows = {v.attrib["id"]: [float(v.attrib[a]) for a in ("x", "y", "speed", "angle")] for v in step}
        frame = answer["frames"][k]
        ours = dict(
            zip(names(answer, k), zip(*(frame[c] for c in ("x", "y", "speed", "heading")), strict=True), strict=True)
        )
        assert ours.keys() == rows.keys()
        for name, row in rows.items():
            assert ours[name] == pytest.approx(row, abs=1e-6)
    assert max(len(frame["slot"]) for frame in answer["frames"]) > 40


def test_a_seed_repeats_the_run_and_another_changes_it(town: Path, tmp_path: Path) -> None:
    first, second, other = (
        drive(tmp_path, {"config": block(town), "steps": 40, "seed": seed}) for seed in ((1, 2), (1, 2), (1, 3))
    )
    assert same(first, second)
    assert not same(first, other)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"resolution": "500 ms", "begin": "10 s"},
        {"classes": ["bus"]},
        {"region": {"center": ["360 m", "240 m"], "radius": "150 m"}},
        {"teleport": "1 s", "scale": 3},
    ],
)
def test_traci_gives_the_same_frames(town: Path, tmp_path: Path, more: dict) -> None:
    ours = drive(tmp_path, {"config": block(town, **more), "steps": 70})
    theirs = drive(tmp_path, {"config": block(town, interface="traci", **more), "steps": 70})
    assert same(ours, theirs)
    assert {**ours["summary"], "interface": ""} == {**theirs["summary"], "interface": ""}
    assert ours["summary"]["rows"] > 50
    if "teleport" in more:
        assert ours["summary"]["teleports"] > 0


def test_the_region_keeps_just_the_vehicles_inside(town: Path, tmp_path: Path) -> None:
    whole = drive(tmp_path, {"config": block(town), "steps": 70})
    box = ["200 m", "100 m", "500 m", "420 m"]
    part = drive(tmp_path, {"config": block(town, region={"box": box}), "steps": 70})
    entries = 0
    for k, (all_of_them, inside) in enumerate(zip(whole["frames"], part["frames"], strict=True)):
        x, y = all_of_them["x"], all_of_them["y"]
        rows = np.flatnonzero((x >= 200) & (x <= 500) & (y >= 100) & (y <= 420))
        everyone = names(whole, k)
        expected = {everyone[row]: (x[row], y[row]) for row in rows}
        assert dict(zip(names(part, k), zip(inside["x"], inside["y"], strict=True), strict=True)) == expected
        entries += len(expected)
    assert 0 < entries < whole["summary"]["rows"]


def test_a_class_filter_shows_the_bus_only(town: Path, tmp_path: Path) -> None:
    answer = drive(tmp_path, {"config": block(town, classes=["bus"]), "steps": 20})
    assert {name for k in range(21) for name in names(answer, k)} == {"v7"}


def test_wrong_files_are_explained_in_sumos_words(town: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.rou.xml").write_text(
        '<routes><vehicle id="lost" depart="0" type="nowhere"><route edges="A0B0 B0C0"/></vehicle></routes>'
    )
    (tmp_path / "broken.sumocfg").write_text("<configuration><input><net-file value='gone.net.xml'/></input>")
    missing = drive(tmp_path, {"config": {"config": "none.sumocfg"}, "root": str(tmp_path), "steps": 1})
    assert missing["error"] == "ScenarioError"
    assert f"adapters.traffic.config: there is no file {tmp_path}/none.sumocfg" in missing["message"]
    for interface in ("libsumo", "traci"):
        bad = drive(tmp_path, {"config": block(town, routes=str(tmp_path / "bad.rou.xml"), interface=interface),
                               "steps": 1})  # fmt: skip
        assert "'nowhere'" in bad["message"], bad
        assert "last lines of SUMO's log" in bad["message"]
        assert "town.net.xml" in bad["message"]
        broken = {"config": str(tmp_path / "broken.sumocfg"), "interface": interface}
        assert "broken.sumocfg" in drive(tmp_path, {"config": broken, "steps": 1})["message"]


def test_a_second_simulation_in_one_process_is_refused(town: Path, tmp_path: Path) -> None:
    answer = drive(tmp_path, {"config": block(town), "steps": 1, "twice": True})
    assert "already runs in this process" in answer["message"]


def test_too_many_vehicles_name_the_key_to_change(town: Path, tmp_path: Path) -> None:
    answer = drive(tmp_path, {"config": block(town), "steps": 60, "capacity": 20})
    assert answer["error"] == "RunError"
    assert "set nodes.cars.capacity to" in answer["message"]


def test_a_sumo_that_dies_is_reported(town: Path, tmp_path: Path) -> None:
    answer = drive(tmp_path, {"config": block(town, interface="traci"), "steps": 10, "crash": 5})
    assert answer["error"] == "RunError"
    assert "SUMO stopped before its time 6 s" in answer["message"]


@pytest.mark.slow
def test_a_running_sumo_is_joined(town: Path, tmp_path: Path) -> None:
    port = free_port()
    server = subprocess.Popen(
        [install.binary("sumo"), "-n", town / "town.net.xml", "-r", town / "town.rou.xml", "--seed", "9",
         "--remote-port", str(port), "--no-step-log"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=install.environment(),
    )  # fmt: skip
    try:
        joined = drive(tmp_path, {"config": {"server": f"127.0.0.1:{port}"}, "steps": 30})
        assert same(joined, drive(tmp_path, {"config": block(town, seed=9), "steps": 30}))
        server.wait(60)
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGKILL)
        server.wait()
    refused = drive(tmp_path, {"config": {"server": f"127.0.0.1:{port}"}, "steps": 1})
    assert f"no SUMO answers at 127.0.0.1:{port}" in refused["message"]


@pytest.mark.slow
def test_generated_demand_on_a_packaged_network_is_made_once_and_agrees_with_wgs84(tmp_path: Path) -> None:
    config = {"network": BERLIN, "demand": {"vehicles": 60, "over": "30 s", "distance": "1 km"}, "seed": 4}
    origin = [52.42, 13.49]
    cache = {"COSIM_CACHE": str(tmp_path / "cache")}
    first = drive(tmp_path, {"config": config, "steps": 40, "geo": origin}, cache)
    assert "LOG generating 60 trips" in first["stderr"]
    (made,) = (tmp_path / "cache" / "sumo-demand").iterdir()
    assert made.read_text().count("<vehicle ") == 60
    again = drive(tmp_path, {"config": config, "steps": 40, "geo": origin}, cache)
    assert "LOG generating" not in again["stderr"]
    assert same(first, again)
    assert first["summary"]["departed"] == 60
    frame = first["frames"][40]
    for name, x, y in zip(names(first, 40), frame["x"], frame["y"], strict=True):
        # UTM's scale and the sphere in place of the ellipsoid leave about 0.4 % of some kilometres
        assert (x, y) == pytest.approx(first["places"][name], rel=0.005, abs=3.0)


def unpacked(source: Path, target: Path) -> Path:
    target.mkdir()
    for path in source.iterdir():
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as packed, (target / path.stem).open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        else:
            shutil.copy(path, target)
    return target


@pytest.mark.data
@pytest.mark.skipif(not DATA.is_dir(), reason="the real input data do not lie beside the checkout")
@pytest.mark.parametrize("place", ["bologna_acosta", "turin_crocetta"])
def test_real_cities_run(tmp_path: Path, place: str) -> None:
    folder = unpacked(DATA / place, tmp_path / place)
    config = {"config": str(folder / "run.sumocfg")}
    if place == "turin_crocetta":
        config = {"network": str(folder / "map.net.xml"), "routes": str(folder / "map.rou.xml")}
    answer = drive(tmp_path, {"config": config, "steps": 120})
    last = answer["frames"][120]
    assert answer["summary"]["departed"] > 30
    assert answer["summary"]["running"] == len(last["slot"])
    assert answer["summary"]["mean_speed"] > 1.0
    assert answer["summary"]["collisions"] == 0
    assert np.all((last["heading"] >= 0) & (last["heading"] <= 360))
