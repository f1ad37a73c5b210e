"""MAIL-MMSG's policy: rank the device, near edge hosts and the cloud by learned weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cosim.extensions.mail_mmsg.model import engine, stored
from cosim.extensions.mail_mmsg.platform import IN_TIME, SCENES, OffloadRequest, Record, choose_one, level, observe
from cosim.extensions.mail_mmsg.world import DAY
from cosim.schedulers.state import Ended, State, decides


@decides("task")
class MailMmsg:
    """The engine's policy that was trained in the virtual platform, without a try in the real one.

    After Xiong, Wang, Wotawa, Hua (MAIL-MMSG). The workloads of a scenario count as broadband, sensors and vehicles in
    the order of the file; further ones as the last. Where the paper is garbled: actions weigh the features of
    candidates as in MA-RDPG, from which it has its sizes; see the package for the rest.
    """

    def __init__(self) -> None:
        self._weights = {name: value for name, value in stored().items() if name != "windows"}
        self._records: dict[int, Record] = {}
        self._shared = [0.5] * len(SCENES)
        self._scenes: dict[int, int] = {}  # of devices

    def __call__(self, state: State) -> NDArray[np.int64]:
        """(1,) the destination of one task."""
        task = state.tasks[0]
        scene = min(int(task["workload"]), len(SCENES) - 1)
        device = int(task["device"])
        self._scenes[device] = scene
        asked = OffloadRequest(
            state.time, scene, float(task["input"]), float(task["work"]), float(task["deadline"]),
            float(task["own_speed"]), float(task["own_tasks"]),
        )  # fmt: skip
        speed = state.hosts["speed"] / np.maximum(state.hosts["cores"], 1.0)
        record = self._records.setdefault(device, Record())
        seen, places = observe(asked, state.reach[0], state.hosts, speed, record, self._shared[scene], DAY)
        return places[[choose_one(seen, engine(self._weights, seen[None])[0], scene)]]

    def learn(self, ended: Ended) -> None:
        """Hear what became of requests."""
        columns = (ended[name].tolist() for name in ("device", "host", "seconds", "deadline", "completed"))
        for device, host, seconds, deadline, completed in zip(*columns, strict=True):
            if (scene := self._scenes.get(device)) is None:
                continue
            found = level(seconds, deadline, completed)
            done = float(host >= 0 and found < IN_TIME)
            self._records[device].hear(done, found)
            self._shared[scene] += 0.02 * (done - self._shared[scene])
