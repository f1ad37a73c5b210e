"""Ways out of a scenario that is not trusted. None may run code, write elsewhere, listen or connect.

What happened is seen by canaries: files that any code of the scenario writes, everything outside the results that is
there afterwards, and the sockets and programs of the process (`tests.canary`). Messages only show that a scenario was
refused for the reason that the case is about.
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extensions import needs, scenarios
from tests.forked import COSIM, ROOT

SUNG = "sung"  # what code of the scenario writes
CODE = f"""import os, pathlib
pathlib.Path(os.environ["CANARY"], "{SUNG}").touch()
class Sim: pass
ADAPTER = f = g = lambda *given: 0
"""
GUEST = {
    "apiVersion": "cosim/v1",
    "kind": "Scenario",
    "name": "guest",
    "run": {"duration": "2 s", "seed": 7},
    "nodes": {
        "d": {"kind": "device", "at": ["0 m", "0 m"], "cpu": "1 GHz"},
        "e": {"kind": "edge", "at": ["9 m", "0 m"], "cpu": "2 x 2 GHz"},
    },
    "links": [{"between": ["d", "e"]}],
    "workloads": {"w": {"from": "d", "arrivals": "every 500 ms", "work": "9 Mcycles"}},
    "adapters": {"continuum": {}},
}
IS_CODE, OUTSIDE, WRITES = "is code", "outside the scenario's folder", "any files"
LISTENS, SENDS, OTHER, PROGRAM = "listens", "sends", "another program", "runs a program"
ELSEWHERE, PORT = "a program elsewhere", "has SUMO listen"
LANE = '<edge id="a" from="n" to="m"><lane id="a_0" index="0" length="9" shape="0,0 9,0"/></edge>'
NET = f'<net version="1.16"><location/>{{}}{LANE}</net>'
SUMO = {"network": "a.net.xml", "routes": "a.rou.xml"}
FILES = {"a.net.xml": NET.format(""), "a.rou.xml": "<routes/>", "a.csv": "0,1\n"}
VEHICLE = {"nodes/d/vehicle": {"frame": "copter"}, "adapters/vehicle": {}}
ENGAGE = {"drone": "d", "target": "e", "engage": {"when": " evil:f "}}
JOBS = {"jobs": {"generate": "uniform"}, "regular": {"leaves": 2}}
MACHINES = {"machines": {"m": {}}}
OFFLOAD = {"devices": 1, "applications": {"w": {}}, "places": {"e": {}}}

_NAMES = [
    "evil:f", "kind:f", "package:f", "tier:f", "evil:", "evil:1", "evil: f", "evil:f.g", "evil:f\n", "évil:f",
    "evil:é", "1evil:f", " evil:f ", "sub.evil:f", "os:system", "evil.py:f", ":evil",
]  # fmt: skip
_FILES = [
    "{away}/secret.csv", "../away/secret.csv", "a/../../away/secret.csv", "link.csv", "~/secret.csv", "trace link",
    "file:{away}/secret.csv", "http://127.0.0.1:{port}/x.csv", "way/secret.csv",
    "package:../../away/secret.csv",
]  # fmt: skip
_PATTERNS = ["$CANARY/secret.csv", "${{HOME}}/x.csv", "*.csv", "a.csv;b", "a.csv "]

# What is written where (keys by slashes), why it is refused; and files that the folder has besides.
REFUSED: list[tuple[dict[str, object], str] | tuple[dict[str, object], str, dict[str, str]]] = [
    *(({"adapters/continuum/scheduler": name}, "which is code") for name in _NAMES),
    *(({"adapters/x": {"use": name}}, IS_CODE) for name in ("evil:ADAPTER", "evil:é", "évil:f", "package:f", "evil")),
    *(({"workloads/w/sla": {"response": "1 s", "per": name}}, "which is code") for name in ("evil:f", "kind:f")),
    *(({"adapters/radio": {"response": {"do": name}}}, "which is code") for name in ("evil:f", "kind:f")),
    ({**VEHICLE, "adapters/vehicle/engage": [ENGAGE]}, "which is code"),
    ({"adapters/continuum/mlsysops": {"policies": ["evil.py"]}}, "runs code"),
    ({"adapters/continuum/mlsysops": {"policies": [], "applications": ["../away/secret.csv"]}}, OUTSIDE),
    ({"adapters/mosaik": {"simulator": {"python": "evil:Sim"}, "models": []}}, "runs code"),
    ({"adapters/mosaik": {"simulator": {"command": "touch {canary} %(addr)s"}, "models": []}}, "runs a command"),
    ({"adapters/mosaik": {"simulator": {"connect": "127.0.0.1:{port}"}, "models": []}}, ELSEWHERE),
    ({"adapters/fmi": {"unit": "package:cosim/adapters/fmi/example.py", "outputs": []}}, "runs code"),
    *(({"adapters/fmi": {"unit": name, "outputs": []}}, "runs code", {name: CODE}) for name in ("a.fmu", "evil.py")),
    ({"adapters/continuum/connect": "tcp://127.0.0.1:{port}"}, ELSEWHERE),
    ({"adapters/continuum/key": "a.csv"}, "proves a key"),
    ({"adapters/network": {"commands": "tcp://127.0.0.1:{port}"}}, ELSEWHERE),
    ({"adapters/network": {"reports": "tcp://127.0.0.1:{port}"}}, ELSEWHERE),
    ({"adapters/network": {"radio": {"x": "--out={away}/x"}}}, "is for programs"),
    ({"adapters/telemetry": {"prometheus": 0}}, LISTENS),
    ({"adapters/telemetry": {"host": "0.0.0.0"}}, LISTENS),
    ({"adapters/telemetry": {"otlp": "http://127.0.0.1:{port}"}}, SENDS),
    ({"adapters/live": {"listen": "tcp://0.0.0.0:*"}}, LISTENS),
    ({"adapters/live": {"keys": "../away"}}, "proves keys"),
    ({"nodes/e/live": {"address": "10.0.0.1"}, "adapters/live": {}}, "connects to a machine"),
    ({**VEHICLE, "adapters/vehicle/mavlink": True}, LISTENS),
    ({**VEHICLE, "adapters/vehicle/mavlink": {}}, LISTENS),
    ({**VEHICLE, "adapters/vehicle/mavlink": {"udp": "127.0.0.1:{port}", "tcp": None}}, LISTENS),
    ({**VEHICLE, "adapters/vehicle/aeroloop": "tcp://0.0.0.0:{free}"}, LISTENS),
    ({**VEHICLE, "adapters/vehicle/ardupilot": {"bind": "0.0.0.0:{free}"}}, LISTENS),
    ({**VEHICLE, "nodes/d/vehicle/autopilot": "ardupilot-json"}, OTHER),
    ({**VEHICLE, "nodes/d/vehicle/autopilot": "external", "nodes/d/vehicle/address": "udp://127.0.0.1:{port}"}, OTHER),
    ({**VEHICLE, "nodes/d/vehicle/physics": {"address": "127.0.0.1:{port}"}}, OTHER),
    ({"run/nodes": "netns", "nodes/e/runs": "busybox"}, "starts programs"),
    ({"run/nodes": "containers", "nodes/e/runs": "evil/image:latest"}, "starts programs"),
    ({"run/nodes": "netns", "nodes/e/runs": {"image": "vuav", "command": ["touch", "{canary}"]}}, PROGRAM),
    ({"nodes/e/runs": {"image": "vuav", "environment": {"LD_PRELOAD": "./x.so"}}}, PROGRAM),
    ({"nodes/e/runs": {"image": "vuav", "ports": [8080]}}, LISTENS),
    ({"kinds": {"k": {"runs": {"image": "vuav", "command": ["x"]}}}}, PROGRAM),
    ({"nodes/e/runs": {"image": "vuav-ardupilot", "command": ["touch", "{canary}"]}}, PROGRAM),
    ({"defaults": {"runs": {"image": "vuav-ardupilot", "environment": {"BASH_ENV": "x"}}}}, PROGRAM),
    ({"include": ["own.yaml"]}, "starts programs", {"own.yaml": "run: {nodes: netns}"}),
    ({"include": ["own.yaml"]}, PROGRAM, {"own.yaml": "nodes: {e: {runs: {image: vuav, command: [sh]}}}"}),
    ({"nodes/e/dispatch": "evil:f"}, "is not a time"),
    ({"adapters/continuum/deciding": {"on": "e", "as": "evil:f"}}, "is not possible here"),
    ({"adapters/continuum/scheduler": "agent:guest"}, "which is code"),
    ({"adapters/continuum/scheduler": "./evil.py"}, "no scheduler"),
    ({"nodes/e/cell": {"by": "evil:f"}, "adapters/radio": {}}, "right form"),
    ({"nodes/d/radio": {"by": "evil:f"}, "adapters/radio": {}}, "right form"),
    ({"events": [{"at": "1 s", "do": "evil:f", "node": "d"}]}, "is not possible here"),
    ({"nodes": {"../../away/x": {"kind": "device"}}}, "not a name of nodes"),
    ({"adapters": {"../../away/x": {"use": "continuum"}}}, "not a name"),
    ({"workloads": {"../../away/x": {"from": "d"}}}, "not a name"),
    ({"sweep": {"name": ["../../away/x"]}}, "cannot sweep"),
    ({"record": {"../../away/x": {"every": "1 s"}}}, "no signal"),
    ({"include": ["own.yaml"]}, "is not allowed here", {"own.yaml": "!!python/name:evil.f {name: x}"}),
    ({"nodes/e/uplink": "host"}, "host's network"),
    ({"defaults": {"uplink": {"to": "host"}}}, "host's network"),
    ({"adapters/sumo": {"config": "a.sumocfg"}}, WRITES, {"a.sumocfg": "<configuration/>"}),
    ({"adapters/sumo": {**SUMO, "additional": "b.xml"}}, WRITES, {"b.xml": "<additional/>"}),
    ({"adapters/sumo": {**SUMO, "options": {"fcd-output": "{away}/x"}}}, WRITES),
    ({"adapters/sumo": {**SUMO, "interface": "traci"}}, PORT),
    ({"adapters/sumo": {**SUMO, "gui": True}}, PORT),
    ({"adapters/sumo": {"server": "127.0.0.1:{port}"}}, ELSEWHERE),
    *(
        ({"adapters/sumo": SUMO}, why, {"a.net.xml": NET.format(more)})
        for more, why in (
            ('<e1Detector id="x" lane="a_0" pos="1" freq="1" file="{away}/x"/>', "no part of a network"),
            ('<edgeData id="x" file="{away}/x"/>', "no part of a network"),
            ('<include href="{away}/x"/>', "no part of a network"),
            ('<tlLogic id="n" type="actuated"><param key="file" value="{away}/x"/></tlLogic>', "other files"),
            ('<x:e1Detector xmlns:x="y" id="x" file="{away}/x"/>', "no part of a network"),
            ('<location xsi:schemaLocation="http://127.0.0.1:{port}/x" xmlns:xsi="x"/>', "other files"),
        )
    ),
    *(
        ({"adapters/sumo": SUMO}, why, {"a.rou.xml": text})
        for text, why in (
            ('<!DOCTYPE r SYSTEM "http://127.0.0.1:{port}/x"><routes/>', "document type"),
            ('<routes><vType id="t"><param key="device.ssm.file" value="{away}/x"/></vType></routes>', "other files"),
            ('<routes><vType id="t" imgFile="{away}/x"/></routes>', "other files"),
            ('<additional><calibrator id="c" output="{away}/x"/></additional>', "no part of a network"),
            ("<routes>", "is no XML"),
        )
    ),
    ({"adapters/sumo": {**SUMO, "routes": "a,b/r.xml"}}, "other characters", {"a,b/r.xml": "<routes/>"}),
    *(({"adapters/replay": {"file": name}, "nodes/f": {"fleet": "replay"}}, OUTSIDE) for name in _FILES),
    *(({"adapters/replay": {"file": name}, "nodes/f": {"fleet": "replay"}}, "other characters") for name in _PATTERNS),
    ({"adapters/replay": {"file": "fifo"}, "nodes/f": {"fleet": "replay"}}, "no file"),
    ({"adapters/continuum/network": {}, "tariffs": {"t": {"prices": "link.csv"}}}, OUTSIDE),
    ({"tariffs": {"t": {"carbons": "/etc/hostname"}}}, OUTSIDE),
    ({"workloads/w/arrivals": "trace {away}/secret.csv"}, OUTSIDE),
    ({"workloads/w/arrivals": "  trace\t../away/secret.csv "}, OUTSIDE),
    ({"nodes/d/at": "points link.csv"}, OUTSIDE),
    ({"nodes/d/at": "points  /etc/hostname"}, OUTSIDE),
    ({**VEHICLE, "adapters/vehicle/missions": {"d": "../away/secret.csv"}}, OUTSIDE),
    ({**VEHICLE, "adapters/vehicle/terrain": "link.csv"}, OUTSIDE),
    ({**VEHICLE, "adapters/vehicle/weeds": "link.csv"}, OUTSIDE),
    ({**VEHICLE, "adapters/vehicle/obstacles": "link.csv"}, OUTSIDE),
    ({"calibrate": {"observed": {"o": {"file": "/etc/hostname", "signal": "host.power"}}}}, OUTSIDE),
    ({"calibrate": {"observed": {"o": {"run": "way", "signal": "host.power"}}}}, OUTSIDE),
    ({"calibrate": {"recordings": {"r": {"run": "holds"}}}}, "leads out"),
    ({"calibrate": {"job": "evil:f", "data": "."}}, "which is code"),
    ({"calibrate": {"job": "x", "data": "../away"}}, OUTSIDE),
    ({"include": ["../away/more.yaml"]}, "from outside the scenario's folder"),
    ({"include": ["{away}/more.yaml"]}, "from outside the scenario's folder"),
    ({"include": ["more.yaml"]}, "from outside the scenario's folder"),
    ({"include": ["own.yaml"]}, "which is code", {"own.yaml": "adapters: {continuum: {scheduler: 'evil:f'}}"}),
    ({"parameters": {"a": "ev", "b": "il:f"}, "adapters/continuum/scheduler": "${{a}}${{b}}"}, "which is code"),
    ({"parameters": {"a": "."}, "workloads/w/arrivals": "trace ${{a}}${{a}}/away/secret.csv"}, OUTSIDE),
    ({"parameters": {"a": "evil:f"}, "adapters/continuum/scheduler": "${{a}}"}, "which is code"),
    ({"name": "../../away/x"}, "name"),
    ({"name": "/tmp/x"}, "name"),
    ({"calibrate": {"method": "evil:f"}}, "method"),
    ({"adapters/continuum/scheduler": "guest"}, "no scheduler 'guest'"),
    ({"adapters/guest": {}}, "not installed"),
]  # fmt: skip
OF_EXTENSIONS = [
    ("detection", {"adapters/detector": {"model": "link.csv"}}, OUTSIDE),
    *(("cosco", {"adapters/interval": {"policy": name}}, "which is code") for name in ("evil:f", "tier:f")),
    *(
        ("gpu_cluster", {"adapters/cluster": {**JOBS, key: "evil:f"}}, "code")
        for key in ("placement", "order", "wiring")
    ),
    ("gpu_cluster", {"adapters/cluster": {**JOBS, "jobs": {"trace": "link.csv"}}}, OUTSIDE),
    ("gpu_cluster", {"adapters/cluster": {**JOBS, "file": "/etc/hostname"}}, OUTSIDE),
    *(
        ("extcloudsim", {"adapters/datacentre": {**MACHINES, key: "evil:f"}}, "runs code")
        for key in ("detector", "selector", "placer", "governor", "predictor", "penalty")
    ),
    (
        "extcloudsim",
        {"adapters/datacentre": {**MACHINES, "places": {"p": {"nodes": "e", "prices": "link.csv"}}}},
        OUTSIDE,
    ),
    ("edgecloudsim", {"adapters/offloading": {**OFFLOAD, "policy": "evil:f"}}, "which is code"),
]


def put(data, changes, words):
    """`data` with `changes` at their paths, in whose texts `words` are filled in."""

    def filled(value):
        if isinstance(value, dict):
            return {filled(key): filled(child) for key, child in value.items()}
        if isinstance(value, list | tuple):
            return [filled(child) for child in value]
        return value.format(**words) if isinstance(value, str) else value

    for path, value in changes.items():
        *way, last = path.split("/")
        block = data
        for key in way:
            block = block.setdefault(key, {})
        block[last] = filled(value)
    return data


def tree(folder):
    """What is below `folder`, without the runs that were made in it: names, sizes and times of change."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if "runs" not in path.relative_to(folder).parts[1:2] and path.name != "log" and not path.is_dir():
            status = path.lstat()
            found[str(path.relative_to(folder))] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


