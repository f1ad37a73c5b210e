"""The comparison with EdgeCloudSim, on a small folder of its layout with results of our own."""

import csv
import json
import re

import pytest

pytest.importorskip("scipy")

from benchmarks.equivalence import Sample

from benchmarks import edgecloudsim
from tests.unit.sources.importing.inputs import written

CONFIGS = ("small", "other")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A data folder whose golden figures are 40 runs of ours with other seeds; `other` has none."""
    base = tmp_path_factory.mktemp("data")
    names = [path.name for path in written(base)]
    with (base / "index.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["config_id", "properties", "edge_devices", "applications", "base_properties"])
        writer.writerows([[name, *names, names[0]] for name in CONFIGS])
    study = edgecloudsim.read_studies(base, ["small"])["small"]
    runs = [edgecloudsim.carry_out((study, seed)) for seed in range(5000, 5040)]
    rows = [
        (metric, Sample.of([run.metrics[metric] for run in runs]))
        for metric in ("service_time_s", "network_delay_s", "tasks_counted", "failed_mobility_pct", "cost")
    ]
    golden(base / "golden.csv", [("small", metric, sample) for metric, sample in rows])
    return base


def golden(file, rows):
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["config_id", "iterations", "metric", "unit", "mean", "sd", "min", "max"])
        for config, metric, sample in rows:
            writer.writerow([config, sample.runs, metric, "s", sample.mean, sample.sd, "", ""])
        writer.writerow(["small", 40, edgecloudsim.REFERENCE_CPU, "s", 1.5, "", "", ""])


def benchmark(monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["edgecloudsim", *map(str, arguments)])
    code = edgecloudsim.main()
    reported = capsys.readouterr()
    return code, reported.out, reported.err


def test_the_same_model_is_not_different(folder, monkeypatch, capsys):
    code, out, err = benchmark(monkeypatch, capsys, "--data", folder, "--runs", 30, "--json")
    data = json.loads(out)
    assert code == 0
    assert "2/2 other" in err
    small, other = data["configurations"]
    verdicts = {row["metric"]: row["verdict"] for row in small["metrics"]}
    assert verdicts["network_delay_s"] == verdicts["cost"] == "equivalent"
    assert "different" not in verdicts.values()
    assert small["reference_cpu_s_per_iteration"] == 1.5
    assert small["speed_up"] == pytest.approx(1.5 / small["cpu_s_per_run"])
    assert {row["verdict"] for row in other["metrics"]} == {"none"}
    assert data["summary"]["different"] == 0


def test_another_mean_is_different_and_the_exit_code_says_so(folder, tmp_path, monkeypatch, capsys):
    file = tmp_path / "shifted.csv"
    golden(
        file, [("small", "network_delay_s", Sample(12, 0.03, 0.0001)), ("small", "unheard_of", Sample(12, 1.0, 0.1))]
    )
    arguments = ("--data", folder, "--golden", file, "--config", "small", "--runs", 3)
    code, out, _ = benchmark(monkeypatch, capsys, *arguments)
    assert code == 1
    assert "different" in next(line for line in out.splitlines() if line.startswith("network_delay_s"))
    assert "['unheard_of']" in out


def test_seeds_differ_between_configurations_and_stay(folder):
    assert edgecloudsim.seeds_of("a", 3) == edgecloudsim.seeds_of("a", 5)[:3]
    assert not set(edgecloudsim.seeds_of("a", 5)) & set(edgecloudsim.seeds_of("b", 5))


@pytest.mark.slow
def test_processes_give_the_same_runs(folder):
    study = edgecloudsim.read_studies(folder, ["small"])
    one, two = (next(iter(edgecloudsim.simulated(study, 2, jobs)))[1] for jobs in (1, 2))
    assert [run.metrics for run in one] == [run.metrics for run in two]


@pytest.mark.parametrize(("text", "message"), [
    (None, "index.csv cannot be read"),
    ("a,b\n1,2\n", "has no column config_id"),
    ("config_id,properties,edge_devices,applications\nx,p,e\n", "index.csv:2: the row has another number of columns"),
    ("config_id,properties,edge_devices,applications\nx,p,e,a\n", "configuration x: .*cannot be read"),
])  # fmt: skip
def test_bad_data_ends_with_2_and_says_where(tmp_path, monkeypatch, capsys, text, message):
    if text is not None:
        (tmp_path / "index.csv").write_text(text)
    code, out, err = benchmark(monkeypatch, capsys, "--data", tmp_path)
    assert (code, out) == (2, "")
    assert re.search(message, err)


def test_without_data_or_with_an_unknown_configuration_it_says_what_to_give(folder, monkeypatch, capsys):
    assert benchmark(monkeypatch, capsys)[0] == 2
    code, _, err = benchmark(monkeypatch, capsys, "--data", folder, "--config", "smal")
    assert code == 2
    assert "no configuration smal; it has small, other" in err


def test_a_figure_that_is_no_number_is_named_with_its_line(folder, tmp_path, monkeypatch, capsys):
    file = tmp_path / "golden.csv"
    file.write_text("config_id,metric,unit,iterations,mean,sd\nsmall,cost,s,12,many,0\n")
    code, _, err = benchmark(monkeypatch, capsys, "--data", folder, "--golden", file)
    assert code == 2
    assert "golden.csv:2: could not convert" in err
