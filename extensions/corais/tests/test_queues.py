"""The adapter `corais`: requests through the queues of edges, what it refuses, and whole runs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from cosim.contract.adapter import Context, Inputs
from cosim.contract.entities import Node, Scene
from cosim.contract.errors import ScenarioError
from cosim.contract.frame import Frame
from cosim.contract.signals import TASK_EVENTS
from cosim.extensions.corais.adapter import ADAPTER
from cosim.extensions.corais.adapter.adapter import CoraisAdapter
from cosim.extensions.corais.adapter.check import problems
from cosim.extensions.corais.adapter.config import CoraisConfig
from cosim.results.session import run
from cosim.scenario.gallery import example
from cosim.testing import check_adapter

NODES = (
    Node("van", "vehicle", "device"),
    *(Node(f"e{k}", "station", "edge", cores=1, clock=1e9) for k in range(1, 4)),
)


def context():
    return Context("corais", Scene.build(NODES), 1.0, 10.0, (1, 2, 3, 4), "", "")


def events(time, *rows):
    """Of task 0 of the van: names, and hosts."""
    count = len(rows)
    columns = {
        "task": np.zeros(count, np.int64), "event": np.array([TASK_EVENTS.index(name) for name, _ in rows]),
        "host": np.array([host for _, host in rows]), "status": np.zeros(count, np.int64),
        "created": np.zeros(count), "at": np.full(count, time),
    }  # fmt: skip
    return Frame("task_event", time, np.zeros(count, np.int32), columns)


def cell(time, slot):
    return Frame("link", time, np.zeros(1, np.int32), {"cell": np.array([slot])})


def test_it_keeps_the_contract():
    check_adapter(ADAPTER)


def test_a_request_passes_the_queues_of_two_edges_and_finds_its_client_in_another_region():
    adapter = CoraisAdapter(CoraisConfig(regions={"west": ["e1", "e2"], "east": "e3"}))
    adapter.start(context())
    seen = []
    for time, event, host, at in (
        (0.0, None, -1, 1), (1.0, "created", -1, 1), (2.0, "assigned", 2, 1), (3.0, "uploaded", 2, 1),
        (4.0, "started", 2, 3), (5.0, "computed", 2, 3), (6.0, "ended", 2, 3),
    ):  # fmt: skip
        frames = {"link": [cell(time, at)], **({"task_event": [events(time, (event, host))]} if event else {})}
        (frame,) = adapter.step(time, Inputs(frames))
        seen.append({name: column.tolist() for name, column in frame.columns.items() if column.any()})
    first, second = [1, 0, 0], [0, 1, 0]
    assert seen == [
        {}, {"waiting": first}, {"out": first, "coming": second}, {"coming": second}, {"coming": second},
        {"done": second}, {},
    ]  # fmt: skip
    told = adapter.finish()
    assert told["queues"] == {"waiting": 1, "local": 0, "out": 1, "coming": 1, "done": 1}
    assert told["clients"]["out"] == {"requests": 1, "response": 6.0}


@pytest.mark.parametrize(("block", "path", "words"), [
    ({"regions": {"west": "x*"}}, "regions.west", "no edge with a cpu"),
    ({"regions": {"west": "e1", "east": "e*"}}, "regions.east", "'e1' is in region 'west' as well"),
    ({"regions": {"west": "e*"}, "central": {"east": "e1"}}, "central.east", "no region 'east'"),
    ({"regions": {"west": "e*"}, "central": {"west": "van"}}, "central.west", "no edge or cloud 'van' with a cpu"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_the_run(block, path, words):
    config = CoraisConfig(**block)
    (found,) = problems(config, context())
    assert found.path == f"adapters.corais.{path}"
    assert words in found.message
    with pytest.raises(ScenarioError, match="corais"):
        CoraisAdapter(config).start(replace(context()))


@pytest.mark.slow
def test_the_books_of_a_run_close(tmp_path):
    """Requests of all queues add up, every edge registers, and a node can work on each decision."""
    words = ["run.duration=8 s", "adapters.continuum.scheduler=corais-search", "adapters.corais.takes=0 s"]
    words.append("adapters.continuum.deciding={on: west-2, as: 5 ms}")
    made = run(example("two-regions").folder, overrides=words, out=tmp_path)
    assert made.error is None
    manifest = json.loads((made.folder / "manifest.json").read_text("utf-8"))
    books = {one["name"]: one["summary"] for one in manifest["adapters"]}
    told, passed = books["continuum"]["corais-search"], books["corais"]["queues"]
    tasks, deciding = books["continuum"]["tasks"], books["continuum"]["deciding"]
    assert passed["waiting"] == tasks["created"]
    assert passed["out"] == passed["coming"]
    assert tasks["completed"] <= passed["done"] <= passed["local"] + passed["out"] <= told["briefs"]
    assert sum(one["requests"] for one in books["corais"]["clients"].values()) == tasks["completed"]
    assert (told["registrations"], told["dropped"], told["elections"]) == (8, 0, 1)
    assert told["briefs"] <= deciding["decisions"] <= tasks["created"]
    assert deciding["delay"] >= 0.005
