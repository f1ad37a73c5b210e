"""The farm whose drone is flown by an autopilot of its own over ArduPilot's interfaces, beside the built-in one."""

import socket
from pathlib import Path

import pytest

pytest.importorskip("pymavlink")

import cosim
from tests.ports import free_port
from tests.unit.autopilot.sitl import Sitl

FARM = Path(__file__).resolve().parents[2] / "scenarios" / "smart-farm"
HOME = (-12.0, 6.0, 0.0)
COLUMNS = ("number", "outcome", "reason", "t_command", "t_engage", "error_mean", "charge_landing")


def engagements(overrides, folder):
    outcome = cosim.run(FARM / "fixed-times.cosim.yaml", overrides=overrides, out=folder)
    assert outcome.error is None
    run = cosim.load(outcome.folder)
    rows = run.sql(f'SELECT {", ".join(COLUMNS)} FROM engagement ORDER BY "number"').fetchall()
    return [dict(zip(COLUMNS, row, strict=True)) for row in rows], run


@pytest.mark.slow
def test_every_engagement_of_the_farm_is_flown(tmp_path):
    ours, _ = engagements([], tmp_path / "ours")
    port = free_port(socket.SOCK_DGRAM)
    sitl = Sitl(port, HOME, rate=100)
    try:
        overrides = [
            "kinds.drone.vehicle.autopilot=ardupilot-json",
            f"adapters.vehicle.ardupilot.bind=127.0.0.1:{port}",
        ]
        theirs, run = engagements(overrides, tmp_path / "theirs")
    finally:
        sitl.close()
    assert len(ours) == len(theirs) == 4
    for built_in, own in zip(ours, theirs, strict=True):
        assert own["outcome"] == "completed"
        assert own["reason"] == built_in["reason"]
        assert own["t_command"] == built_in["t_command"]
        later = own["t_engage"] - built_in["t_engage"]
        if built_in["number"] in (1, 4):  # from the ground, and no turn on the headland on the way
            # 2 s from arming to the motors, 0.75 s to spin up, and a gentler beginning of the climb
            assert 0.5 < later < 5.0
            assert own["error_mean"] == pytest.approx(built_in["error_mean"], abs=0.1)
        assert abs(later) < 12.0
        assert own["charge_landing"] == pytest.approx(built_in["charge_landing"], abs=0.03, nan_ok=True)
    assert run.sql('SELECT "at" FROM autopilot').fetchall() == []
