"""Places of ranges of nodes: laws, grids and files."""

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.contract.trust import DataFile
from cosim.scenario.placement import Placement, places, read
from cosim.scenario.plan.compile import plan_of

TEXT = """
apiVersion: cosim/v1
kind: Scenario
name: places
run: {{duration: 1 s, step: 1 s, seed: {seed}}}
geo: {{origin: [39.36, 22.95, 60 m]}}
adapters:
  continuum: {{scheduler: nearest}}
nodes:
  host: {{kind: edge, cpu: 1 x 1 GHz, at: [1 m, 2 m]}}
  {nodes}
"""


def made(tmp_path, nodes, seed=1):
    file = tmp_path / "scenario.cosim.yaml"
    file.write_text(TEXT.format(nodes=nodes, seed=seed))
    scene = plan_of(file).scene
    return np.array([node.position for node in scene.nodes if node.kind == "device"])


def test_uniform_points_fill_their_area_and_repeat_with_the_seed(tmp_path):
    text = "dev-[1..{n}]: {{kind: device, at: uniform in 2 km x 1 km around 500 m; -100 m; 1.5 m}}"
    found = made(tmp_path, text.format(n=4000))
    assert np.array_equal(found, made(tmp_path, text.format(n=4000)))
    assert not np.array_equal(found, made(tmp_path, text.format(n=4000), seed=2))
    assert np.array_equal(found[:100], made(tmp_path, text.format(n=100)))  # a longer range moves nobody
    assert found.min(axis=0) == pytest.approx([-500.0, -600.0, 1.5], abs=5.0)
    assert found.max(axis=0) == pytest.approx([1500.0, 400.0, 1.5], abs=5.0)
    # of a uniform law on a side of 2 km: mean 0 and variance side^2 / 12, within four standard errors
    east = found[:, 0] - 500.0
    assert abs(east.mean()) < 4 * 2000 / np.sqrt(12 * 4000)
    assert east.var() == pytest.approx(2000.0**2 / 12, rel=4 * np.sqrt(0.8 / 4000))


def test_uniform_points_in_a_circle_have_equal_density_everywhere(tmp_path):
    found = made(tmp_path, "dev-[1..4000]: {kind: device, at: uniform in circle of 300 m}")
    inner = np.count_nonzero(np.hypot(found[:, 0], found[:, 1]) < 150.0)
    assert inner == pytest.approx(1000, abs=4 * np.sqrt(4000 * 0.25 * 0.75))
    assert np.hypot(found[:, 0], found[:, 1]).max() <= 300.0


def test_a_grid_has_equal_cells_with_a_node_in_the_middle_of_each(tmp_path):
    found = made(tmp_path, "dev-[1..8]: {kind: device, at: grid in 400 m x 200 m}")
    east, north = np.meshgrid([-150.0, -50.0, 50.0, 150.0], [-50.0, 50.0])
    assert found[:, :2].tolist() == np.stack([east.ravel(), north.ravel()], axis=1).tolist()


def test_a_poisson_process_has_the_mean_and_the_variance_of_its_law():
    placement = read("poisson 40 /km2 in 1 km x 500 m")
    counts = np.array([len(places(placement, 100, (seed,), None)) for seed in range(400)])
    assert counts.mean() == pytest.approx(20.0, abs=4 * np.sqrt(20 / 400))
    assert counts.var() == pytest.approx(20.0, rel=4 * np.sqrt(2 / 400))


def test_names_without_a_point_are_not_there(tmp_path):
    found = made(tmp_path, "dev-[1..100]: {kind: device, at: poisson 40 /km2 in 1 km x 500 m}")
    assert 0 < len(found) < 100


def test_points_come_from_a_file(tmp_path):
    (tmp_path / "local.csv").write_text("east,north,up\n1,2,3\n4.5,5,6\n\n7,8,9\n")
    found = made(tmp_path, "dev-[1..2]: {kind: device, at: points local.csv}")
    assert found.tolist() == [[1.0, 2.0, 3.0], [4.5, 5.0, 6.0]]
    (tmp_path / "global.csv").write_text("latitude,longitude\n39.36,22.95\n39.37,22.95\n")
    found = made(tmp_path, "dev-[1..2]: {kind: device, at: points global.csv}")
    assert found[0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert found[1] == pytest.approx([0.0, 1110.3, -0.1], abs=0.5)  # 0.01 degree of the meridian at 39.4 degrees


@pytest.mark.parametrize(("nodes", "message"), [
    ("dev: {kind: device, at: somewhere}", r"'somewhere' is no place"),
    ("dev: {kind: device, at: uniform in 2 km}", r"'2 km' is no area"),
    ("dev: {kind: device, at: uniform in 0 m x 1 m}", r"'0 m' must be above 0"),
    ("dev: {kind: device, at: grid in circle of 1 m}", r"a grid needs a rectangle"),
    ("dev: {kind: device, at: uniform in 1 m x 1 m around 3 m}", r"'3 m' is no centre"),
    ("dev: {kind: device, at: uniform in 1 x 1}", r"no unit"),
    ("dev: {kind: device, at: poisson 2 in 1 m x 1 m}", r"no unit"),
    ("dev: {kind: device, at: [1 m, 2]}", r"at\[?\.?1.*no unit"),
    ("dev-[1..3]: {kind: device, at: poisson 1 /m2 in 1 km x 1 km}", r"and the range has 3 names"),
    ("dev-[1..3]: {kind: device, at: points none.csv}", r"none.csv cannot be read"),
    ("dev-[1..3]: {kind: device, at: points short.csv}", r"short.csv has 2 points for 3 nodes"),
    ("dev: {kind: device, at: points bad.csv}", r"bad.csv, line 2: '1,x' is no point of 2 numbers"),
    ("dev: {kind: device, at: points pole.csv}", r"pole.csv, line 2: '99,13' is no latitude"),
    ("dev: {kind: device, at: points scenario.cosim.yaml}", r"must begin with the line 'east,north,up'"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path, nodes, message):
    (tmp_path / "short.csv").write_text("east,north\n1,2\n3,4\n")
    (tmp_path / "pole.csv").write_text("latitude,longitude\n99,13\n")
    (tmp_path / "bad.csv").write_text("east,north\n1,x\n")
    with pytest.raises(ScenarioError, match=message):
        made(tmp_path, nodes)


@pytest.mark.parametrize("text", [
    "uniform in 2000 m x 1000 m around 1 m; 2 m; 0 m", "grid in 20 m x 10 m around 0 m; 0 m; 0 m",
    "poisson 40 /m2 in circle of 5 m around 0 m; 0 m; 0 m", "points a/b.csv",
])  # fmt: skip
def test_a_placement_is_written_as_it_is_read(tmp_path, text):
    from cosim.scenario.placement import _plain

    assert _plain(read(text)) == text
    assert isinstance(read(text), Placement)


def test_files_of_points_count_as_files(tmp_path):
    (tmp_path / "masts.csv").touch()
    assert "outside" in DataFile("points").problem("points ../masts.csv", tmp_path)
    assert "outside" in DataFile("trace").problem("trace /etc/passwd", tmp_path)
    assert not DataFile("points").problem("points masts.csv", tmp_path)
    assert not DataFile("points").problem("grid in 0.05 /h", tmp_path)
