"""Data sets made on a Ray cluster, both nodes of which are on this machine."""

import pytest

from cosim.contract.errors import SetupError
from cosim.extensions.detection.dataset import Recipe, build
from cosim.results.executor import LocalExecutor
from cosim.results.sweep import run_sweep
from tests.integration.test_ray import HELLO, RAY, SEEDS, add_node, cluster

pytestmark = [pytest.mark.ray, pytest.mark.slow, *RAY]
__all__ = ["cluster"]  # the fixture


def test_a_data_set_from_the_cluster_has_the_bytes_of_a_local_one(cluster, tmp_path):
    add_node(cluster)
    made = run_sweep(HELLO, SEEDS, LocalExecutor(1), base=tmp_path / "runs", overrides=['run.duration="20 s"'])
    recipe = Recipe(("mobility", "traffic"), "link.rsrp <= -80")
    table = tmp_path / "log.csv"
    table.write_text("value,on\n" + "".join(f"{k},{k % 2}\n" for k in range(100)))
    for name, executor in (("near", "local"), ("far", f"ray:{cluster.address}")):
        build([made.path], recipe, tmp_path / name / "runs", executor=executor)
        build([table], Recipe((), "on == 1", blocks=4), tmp_path / name / "table", executor=executor)
    near, far = ({f.relative_to(tmp_path / n): f for f in (tmp_path / n).rglob("*.*")} for n in ("near", "far"))
    assert near.keys() == far.keys()
    assert len(near) == 3 + 4 + 4  # rows, and two files about each set
    assert all(near[name].read_bytes() == far[name].read_bytes() for name in near)
    with pytest.raises(SetupError, match=r"lost on the cluster: .*no column of numbers"):
        build(
            [made.path],
            Recipe(("link",), "traffic.uploads >= 1", columns=("link.cell",)),
            tmp_path / "words",
            executor=f"ray:{cluster.address}",
        )