class Cage:
    """An untrusted folder, a folder beside it that must not change, and a port that must get no connection."""

    def __init__(self, path: Path) -> None:
        self.folder, self.away, self.log, self.cache = (path / name for name in ("guest", "away", "log", "cache"))
        for folder in (self.folder, self.away, self.folder / "holds"):
            folder.mkdir()
        for name in ("evil", "kind", "package", "tier", "évil", "evilé", "guest"):
            (self.folder / f"{name}.py").write_text(CODE, encoding="utf-8")
        (self.away / "secret.csv").write_text("time,id,x,y\n0,a,0,0\n")
        (self.away / "more.yaml").write_text("title: of others\n")
        for name, target in (("link.csv", "secret.csv"), ("trace link", "secret.csv"), ("more.yaml", "more.yaml")):
            (self.folder / name).symlink_to(self.away / target)
        (self.folder / "way").symlink_to(self.away)
        (self.folder / "holds/away").symlink_to(self.away)
        os.mkfifo(self.folder / "fifo")
        info = self.folder / "guest-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
        kinds = [
            "adapters",
            "agents",
            "calibrations",
            "commands",
            "exporters",
            "importers",
            "jobs",
            "models",
            "schedulers",
        ]
        (info / "entry_points.txt").write_text("".join(f"[cosim.{kind}]\nguest = guest:f\n" for kind in kinds))
        self.ear = socket.create_server(("127.0.0.1", 0))
        self.ear.setblocking(False)
        self.words = {"away": self.away, "canary": self.away / SUNG, "port": self.ear.getsockname()[1], "free": 1}
        for name, text in FILES.items():
            self.file(name, text)

    def file(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text.format(**self.words) if "{away}" in text or "{port}" in text else text)

    def write(self, changes=None):
        data = put(copy.deepcopy(GUEST), changes or {}, self.words)
        (self.folder / "scenario.cosim.yaml").write_text(json.dumps(data))

    def cosim(self, *arguments):
        """What `cosim ARGUMENTS` answers in the guest's folder."""
        environment = {**os.environ, "CANARY": str(self.away), "COLUMNS": "300", "TERM": "dumb"}
        return COSIM.run("tests.canary", self.log, *arguments, cwd=self.folder, env=environment)

    def untouched(self, before):
        """Nothing was run, written, listened to or asked."""
        assert not (self.away / SUNG).exists(), "code of the scenario ran"
        assert tree(self.folder.parent) == before, "something was written outside of the results"
        assert not self.log.exists() or self.log.read_text() == "", "a socket or a program was used"
        with pytest.raises(BlockingIOError):
            self.ear.accept()


