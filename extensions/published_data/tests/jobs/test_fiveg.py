from __future__ import annotations

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.published_data import fiveg
from cosim.extensions.published_data.models import cellular
from cosim.extensions.published_data.tests.jobs.data import DATA, needs
from cosim.twin.jobs import load

COLUMNS = (
    "source_file,Timestamp,Longitude,Latitude,Speed,CellID,NetworkMode,"
    "RSRP,RSRQ,SNR,CQI,RSSI,DL_bitrate,NRxRSRP,NRxRSRQ"
)


def write(folder, rows=200, days=("2020.01.03", "2020.01.05")):
    rng = np.random.default_rng(1)
    lines = [COLUMNS]
    for day in days:
        for k in range(rows):
            mode, snr = ("LTE", rng.integers(-5, 25)) if k % 3 else ("HSPA+", "-")
            lines.append(f"B_{day}_10.00.00.csv,{day},1,2,30,7,{mode},-90,-10,{snr},9,-60,{1000 * k},-,-")
    path = folder / "download_driving.csv"
    path.write_text("\n".join(lines))
    return path


def test_days_are_fitted_and_judged(tmp_path):
    write(tmp_path)
    (problem,) = load("5g")(tmp_path, {"day": "2020.01.03"})
    assert problem.fit.name == "days 2020.01.05"
    assert problem.held_back.name == "days 2020.01.03"
    reported = problem.held_back.simulate(np.repeat(problem.space.start[None], 2, axis=0), 1)
    assert reported["throughput.root"].shape == (2, 200)
    assert np.isfinite(reported["throughput.root"]).all()
    np.testing.assert_allclose(problem.held_back.observed["throughput.root"].values ** 2, np.arange(200.0))


def test_other_drives_can_be_judged(tmp_path):
    for name, days in (("fit", ("2020.01.03", "2020.01.05")), ("judged", ("2020.01.04",))):
        (tmp_path / name).mkdir()
        write(tmp_path / name, days=days)
    (problem,) = fiveg.problems(tmp_path / "fit", {"held_back": str(tmp_path / "judged")})
    assert problem.fit.name == "days 2020.01.03, 2020.01.05"
    assert problem.held_back.name == "days 2020.01.04"


def test_files_by_the_publishers_names_are_read(tmp_path):
    folder = tmp_path / "Download" / "Driving"
    folder.mkdir(parents=True)
    text = write(tmp_path).read_text()
    (tmp_path / "download_driving.csv").unlink()
    (folder / "B_2020.01.03_10.00.00.csv").write_text(
        "\n".join(line.partition(",")[2] for line in text.splitlines() if "2020.01.05" not in line)
    )
    assert set(fiveg.read_drives(tmp_path).day.tolist()) == {"2020.01.03"}


def test_rows_without_a_rate_or_a_level_are_left_out(tmp_path):
    path = write(tmp_path, rows=3)
    lines = path.read_text().splitlines()
    lines[1] = lines[1].replace(",-90,", ",-,")
    lines[2] = lines[2].replace(",1000,-,-", ",-5,-,-")
    path.write_text("\n".join(lines))
    assert len(fiveg.read_drives(tmp_path)) == 4


def test_what_cannot_be_judged_is_refused(tmp_path):
    write(tmp_path, days=("2020.01.03",))
    with pytest.raises(ScenarioError, match=r"the day 2020.01.03 cannot be held back"):
        fiveg.problems(tmp_path, {})
    with pytest.raises(ScenarioError, match="there is no set 'wifi'"):
        fiveg.problems(tmp_path, {"set": "wifi"})


def test_altitudes_take_turns(tmp_path):
    lines = ["altitude_m,Cell_id,2D_Distance,RSRP"]
    lines += [f"{h},{c},{100 + h},-80" for h in (20, 30, 40) for c in (5, 9)]
    (tmp_path / "filtered_even_altitudes.csv").write_text("\n".join(lines))
    (problem,) = fiveg.problems(tmp_path, {"set": "level"})
    assert problem.fit.name == "altitudes 20, 40 m"
    assert problem.held_back.name == "altitudes 30 m"
    assert len(problem.space) == 7
    for name, cells in (("same", (5, 9)), ("other", (5, 7))):
        (tmp_path / name).mkdir()
        rows = [lines[0], *(f"50,{c},150,-80" for c in cells)]
        (tmp_path / name / "filtered_even_altitudes.csv").write_text("\n".join(rows))
    data = tmp_path / "data"
    data.mkdir()
    (tmp_path / "filtered_even_altitudes.csv").rename(data / "filtered_even_altitudes.csv")
    (problem,) = fiveg.problems(data, {"set": "level", "held_back": str(tmp_path / "same")})
    assert (problem.fit.name, problem.held_back.name) == ("altitudes 20, 30, 40 m", "altitudes 50 m")
    with pytest.raises(ScenarioError, match="has the cells 5, 7, not 5, 9"):
        fiveg.problems(data, {"set": "level", "held_back": str(tmp_path / "other")})


class TestRealData:
    pytestmark = needs("network/ucc_5g")

    def test_plausible_parameters_are_nearer_to_the_downloads_than_the_mean_is(self):
        drives = fiveg.read_drives(DATA)
        values = np.array([(0.6, 1.2, -8.0, 5.0, 12.0, -8.0, 2.5, 40.0, -105.0)])
        reported = cellular.throughput(values, drives.samples)[0]
        mean = np.abs(drives.throughput - drives.throughput.mean()).mean()
        assert len(set(drives.day.tolist())) >= 2
        assert np.abs(reported - drives.throughput).mean() < mean
