"""What a run does besides stepping."""

from __future__ import annotations

import logging

import numpy as np

from cosim.contract.frame import Frame
from cosim.results.session import _log_into, _publisher
from cosim.talk.publish import Subscriber


def test_an_observer_sees_the_frames_of_a_run() -> None:
    said: list[str] = []
    frame = Frame("mobility", 1.5, np.array([0, 2], np.int32), {"x": np.array([1.0, 2.0])})
    with _publisher(said.append) as publishing, Subscriber(said[0].rpartition(" ")[2]) as watch:
        for tick in range(1200):  # the first ones are gone before the connection stands
            publishing.tick(tick, tick * 0.5, [("cars", frame)])
            snapshot = watch.latest(0.05)
            if snapshot is not None:
                break
    assert snapshot is not None
    assert snapshot.frames[0].signal == "mobility"
    assert snapshot.frames[0]["x"].tolist() == [1.0, 2.0]


def test_what_the_package_and_its_adapters_log_is_kept_and_adapters_warn_aloud(tmp_path, capsys) -> None:
    before = [
        (logging.getLogger(name).level, logging.getLogger(name).handlers[:]) for name in ("cosim", "cosim.adapters")
    ]
    with _log_into(tmp_path / "run.log"):
        logging.getLogger("cosim.vehicle").info("flown here")
        logging.getLogger("cosim.adapters.sumo.backend").info("a detail")
        logging.getLogger("cosim.adapters.vehicle.mavlink").warning("a table of ports")
    kept = (tmp_path / "run.log").read_text()
    assert [line.split()[2:] for line in kept.splitlines()] == [
        ["INFO", "cosim.vehicle:", "flown", "here"],
        ["INFO", "cosim.adapters.sumo.backend:", "a", "detail"],
        ["WARNING", "cosim.adapters.vehicle.mavlink:", "a", "table", "of", "ports"],
    ]
    assert capsys.readouterr().err == "a table of ports\n"
    after = [(logging.getLogger(name).level, logging.getLogger(name).handlers) for name in ("cosim", "cosim.adapters")]
    assert after == before
