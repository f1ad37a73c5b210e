"""The five real edges of `benchmarks.five_edges`."""

import contextlib
import http.server
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from benchmarks import edge_nodes, five_edges
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan
from tests.ports import free_port


def test_requests_are_of_the_papers_sizes_and_shares():
    rng = np.random.default_rng(1)
    one = five_edges.instance(20_000, five_edges.DISTRIBUTIONS["shifted"], np.full(5, 0.1), np.zeros(5), rng)
    np.testing.assert_allclose(np.bincount(one.source) / 20_000, (0.5, 0.2, 0.2, 0.05, 0.05), atol=0.01)
    np.testing.assert_allclose(np.bincount(one.target) / 20_000, (0.1, 0.1, 0.4, 0.25, 0.15), atol=0.01)
    assert [float(np.mean(one.input == size)) for size in (2.6, 7.9, 18.6)] == pytest.approx([0.5, 0.3, 0.2], abs=0.01)
    areas = np.square(five_edges.SIDES) / five_edges.SIDES[0] ** 2
    np.testing.assert_allclose(areas, np.array(five_edges.MEGABYTES) / 2.6, rtol=0.01)


def test_a_link_takes_what_the_problem_says(tmp_path):
    """Bytes over rate are the prototype's seconds per MB and distance, `QUICKER` times as fast."""
    (tmp_path / "scenario.cosim.yaml").write_text(five_edges.scenario([f"edge-{name}" for name in "abcde"]))
    links = compile_plan(load(tmp_path)).scene.links
    assert len(links) == 10
    for link in links:
        (a,), (b,) = link.a, link.b
        apart = np.hypot(*np.subtract(five_edges.PLACES[a.first], five_edges.PLACES[b.first]))
        for size in five_edges.MEGABYTES:
            found = 8.0 * five_edges.packed(size) / link.state.rate
            assert found == pytest.approx(size * apart * five_edges.TRANSFER / five_edges.QUICKER, rel=1e-3)


@pytest.mark.parametrize(("factor", "said"), [(0.9, "yes"), (0.999, "by the mean"), (1.1, "no")])
def test_a_cell_is_judged_by_pairs_of_rounds(factor, said):
    """Rounds differ by factors of up to three, and pairs of a round by a hundredth."""
    rng = np.random.default_rng(5)
    rows = []
    for k in range(8):
        base = rng.uniform(1.0, 3.0)
        for method in ("ours", "local", "predicted", "random (1k)"):
            value = base * rng.uniform(0.99, 1.01) * (factor if method == "ours" else 1.0 if method == "local" else 2.0)
            rows.append({"distribution": "equal", "requests": 50, "round": k, "method": method, "measured": value,
                         "expected": base})  # fmt: skip
    table, asked = five_edges.judged({"kind": "netns", "rows": rows})
    assert table.rows[0][-1] == said
    assert asked.rows[1][1] == f"{int(said == 'yes')} of 1"


@pytest.fixture
def waiting(tmp_path):
    """Edges without links, of which the first reads a line and ends, in a run that goes on."""
    with contextlib.ExitStack() as stack:
        edges = five_edges.Linked("netns", tmp_path)
        stack.enter_context(edges.stack)
        (tmp_path / "run.log").write_text("the last words")
        edges.process = subprocess.Popen(["sleep", "600"])
        stack.callback(edges.process.wait)
        stack.callback(edges.process.kill)
        yield edges


@pytest.mark.parametrize("code", ["input()", ""])
def test_an_answer_of_an_edge_that_has_left_is_not_waited_for(waiting, code):
    waiting._enter("edge-a", [sys.executable, "-c", code])
    with pytest.raises(RuntimeError, match=r"the program of edge-a has ended.*the last words"):
        waiting._do({0: [[0, 0, 0, 0, 1, 1]]}, 1)


def test_an_answer_is_not_waited_for_after_the_run(waiting, monkeypatch):
    monkeypatch.setattr(five_edges, "LOOKING", 0.01)
    waiting._enter("edge-a", [sys.executable, "-c", "import sys; sys.stdin.read()"])
    waiting.process.kill()
    with pytest.raises(RuntimeError, match="the run of the edges has ended: the last words"):
        waiting._do({0: [[0, 0, 0, 0, 1, 1]]}, 1)


def test_a_program_whose_service_fails_ends():
    # It answers 501. Each of the program's connections has a thread of its own: the first one may stay silent.
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as service:
        threading.Thread(target=service.serve_forever, daemon=True).start()
        start = "edge_program.PORT, edge_program.SERVICE = map(int, sys.argv[1:])"
        start = f"import sys, edge_program; {start}; edge_program.Edge(0, 1, {{0: '127.0.0.1'}}).serve()"
        words = [sys.executable, "-c", start, str(free_port()), str(service.server_address[1])]
        folder = Path(five_edges.__file__).parent
        asked = json.dumps([0.0, [[0, 0, 192, 0, 8, 1]]])
        env = {**os.environ, "PYTHONPATH": str(folder)}
        with subprocess.Popen(
            words, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as program:
            print(asked, file=program.stdin, flush=True)
            assert program.wait(120.0) == 1
            assert "the service answered 501" in program.stderr.read()
        service.shutdown()


@pytest.mark.parametrize("edges", [1, 2])
def test_an_edge_that_is_gone_is_named(edges):
    nodes = [edge_nodes.Running(node, "127.0.0.1", free_port(), 0) for node in five_edges.nodes()[:edges]]
    one = five_edges.instance(4, ([1.0], [1.0]), np.ones(1), np.zeros(1), np.random.default_rng(1))
    with pytest.raises(RuntimeError, match=f"edge-{'ab'[edges - 1]} does not answer"):
        five_edges.carried_out(nodes, one, np.full(4, edges - 1))


@pytest.mark.slow
@pytest.mark.netns
def test_requests_cross_emulated_links(tmp_path):
    with five_edges.Linked("netns", tmp_path) as edges:
        assert edges.transfer == pytest.approx(five_edges.TRANSFER / five_edges.QUICKER, rel=0.5)
        slope, offset = edges.run_times(1)
        rng = np.random.default_rng(2)
        one = five_edges.instance(40, five_edges.DISTRIBUTIONS["equal"], slope, offset, rng, edges.transfer)
        near = one._replace(source=np.zeros(40, np.int64), target=np.zeros(40, np.int64))
        here, there = (edges.carried_out(near, np.full(40, q)) for q in (0, 1))
    size = sum(five_edges.packed(size) for size in one.input)  # B, all over one link of 17 Mbit/s
    assert there > 8.0 * size / 18e6 > 0.0
    assert here > 0.0


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not edge_nodes.GROUPS.is_dir(), reason="needs root and control groups")
def test_every_request_is_computed_where_it_was_decided():
    with edge_nodes.started(five_edges.nodes(), "process") as edges:
        slope, offset = five_edges.measured(edges, 1)
        one = five_edges.instance(
            120, five_edges.DISTRIBUTIONS["equal"], np.maximum(slope, 1e-4), offset, np.random.default_rng(2)
        )
        decision = np.array([0, 1, 2, 3] * 30)  # none at the fifth
        before = [edge.cpu() for edge in edges]
        found = five_edges.carried_out(edges, one, decision)
        used = np.array([edge.cpu() for edge in edges]) - before
    assert found > 0.0
    assert used[4] < 0.5 * used[:4].min(), used  # s; waiting costs a tick or two
