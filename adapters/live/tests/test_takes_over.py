"""An attached process takes over tasks of the scenario: each of them is either simulated or measured."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cosim
from cosim.talk import keys
from tests.ports import free_port

pytestmark = pytest.mark.clock


def scenario(folder, port, share="100 %", missing="wait", leave="[]", pacing="real-time"):
    block = f"offload: {{detection: {{share: {share}}}}}"
    file = folder / "scenario.cosim.yaml"
    file.write_text(f"""\
apiVersion: cosim/v1
kind: Scenario
name: taken
run: {{duration: 3 s, step: 200 ms, pacing: {pacing}, seed: 3}}
adapters:
  continuum: {{scheduler: least-loaded, leave: {leave}}}
  live: {{listen: "tcp://127.0.0.1:{port}", {block}}}
nodes:
  camera: {{kind: device, at: [0 m, 0 m]}}
  pi-lab: {{kind: edge, cpu: 4 x 1.5 GHz, live: {{key: lab, lease: 500 ms}}, missing: {missing}}}
links:
  - {{between: [camera, pi-lab], rate: 100 Mbit/s, delay: 2 ms}}
workloads:
  detection: {{from: camera, arrivals: every 100 ms, input: 2 kB, output: 1 kB, work: 1 Mcycles, deadline: 1 s}}
""")
    return file


@pytest.fixture
def attach(tmp_path):
    """Starts `cosim attach`; what is left is killed in the end."""
    server = keys.server_key(tmp_path / "keys")
    keys.write(keys.make("lab", server.public), tmp_path)
    (tmp_path / "lab.pub").rename(tmp_path / "keys/lab.pub")
    port, started = free_port(), []

    def start():
        words = ("attach", "--key", "lab.key", "--server", f"tcp://127.0.0.1:{port}", "--concurrency", "1")
        started.append(subprocess.Popen([sys.executable, "-m", "cosim", *words], cwd=tmp_path))
        return started[-1]

    yield port, start
    for process in started:
        process.kill()
        process.wait()


class Tasks:
    """An observer: instants of tasks that ended, by who made them. Ends `process` once it was there for a second."""

    def __init__(self, process=None):
        self.process, self.seen, self.made = process, 0, {"continuum": [], "live": []}

    def tick(self, tick, time, frames):
        for name, frame in frames:
            if frame.signal == "task":
                self.made[name] += frame["created"].round(6).tolist()
            elif frame.signal == "resources" and frame["present"].any():
                self.seen += 1
                if self.process is not None and self.seen == 5:
                    self.process.terminate()

    @property
    def all(self):
        """Instants of both, each once; what was made in the last half second may be under way in the end."""
        found = sorted(at for at in self.made["continuum"] + self.made["live"] if at < 2.5)
        assert len(found) == len(set(found))
        return found


def ran(file, tasks, *overrides):
    """The number of tasks that the run made."""
    outcome = cosim.run(file, overrides=overrides, out=file.parent / "runs", observers=[tasks])
    assert outcome.status == "complete", outcome.error
    return outcome.figures["tasks_created"]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """The tasks without a machine."""
    tasks = Tasks()
    file = scenario(tmp_path_factory.mktemp("process"), 5580)
    assert ran(file, tasks, "run.pacing=as-fast-as-possible", "nodes.pi-lab.missing=model") == 30
    assert not tasks.made["live"]
    return tasks.all


@pytest.mark.parametrize(("leave", "share"), [("[]", 100), ("[detection]", 50)])
def test_an_attached_machine_takes_over_its_share(tmp_path, attach, simulated, leave, share):
    port, start = attach
    start()
    tasks = Tasks()
    assert ran(scenario(tmp_path, port, f"{share} %", leave=leave), tasks) == 30
    assert tasks.all == simulated  # one task each, at the same instants
    assert (len(tasks.made["continuum"]) == 0) == (share == 100)
    assert len(tasks.made["live"]) >= 5


def test_a_machine_that_comes_and_goes_takes_what_is_due_while_it_is_there(tmp_path, attach, simulated):
    port, start = attach
    tasks = Tasks(start())
    ran(scenario(tmp_path, port, missing="model"), tasks)
    assert tasks.all == simulated
    if tasks.seen < 5:
        pytest.skip("the machine was too busy to attach within the run")
    assert min(map(len, tasks.made.values())) > 0
