"""What a scenario of somebody else may not hold, and where it is said."""

from __future__ import annotations

import sys

import pytest

from cosim.contract.errors import ScenarioError
from cosim.scenario.untrusted import refuse_untrusted

HEAD = """apiVersion: cosim/v1
kind: Scenario
name: guest
title: "kind of /etc: a title"
run: {duration: 10 s, seed: 7}
kinds:
  server: {tier: edge, cores: 2, clock: 2 GHz}
nodes:
  a: {kind: server}
"""


def write(tmp_path, more):
    (tmp_path / "inside").mkdir(exist_ok=True)
    path = tmp_path / "inside/scenario.cosim.yaml"
    path.write_text(HEAD + more)
    return path


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("adapters:\n  x:\n    use: evil:ADAPTER\n", 12, "'evil:ADAPTER' is code"),
        ("adapters:\n  mosaik:\n    simulator: {command: 'touch x %(addr)s'}\n", 12, "runs a command"),
        ("adapters:\n  mosaik:\n    simulator: {python: 'evil:Sim'}\n", 12, "'evil:Sim' is code"),
        (
            "adapters:\n  mosaik:\n    simulator:\n      connect: localhost:5555\n",
            13,
            "connects to a program elsewhere",
        ),
        ("adapters:\n  continuum:\n    connect: tcp://10.0.0.1:5555\n", 12, "connects to a program elsewhere"),
        ("adapters:\n  continuum:\n    scheduler: evil:choose\n", 12, "'evil:choose' is code"),
        ("adapters:\n  continuum:\n    mlsysops: {policies: [evil.py]}\n", 12, "runs code"),
        ("adapters:\n  continuum:\n    mlsysops: {policies: [], applications: [../a.yaml]}\n", 12, "outside"),
        ("adapters:\n  sumo:\n    network: a.net.xml\n    options: {fcd-output: x.xml}\n", 13, "any files"),
        ("adapters:\n  sumo:\n    config: a.sumocfg\n", 12, "any files"),
        ("adapters:\n  telemetry:\n    otlp: http://10.0.0.1:4318\n", 12, "sends"),
        ("adapters:\n  replay:\n    file: /etc/passwd\n", 12, "outside the scenario's folder"),
        ("adapters:\n  replay:\n    file: ../other.csv\n", 12, "outside the scenario's folder"),
        ("adapters:\n  replay:\n    file: link.csv\n", 12, "outside the scenario's folder"),
        ("adapters:\n  replay:\n    file: ~/x.csv\n", 12, "outside the scenario's folder"),
    ],
)
def test_what_reaches_beyond_the_scenario_is_refused_at_its_line(tmp_path, monkeypatch, more, line, said):
    monkeypatch.setattr(sys, "path", [str(tmp_path / "inside"), *sys.path])
    path = write(tmp_path, more)
    (tmp_path / "secret.csv").write_text("x")
    (tmp_path / "inside/link.csv").symlink_to(tmp_path / "secret.csv")
    (tmp_path / "inside/evil.py").write_text("raise SystemExit('it was imported')\n")
    with pytest.raises(ScenarioError, match=said) as caught:
        refuse_untrusted(path)
    (problem,) = caught.value.problems
    assert (problem.file, problem.line) == (path, line)
    assert "evil" not in sys.modules


def test_overrides_and_includes_are_looked_at_as_well(tmp_path):
    path = write(tmp_path, "adapters:\n  continuum: {}\n")
    refuse_untrusted(path)
    with pytest.raises(ScenarioError, match="is code"):
        refuse_untrusted(path, ["adapters.continuum.scheduler=evil:choose"])
    (tmp_path / "more.yaml").write_text("adapters: {radio: {}}\n")
    path.write_text("include: [../more.yaml]\n" + path.read_text())
    with pytest.raises(ScenarioError, match="outside the scenario's folder"):
        refuse_untrusted(path)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("parameters: {a: .}\nadapters:\n  replay: {file: '${a}${a}/secret.csv'}\n", "outside the scenario's folder"),
        ("parameters: {a: 'evil:', b: choose}\nadapters:\n  continuum: {scheduler: '${a}${b}'}\n", "is code"),
        (
            """parameters: {a: near, b: est}\nadapters:\n  continuum: {scheduler: '${a}${b}'}
sweep: {parameters.a: [near, 'evil:']}\n""",
            "is code",
        ),
    ],
)
def test_parameters_cannot_be_put_together_to_what_is_refused(tmp_path, more, said):
    with pytest.raises(ScenarioError, match=said):
        refuse_untrusted(write(tmp_path, more))


@pytest.mark.parametrize("name", ["hello", "offloading", "convoy"])
def test_scenarios_of_data_alone_pass(name):
    from pathlib import Path

    folder = Path(__file__).resolve().parents[2] / "scenarios" / name
    if not folder.is_dir():
        pytest.skip("there is no such scenario")
    refuse_untrusted(folder)