@pytest.fixture
def cage(tmp_path):
    made = Cage(tmp_path)
    yield made
    made.ear.close()


def refused(cage, changes, why, files=None):
    for name, text in (files or {}).items():
        cage.file(name, text)
    cage.write(changes)
    before = tree(cage.folder.parent)
    done = cage.cosim("run", ".", "--untrusted", "--driver", "loop", "--no-report")
    cage.untouched(before)
    assert done.returncode == 2, done.stdout + done.stderr
    assert why in " ".join(done.stderr.split()), done.stderr


@pytest.mark.parametrize(
    "case", REFUSED, ids=lambda case: f"{next(iter(reversed(case[0].items())))}"[:90].replace("/", ".")
)
def test_what_reaches_beyond_the_scenario_is_refused_and_does_nothing(cage, case):
    refused(cage, *case)


@pytest.mark.parametrize("keep", [gzip.compress, lambda raw: gzip.compress(raw[:40]) + gzip.compress(raw[40:]),
                                  lambda raw: raw.decode().encode("utf-16")])  # fmt: skip
def test_a_network_that_is_packed_or_encoded_in_another_way_is_looked_at_as_well(cage, keep):
    detector = f'<e1Detector id="x" lane="a_0" pos="1" freq="1" file="{cage.away}/x"/>'
    (cage.folder / "a.net.xml").write_bytes(keep(NET.format(detector).encode()))
    refused(cage, {"adapters/sumo": SUMO}, "no part of a network")


