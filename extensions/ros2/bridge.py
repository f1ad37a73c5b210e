"""What a run publishes as messages of ROS 2, and goals that it takes.

- `/clock`: rosgraph_msgs/Clock, simulated time;
- `/NODE/odometry`: nav_msgs/Odometry, a moving node in the frame `map` (east, north, up);
- `/NODE/battery`: sensor_msgs/BatteryState;
- `/NODE/image`: sensor_msgs/CompressedImage, each picture of a camera, where the run's folder is known;
- `/NODE/link`: diagnostic_msgs/DiagnosticStatus, its radio link: the columns of the signal `link` by name;
- `/NODE/goal_pose`, taken: geometry_msgs/PoseStamped in the frame `map`, where a vehicle is to go.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from cosim.extensions.ros2.node import RosNode, make, read, ros_name
from cosim.report.web.pictures import LivePictures
from cosim.talk.control import ControlError
from cosim.talk.publish import Subscriber, TickSnapshot

_NONE = np.zeros(36)  # no covariance is known
_DISCHARGING, _PRESENT = 2, True  # of sensor_msgs/BatteryState
_OK, _WARN = 0, 1  # of diagnostic_msgs/DiagnosticStatus
_UNKNOWN = math.nan
_POSE = "geometry_msgs/msg/PoseStamped"


class Bridge:
    """From what is published to `node`; pictures are rendered from what the run has left in `folder`."""

    def __init__(self, node: RosNode, folder: Path | None = None) -> None:
        self._node, self._pictures = node, LivePictures(folder)
        self._taken: dict[str, float] = {}

    def take(self, snapshot: TickSnapshot) -> None:
        """Publish all that is new."""
        self._pictures.take(snapshot)
        self._say("/clock", "rosgraph_msgs/msg/Clock", snapshot.time, clock=_time(snapshot.time))
        acts = {"mobility": self._odometry, "vehicle": self._battery, "link": self._link, "picture": self._picture}
        for frame in snapshot.frames:
            act = acts.get(frame.signal)
            if act is None:
                continue
            values = snapshot.values(frame)
            rows = zip(*values.values(), strict=True)
            for slot, row in zip(frame.slot.tolist(), rows, strict=True):
                act(frame.time, snapshot.name(slot), dict(zip(values, row, strict=True)))

    def _say(self, topic: str, kind: str, time: float, **values: Any) -> None:  # noqa: ANN401 - fields of messages
        self._node.publish(topic, kind, make(kind, **values), round(time * 1e9))

    def _odometry(self, time: float, node: str, row: Mapping[str, Any]) -> None:
        half = math.radians(90.0 - row["heading"]) / 2.0  # counterclockwise from east
        turned = make("geometry_msgs/msg/Quaternion", x=0.0, y=0.0, z=math.sin(half), w=math.cos(half))
        at = make("geometry_msgs/msg/Point", x=row["x"], y=row["y"], z=row["z"])
        still = make("geometry_msgs/msg/Vector3", x=0.0, y=0.0, z=0.0)
        ahead = make("geometry_msgs/msg/Vector3", x=row["speed"], y=0.0, z=0.0)
        pose = make("geometry_msgs/msg/Pose", position=at, orientation=turned)
        twist = make("geometry_msgs/msg/Twist", linear=ahead, angular=still)
        self._say(
            f"/{ros_name(node)}/odometry", "nav_msgs/msg/Odometry", time, header=_header(time, "map"),
            child_frame_id=node, pose=make("geometry_msgs/msg/PoseWithCovariance", pose=pose, covariance=_NONE),
            twist=make("geometry_msgs/msg/TwistWithCovariance", twist=twist, covariance=_NONE),
        )  # fmt: skip

    def _battery(self, time: float, node: str, row: Mapping[str, Any]) -> None:
        voltage, cells = row["voltage"], np.zeros(0, np.float32)
        self._say(
            f"/{ros_name(node)}/battery", "sensor_msgs/msg/BatteryState", time, header=_header(time, node),
            voltage=voltage, temperature=_UNKNOWN, current=-row["power"] / voltage if voltage else _UNKNOWN,
            charge=_UNKNOWN, capacity=_UNKNOWN, design_capacity=_UNKNOWN, percentage=row["charge"],
            power_supply_status=_DISCHARGING, power_supply_health=0, power_supply_technology=0, present=_PRESENT,
            cell_voltage=cells, cell_temperature=cells, location="", serial_number="",
        )  # fmt: skip

    def _link(self, time: float, node: str, row: Mapping[str, Any]) -> None:
        kind = "diagnostic_msgs/msg/KeyValue"
        values = [make(kind, key=key, value="" if value is None else str(value)) for key, value in row.items()]
        cell = row["cell"]
        self._say(
            f"/{ros_name(node)}/link", "diagnostic_msgs/msg/DiagnosticStatus", time, name="link", hardware_id=node,
            level=_WARN if cell is None else _OK, message=cell or "no coverage", values=values,
        )  # fmt: skip

    def _picture(self, time: float, node: str, row: Mapping[str, Any]) -> None:
        data = None if math.isnan(row["taken"]) or self._taken.get(node) == row["taken"] else self._pictures.png(node)
        if data is not None:
            self._taken[node] = row["taken"]
            self._say(
                f"/{ros_name(node)}/image", "sensor_msgs/msg/CompressedImage", time,
                header=_header(row["taken"], node), format="png", data=np.frombuffer(data, np.uint8),
            )  # fmt: skip


class Goals:
    """From goals at `node`, the newest of each vehicle, to `order(node=..., to=...)`; `say` has those not taken."""

    def __init__(self, node: RosNode, order: Callable[..., object], say: Callable[[str], None]) -> None:
        self._node, self._order, self._say = node, order, say
        self._known: set[str] = set()
        self._newest: dict[str, bytes] = {}  # by vehicle; threads of zenoh write it

    def take(self, snapshot: TickSnapshot) -> None:
        """Give the run what has come. A height of 0, as RViz's 2D goals have, is left out."""
        slots = [slot for frame in snapshot.frames if frame.signal == "vehicle" for slot in frame.slot.tolist()]
        for name in {*map(snapshot.name, slots)} - self._known:
            self._known.add(name)
            self._node.subscribe(f"/{ros_name(name)}/goal_pose", _POSE, partial(self._newest.__setitem__, name))
        for name in list(self._newest):
            try:
                goal = read(_POSE, self._newest.pop(name))
                if goal.header.frame_id != "map":
                    raise ValueError(f"it is in the frame '{goal.header.frame_id}', not in 'map'")
                at = goal.pose.position
                place = (at.x, at.y, at.z) if at.z else (at.x, at.y)
                self._order(node=name, to=[f"{value:.6f} m" for value in place])
            except (ControlError, ValueError) as error:
                self._say(f"a goal of '{name}' is not taken: {error}")


def bridge(
    address: str, node: RosNode, *, folder: Path | None = None, token: str = "", goals: Goals | None = None
) -> None:
    """Publish what the run at `address` does at `node` until it has ended, and let it have `goals`."""
    with Subscriber(address, token) as subscriber:
        found = Bridge(node, folder)
        for snapshot in subscriber.until_end():
            found.take(snapshot)
            if goals is not None and not snapshot.state.get("ended"):
                goals.take(snapshot)


def _time(time: float) -> Any:  # noqa: ANN401 - a class that the type store makes
    seconds, rest = divmod(round(time * 1e9), 1_000_000_000)
    return make("builtin_interfaces/msg/Time", sec=seconds, nanosec=rest)


def _header(time: float, frame: str) -> Any:  # noqa: ANN401 - a class that the type store makes
    return make("std_msgs/msg/Header", stamp=_time(time), frame_id=frame)
