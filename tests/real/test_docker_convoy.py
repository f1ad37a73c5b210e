"""The convoy in containers: a computer on board of each truck, handed over with its tasks."""

from __future__ import annotations

import pytest

from tests.real import convoy, follow
from tests.real.compose import LONG, Project
from tests.real.follow import until

pytestmark = [
    *LONG,
    pytest.mark.sumo,
]

REACHES = "import socket; socket.create_connection(('station-4', 8500), timeout=20).close(); print('yes')"


def test_trucks_in_containers_are_handed_over(tmp_path):
    values = ("run.duration=46 s", "adapters.live.offload.surroundings.share=50 %")
    with Project.shipped("convoy", tmp_path / "runs", *values) as project:
        project.build()  # with SUMO in it, which the images of other tests have not
        project.up()
        until(lambda: project("logs", *convoy.NODES).count("attached as") == len(convoy.NODES), 180.0)
        project.flying()
        until(lambda: reached(project))  # the truck comes first, and by its station to one that it cannot hear
        assert project.ended() == 0, project("logs", "orchestrator")
        convoy.assert_moved(project.folder, 0.5)
        convoy.assert_none_lost(project.folder)
        assert follow.summary(project.folder, "network")["nodes"] == len(convoy.NODES)
    assert project.left == ""


def reached(project: Project) -> bool:
    """Whether the first truck gets to the last station."""
    try:
        return project.inside("trucks-1", REACHES) == "yes"
    except AssertionError:
        return False