@pytest.mark.parametrize("case", [pytest.param(case[1:], marks=needs(case[0])) for case in OF_EXTENSIONS])
def test_what_reaches_beyond_extensions_is_refused_and_does_nothing(cage, case):
    refused(cage, *case)


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", ".", "--untrusted", "--set", "adapters.continuum.scheduler=evil:f"),
        ("run", ".", "--untrusted", "--seed", "1..2", "--set", "adapters.continuum.scheduler=evil:f"),
        ("run", ".", "--untrusted", "--nodes", "netns"),
        ("run", ".", "--untrusted", "--nodes", "containers"),
        ("check", ".", "--untrusted", "--set", "adapters.continuum.scheduler=evil:f"),
        ("check", ".", "--untrusted", "--set", "sweep={adapters.continuum.scheduler: [random, 'evil:f']}"),
        ("sweep", ".", "--untrusted", "--set", "sweep={adapters.continuum.scheduler: [random, 'evil:f']}"),
        ("plan", ".", "--untrusted", "--set", "adapters.continuum.scheduler=evil:f"),
        ("calibrate", ".", "--untrusted", "--set", "adapters.continuum.scheduler=evil:f"),
        ("sweep", ".", "--untrusted", "--set", "sweep={workloads.w.arrivals: ['trace link.csv']}"),
    ],
    ids=lambda words: " ".join(words),
)
def test_settings_seeds_and_sweeps_are_looked_at_as_well(cage, arguments):
    cage.write()
    before = tree(cage.folder.parent)
    done = cage.cosim(*arguments)
    cage.untouched(before)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "untrusted" in done.stderr


