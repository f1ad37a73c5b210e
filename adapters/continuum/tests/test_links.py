"""Links with two rates, with jitter, and nodes that cost while they stand idle: closed forms."""

import numpy as np
import pytest

import cosim
from cosim.results.session import run_plan
from cosim.scenario.plan.compile import plan_of

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: links
run: {{duration: {duration}, step: 1 s, seed: 3}}
adapters:
  continuum: {{scheduler: nearest}}
nodes:
  dev: {{kind: device}}
  host: {{kind: edge, cpu: 1 x 1 GHz, cost: {{own: 3.6 /h, cpu: 2 /s}}}}
  spare: {{kind: edge, cpu: 1 x 1 GHz, cost: {{own: 24 /d}}}}
links:
  - {{between: [{between}], rate: 8 Mbit/s, {link}}}
  - {{between: [host, spare], rate: 1 Gbit/s, delay: 1 s}}
workloads:
  w: {{from: dev, arrivals: every 1 s, input: 100 kB, output: 100 kB, work: 100 Mcycles}}
"""


def made(tmp_path, link, between="dev, host", duration="20 s"):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(TEXT.format(link=link, between=between, duration=duration))
    outcome = run_plan(plan_of(file), tmp_path / "runs", driver="loop")
    assert outcome.status == "complete", outcome.error
    return outcome, cosim.load(outcome.folder)


def legs(run):
    rows = run.execute("SELECT uploaded - created, ended - computed FROM task WHERE status = 'completed'").fetchnumpy()
    return tuple(np.asarray(column) for column in rows.values())


@pytest.mark.parametrize(("between", "up", "down"), [("dev, host", 0.11, 0.41), ("host, dev", 0.41, 0.11)])
def test_each_direction_has_its_own_rate(tmp_path, between, up, down):
    """100 kB take 0.1 s at 8 Mbit/s and 0.4 s at 2 Mbit/s, and 10 ms of delay."""
    _, run = made(tmp_path, "rate_back: 2 Mbit/s, delay: 10 ms", between)
    there, back = legs(run)
    assert there == pytest.approx(np.full(len(there), up), abs=1e-9)
    assert back == pytest.approx(np.full(len(back), down), abs=1e-9)


def test_jitter_is_uniform_around_the_delay_and_repeats(tmp_path):
    _, run = made(tmp_path, "delay: 50 ms, jitter: 20 ms", duration="600 s")
    there, back = (leg - 0.15 for leg in legs(run))  # 0.1 s of transfer and the delay
    n = len(there)
    for late in (there, back):
        assert -0.02 <= late.min() < -0.019
        assert 0.019 < late.max() <= 0.02
        # uniform on a width of 0.04: variance width^2 / 12, fourth moment width^4 / 80; four standard errors
        assert late.mean() == pytest.approx(0.0, abs=4 * 0.04 / np.sqrt(12 * n))
        assert late.var() == pytest.approx(0.04**2 / 12, rel=4 * np.sqrt((144 / 80 - 1) / n))
    assert np.corrcoef(there, back)[0, 1] == pytest.approx(0.0, abs=4 / np.sqrt(n))
    _, again = made(tmp_path, "delay: 50 ms, jitter: 20 ms", duration="600 s")
    assert np.array_equal(legs(again)[0] - 0.15, there)


def test_jitter_never_brings_data_before_it_was_sent(tmp_path):
    _, run = made(tmp_path, "delay: 1 ms, jitter: 20 ms", duration="200 s")
    assert legs(run)[0].min() == pytest.approx(0.1)


def test_a_node_costs_while_it_is_owned(tmp_path):
    """Over 20 s: 0.001 per s for the host and 24 a day for the spare one, which computes nothing."""
    outcome, run = made(tmp_path, "delay: 1 ms")
    own = 20 * 0.001 + 20 * 24 / 86400
    cost = run.metrics["ledgers"]["continuum"]["cost"]
    assert outcome.figures["cost_own"] == pytest.approx(own)
    assert cost["by_node"]["spare"] == pytest.approx(20 * 24 / 86400)
    assert cost["total"] == pytest.approx(own + cost["cpu"])
    assert cost["cpu"] > 0.0
    assert run.manifest["faults"] == []
    (shown,) = run.execute("SELECT max(cost) FROM host WHERE node = 'spare'").fetchone()
    assert shown == pytest.approx(20 * 24 / 86400)
