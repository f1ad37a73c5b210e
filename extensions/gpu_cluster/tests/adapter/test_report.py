"""The section of a GPU cluster on the page of a run and in a comparison."""

from cosim.report import write_comparison, write_report
from cosim.report.folder import Folder
from cosim.report.own import own_charts
from cosim.results.session import run

SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: small
run: {duration: 30 min, step: 1 min}
adapters:
  gpus:
    use: cluster
    regular: {leaves: 4, down: 8, up: 8, ocs: 2, per_server: 4}
    nodes: "edge-*"
    jobs: {generate: uniform, count: 6, gpus: [2, 16], duration: [1 min, 5 min]}
nodes:
  edge-[1..4]: {kind: edge}
"""


def test_a_cluster_has_its_section_table_and_comparison(tmp_path):
    file = tmp_path / "small.cosim.yaml"
    file.write_text(SCENARIO)
    one, other = (run(file, out=tmp_path / "runs", overrides=[f"run.seed={seed}"]).folder for seed in (1, 2))
    page = write_report(one).read_text("utf-8")
    assert '<section id="cluster"><h2>GPU cluster</h2>' in page
    for shown in (
        "GPUs in use",
        "Circuits that jobs hold",
        "Power of the cluster",
        "Fabric at ",
        "GPU seconds: useful",
    ):
        assert shown in page
    with Folder(one) as folder:
        assert not {"cluster", "job", "circuit"} & {chart.title.partition(":")[0] for chart in own_charts(folder)}
    both = write_comparison([one, other], tmp_path / "both.html").read_text("utf-8")
    assert "GPUs in use by configuration" in both
