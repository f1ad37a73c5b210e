"""Fig. 9: orders of windows by the cluster's own bounds."""

from cosim.extensions.gpu_cluster.claims import figure9
from cosim.extensions.gpu_cluster.cluster.generate import uniform


def test_work_takes_no_less_than_all_gpus_need_and_one_window_is_best_in_the_best_order():
    found = figure9("all", 3, None, jobs=5, leaves=8)
    work = uniform(3, 5)
    least = float(work.duration.max()) / 3600.0
    assert all(row["makespan, h"] >= least * (1 - 1e-9) for row in found.values())
    assert found["best of all"]["makespan, h"] == min(row["makespan, h"] for row in found.values())