MODULES = ("numpy", "typer", "yaml", "json", "zmq", "numba", "sitecustomize", "usercustomize", "conftest", "cosim")
LURKING = {
    **{f"{name}.py": CODE for name in MODULES},
    "cosim/__init__.py": CODE,
    "x.pth": f"import os; open(os.environ['CANARY'] + '/{SUNG}', 'w')\n",
    "notebook.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": CODE}]}),
    ".numba_config.yaml": "cache_dir: pickles\ndebug: 1\n",
    "matplotlibrc": "backend: module://evil\n",
    "setup.cfg": "[options]\nentry_points = x\n",
    ".env": "PYTHONSTARTUP=evil.py\n",
    "Makefile": f"all:\n\ttouch $(CANARY)/{SUNG}\n",
    "jobs/guest.yaml": "{job: 'evil:f'}\n",
    "guest.calibration.yaml": "{adapters: {continuum: {scheduler: 'evil:f'}}}\n",
}


def test_files_that_only_lie_there_do_nothing(cage):
    """In an interpreter of its own, from the guest's folder, with a sweep's worker processes."""
    for name, text in LURKING.items():
        cage.file(name, text)
    cage.write()
    before = tree(cage.folder.parent)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"CANARY": str(cage.away), "PYTHONPATH": str(ROOT)}
    for words in (["run", "."], ["run", ".", "--seed", "1..2", "--workers", "2"]):
        command = [sys.executable, "-P", "-m", "cosim", *words, "--untrusted", "--no-report"]
        done = subprocess.run(command, cwd=cage.folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    cage.untouched(before)


@pytest.mark.needs("git")
@pytest.mark.parametrize("trusted", [False, True])
def test_a_repository_that_came_with_the_folder_names_no_programs(cage, trusted):
    cage.write()
    call = f"touch {cage.away / SUNG}; false"
    settings = {
        "core.fsmonitor": call, "filter.x.clean": call, "filter.x.process": call, "core.hooksPath": str(cage.folder),
        "core.pager": call, "diff.external": call, "core.sshCommand": call, "core.gitProxy": call, "gpg.program": call,
        "remote.o.url": f"ext::sh -c {call}", "remote.o.promisor": "true", "extensions.partialClone": "o",
    }  # fmt: skip

    def git(*words):
        subprocess.run(
            ["git", "-C", cage.folder, "-c", "user.name=a", "-c", "user.email=b", *words],
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    git("add", "scenario.cosim.yaml")
    git("commit", "-qm", "x")
    for name, value in settings.items():
        git("config", name, value)
    cage.file(".gitattributes", "* filter=x diff=x\n")
    cage.write({"title": "changed"})
    before = tree(cage.folder.parent)
    done = cage.cosim("run", ".", "--driver", "loop", "--no-report", *(() if trusted else ("--untrusted",)))
    assert done.returncode == 0, done.stderr
    cage.untouched(before)
    (manifest,) = (cage.folder / "runs/guest").glob("*/manifest.json")
    assert json.loads(manifest.read_text())["git"]["dirty"] is True


@pytest.mark.parametrize("where", ["runs", "runs/guest", "runs/guest/sweep-1/runs"])
def test_results_are_not_written_through_links_of_the_folder(cage, where):
    cage.write()
    link = cage.folder / where
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(cage.away)
    before = tree(cage.away)
    done = cage.cosim("run", ".", "--untrusted", "--driver", "loop", "--no-report")
    assert done.returncode != 0
    assert "holds links" in done.stdout + done.stderr
    assert tree(cage.away) == before


def test_a_run_is_resumed_as_it_was_begun(cage):
    """A run of code is not resumed untrusted; one that began untrusted stays so without the option."""
    for begun, again in ((("--set", "adapters.continuum.scheduler=evil:f"), ("--untrusted",)), (("--untrusted",), ())):
        cage.write()
        done = cage.cosim("run", ".", "--driver", "loop", "--no-report", *begun)
        assert done.returncode == 0, done.stderr
        (manifest,) = (cage.folder / "runs/guest").glob("*/manifest.json")
        data = json.loads(manifest.read_text())
        assert data["untrusted"] is not bool(again)
        manifest.write_text(json.dumps(data | {"status": "running", "digest": ""}))
        (cage.away / SUNG).unlink(missing_ok=True)
        cage.log.unlink(missing_ok=True)
        if not again:  # what was data became code
            resolved = manifest.parent / "scenario.resolved.yaml"
            resolved.write_text(resolved.read_text().replace("continuum: {}", "continuum: {scheduler: 'evil:f'}"))
        before = tree(cage.folder.parent)
        done = cage.cosim("run", "--resume", manifest.parent, "--no-report", *again)
        assert done.returncode != 0
        cage.untouched(before)
        shutil.rmtree(cage.folder / "runs")


@pytest.mark.parametrize("name", scenarios("hello", "freeway", "jammed-farm", "stress-5g"))
def test_shipped_scenarios_without_code_run(tmp_path, name):
    words = ("--untrusted", "--driver", "loop", "--no-report", "--out", tmp_path / "runs", "--set", "run.duration=4 s")
    done = COSIM.run("tests.canary", tmp_path / "log", "run", name, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize(
    ("changes", "sign"),
    [
        ({"adapters/continuum/scheduler": "evil:f"}, SUNG),
        ({"adapters/continuum/scheduler": "kind:f"}, SUNG),
        ({"adapters/continuum/connect": "tcp://127.0.0.1:{port}"}, "zmq.connect"),
        ({"adapters/telemetry": {"prometheus": 0}}, "bind"),
        ({"adapters/telemetry": {"otlp": "http://127.0.0.1:{port}"}}, "connect"),
    ],
)
def test_the_canaries_sing_where_the_scenario_is_trusted(cage, changes, sign):
    cage.write({**changes, "run/timeout": "1 s"})
    cage.cosim("run", ".", "--driver", "loop", "--no-report")
    assert (cage.away / SUNG).exists() if sign == SUNG else sign in cage.log.read_text()
