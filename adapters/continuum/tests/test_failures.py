"""Nodes and links that fail by themselves."""

from types import SimpleNamespace

import pytest

import cosim
from cosim.adapters.continuum.config import FailureConfig
from cosim.adapters.continuum.failures import Failures

MTBF, REPAIR = 100.0, 25.0


def turns(config, until=200_000.0, seed=(3,), nodes=4, links=2):
    kinds = [SimpleNamespace(kind="edge" if k < 3 else "cloud") for k in range(nodes)]
    scene = SimpleNamespace(nodes=kinds, capacity=nodes)
    made = Failures(config, scene, links, seed)
    found = []
    while (turn := made.next(until)) is not None:
        found.append((turn, made.links_up.tolist()))
    return found


def test_times_up_and_down_have_their_means():
    found = [turn for turn, _ in turns({"edge": FailureConfig(mtbf=f"{MTBF} s", repair=f"{REPAIR} s")})]
    assert {turn.number for turn in found} == {0, 1, 2}
    assert [turn.at for turn in found] == sorted(turn.at for turn in found)
    for number in range(3):
        mine = [turn for turn in found if turn.number == number]
        assert [turn.up for turn in mine] == [k % 2 == 1 for k in range(len(mine))]
        down = sum(b.at - a.at for a, b in zip(mine[::2], mine[1::2], strict=False))
        assert down / 200_000.0 == pytest.approx(REPAIR / (MTBF + REPAIR), rel=0.1)


def test_links_fail_one_by_one_and_draw_from_streams_of_their_own():
    config = {"links": FailureConfig(mtbf="100 s", repair="25 s")}
    found = turns(config)
    for turn, up in found[:50]:
        assert turn.link
        assert up[turn.number] == float(turn.up)
    first = [turn.at for turn, _ in found if turn.number == 0]
    assert first == [turn.at for turn, _ in turns(config, links=1)]
    assert first != [turn.at for turn, _ in turns(config, seed=(4,)) if turn.number == 0]


TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: outages
run: {duration: 3 min, step: 1 s, seed: 3}
adapters:
  continuum: {scheduler: nearest, failures: {edge: {mtbf: 4 s, repair: 4 s}}, trace: {workloads: []}}
nodes:
  sensor: {kind: device}
  host: {kind: edge, cpu: 1 x 1 GHz}
links:
  - {between: [sensor, host]}
workloads:
  readings: {from: sensor, arrivals: every 1 s, work: 1 Mcycles}
events:
"""
EVENT = "  - {{at: {} s, do: fail, node: host, for: 9 s}}\n"
OUTAGES = range(20, 170, 30)


def test_a_node_is_up_while_neither_an_event_nor_a_failure_holds_it_down(tmp_path):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(TEXT + "".join(EVENT.format(at) for at in OUTAGES))
    run = cosim.load(cosim.run(file, out=tmp_path / "runs").folder)
    found = run.sql("""SELECT "at", event FROM node_event ORDER BY "at" """).fetchall()
    run.close()
    assert [event for _, event in found] == [("fail", "recover")[k % 2] for k in range(len(found))]
    spans = [(fell, back) for (fell, _), (back, _) in zip(found[::2], found[1::2], strict=False)]
    for at in OUTAGES:
        assert any(fell <= at and back >= at + 9 for fell, back in spans)
    assert (
        0 < sum(back in [at + 9 for at in OUTAGES] for _, back in spans) < len(OUTAGES)
    )  # else its own repair is later
