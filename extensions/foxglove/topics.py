"""What a run says, on topics of Foxglove's SDK.

Log times are simulated times in ns. Topics:

- `/tf`: `foxglove.FrameTransforms`, where nodes are in the local frame `map` (east, north, up), m;
- `/pose/NAME`: `foxglove.PoseInFrame`, the same for each node;
- `/location/NAME`: `foxglove.LocationFix`, where they are in WGS84, if the scenario has an origin;
- `/image/NAME`: `foxglove.CompressedImage`, a picture that a camera took, if the run's folder is known;
- `/events`: `foxglove.Log`, what the scenario made happen;
- `/SIGNAL/NAME`: every signal, a message per row with the columns of results.

NAME is a node of the scenario, or a fleet, whose members share a topic and are distinguished by `node` or `frame_id`.
With more than `MOST_NODES` nodes and fleets, each of these has one topic, such as `/SIGNAL`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from foxglove import Channel, Context, Schema
from foxglove.messages import (
    CompressedImage,
    FrameTransform,
    FrameTransforms,
    LocationFix,
    Log,
    LogLevel,
    Pose,
    PoseInFrame,
    Quaternion,
    Timestamp,
    Vector3,
)

from cosim.contract.geo import LocalFrame
from cosim.extensions.foxglove.signals import SignalMessage

MOST_NODES = 1000
_FRAME = "map"

Place = tuple[str, float, float, float, float, float]  # node, x, y, z (m), speed (m/s), heading (deg)


class Topics:
    """The topics of one run.

    `geo` has the arguments of `LocalFrame`, if the scenario has an origin. `signals` are the messages of signals, by
    name, and `fleets` has the fleet of each node that is a member of one; both may grow. `picture` renders as PNG what
    the camera of a node sees at a time in s, if that is known.
    """

    def __init__(
        self,
        geo: Sequence[float] | None,
        signals: Mapping[str, SignalMessage],
        fleets: Mapping[str, str],
        picture: Callable[[str, float], bytes | None],
        *,
        apart: bool = True,
        context: Context | None = None,
    ) -> None:
        self.context = context or Context()
        self.counts: Counter[str] = Counter()
        self._frame = LocalFrame(*geo) if geo else None
        self._signals, self._fleets, self._apart = signals, fleets, apart
        self._render = picture
        self._taken: dict[str, float] = {}
        self._channels: dict[str, Channel] = {}
        self._untaken: dict[str, int] = {}  # topics without a subscriber so far -> calls of `offer_again`

    def close(self) -> None:
        """Take the topics back."""
        for channel in self._channels.values():
            channel.close()

    def offer_again(self) -> None:
        """Advertise topics without a subscriber again, each at the second, fourth, eighth ... call.

        The SDK (0.30) advertises a channel before it registers it. A subscription that arrives in between is refused,
        so a viewer needs another advertisement to subscribe again.
        """
        for topic, calls in list(self._untaken.items()):
            channel = self._channels[topic]
            if channel.has_sinks():
                del self._untaken[topic]
                continue
            self._untaken[topic] = calls + 1
            if calls and calls & (calls + 1) == 0:
                channel.close()
                self._channels[topic] = Channel(
                    topic, schema=channel.schema(), message_encoding="protobuf", context=self.context
                )

    def moment(self, time: float, found: Mapping[str, Iterable[Sequence[Any]]]) -> None:
        """What was reported at `time` s: rows of (time, node, columns) by signal."""
        self.places(time, [row[1:7] for row in found.get("mobility", ())])
        for name, rows in found.items():
            message = self._signals[name]
            for row in rows:
                self._log(self._topic(name, row[1]), time, message.get_schema, partial(message.encode, row))
                if name == "picture":
                    self._picture(time, row[1], dict(zip(message.columns, row, strict=True)))

    def places(self, time: float, places: Iterable[Sequence[Any]]) -> None:
        """Where nodes are: each a `Place`. The x axis of a node points ahead."""
        transforms, stamp = [], _stamp(time)
        for node, x, y, z, _, heading in places:
            half = math.radians(90.0 - heading) / 2.0  # counterclockwise from east
            at = Vector3(x=x, y=y, z=z)
            turned = Quaternion(x=0.0, y=0.0, z=math.sin(half), w=math.cos(half))
            transforms.append(FrameTransform(
                timestamp=stamp, parent_frame_id=_FRAME, child_frame_id=node, translation=at, rotation=turned
            ))  # fmt: skip
            pose = PoseInFrame(timestamp=stamp, frame_id=_FRAME, pose=Pose(position=at, orientation=turned))
            self._log(self._topic("pose", node), time, PoseInFrame.get_schema, pose.encode)
            if self._frame is not None:
                latitude, longitude, height = (float(part) for part in self._frame.to_wgs84(x, y, z))
                fix = LocationFix(
                    timestamp=stamp, frame_id=node, latitude=latitude, longitude=longitude, altitude=height,
                    heading=math.radians(heading),
                )  # fmt: skip
                self._log(self._topic("location", node), time, LocationFix.get_schema, fix.encode)
        if transforms:
            self._log("/tf", time, FrameTransforms.get_schema, FrameTransforms(transforms=transforms).encode)

    def event(self, time: float, kind: str, node: str | None, detail: str | None) -> None:
        """What happened."""
        level = LogLevel.Warning if kind == "fail" else LogLevel.Info
        text = " ".join(filter(None, (kind, node, detail)))
        self._log(
            "/events",
            time,
            Log.get_schema,
            Log(timestamp=_stamp(time), level=level, message=text, name=node or "").encode,
        )

    def _picture(self, time: float, node: str, reported: Mapping[str, Any]) -> None:
        taken = reported["taken"]
        if taken is None or math.isnan(taken) or self._taken.get(node) == taken:
            return
        data = self._render(node, taken)
        if data is not None:
            self._taken[node] = taken
            image = CompressedImage(timestamp=_stamp(taken), frame_id=node, data=data, format="png")
            self._log(self._topic("image", node), time, CompressedImage.get_schema, image.encode)

    def _topic(self, word: str, node: str) -> str:
        return f"/{word}/{self._fleets.get(node) or node}" if self._apart else f"/{word}"

    def _log(self, topic: str, time: float, schema: Callable[[], Schema], encode: Callable[[], bytes]) -> None:
        """One message; it is encoded only where somebody takes it."""
        channel = self._channels.get(topic)
        if channel is None:
            channel = Channel(topic, schema=schema(), message_encoding="protobuf", context=self.context)
            self._channels[topic], self._untaken[topic] = channel, 0
        if channel.has_sinks():
            channel.log(encode(), log_time=nanoseconds(time))
            self.counts[topic] += 1


def nanoseconds(time: float) -> int:
    """Simulated s as log times have it."""
    return round(time * 1e9)


def _stamp(time: float) -> Timestamp:
    seconds, rest = divmod(nanoseconds(time), 1_000_000_000)
    return Timestamp(sec=seconds, nsec=rest)
