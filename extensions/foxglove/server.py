"""A run under way over the Foxglove WebSocket protocol, with the topics of `topics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import foxglove
from foxglove.websocket import Capability

from cosim.contract.errors import SetupError
from cosim.contract.frame import Frame, SlotTable
from cosim.extensions.foxglove.signals import SignalMessage
from cosim.extensions.foxglove.topics import MOST_NODES, Topics, nanoseconds
from cosim.report.web.pictures import LivePictures
from cosim.talk.publish import Subscriber, TickSnapshot

_KINDS = {"f": "double", "b": "bool"}
_AGAIN = 1.0  # s of wall time after which a viewer that has come meanwhile learns where nodes stand


class LiveServer:
    """A server at `host`:`port` (0: the system chooses) for what is published, by the run whose folder is `folder`.

    Raises `SetupError` where it cannot listen.
    """

    def __init__(self, host: str, port: int, folder: Path | None = None) -> None:
        self._folder, self._context = folder, foxglove.Context()
        self._topics: Topics | None = None
        self._known: Mapping[int, SlotTable] = {}
        try:
            self._server = foxglove.start_server(
                name="continuum-cosim", host=host, port=port, capabilities=[Capability.Time], context=self._context
            )
        except (OSError, RuntimeError) as error:
            raise SetupError(f"cannot serve at {host}:{port}: {error}; choose another --port or --host") from error
        self.address = f"ws://{host}:{self._server.port}"

    def close(self) -> None:
        """End all connections."""
        self._server.stop()

    def _begin(self, snapshot: TickSnapshot) -> Topics:
        """The topics of the run that `snapshot` is of."""
        if self._topics is not None:
            self._topics.close()
            self._server.clear_session()
        scene = snapshot.scene
        self._run, self._known, self._events, self._due = snapshot.run, {}, 0, 0.0
        self._signals: dict[str, SignalMessage] = {}
        self._names = {fleet["first"]: fleet["name"] for fleet in scene["fleets"]}
        self._fleets: dict[str, str] = {}
        self._still = {node["id"]: (node["id"], *node["at"], 0.0, 90.0) for node in scene["nodes"] if node["at"]}
        apart = len(scene["nodes"]) + len(self._names) <= MOST_NODES
        self._pictures = pictures = LivePictures(self._folder)
        return Topics(
            scene["geo"], self._signals, self._fleets, lambda node, _: pictures.png(node), apart=apart,
            context=self._context,
        )  # fmt: skip

    def take(self, snapshot: TickSnapshot) -> None:
        """Send what was published to those who have subscribed to it."""
        if self._topics is None or snapshot.run != self._run:
            self._topics = self._begin(snapshot)
        self._pictures.take(snapshot)
        if snapshot.tables is not self._known:
            self._known = snapshot.tables
            for first, table in snapshot.tables.items():
                self._fleets.update(dict.fromkeys(table.ids, self._names.get(first, "")))
        found = {frame.signal: list[tuple[Any, ...]]() for frame in snapshot.frames}
        for frame in snapshot.frames:
            values = snapshot.values(frame)
            if frame.signal not in self._signals:
                self._signals[frame.signal] = _message(snapshot, frame)
            names = [snapshot.name(slot) for slot in frame.slot.tolist()]
            columns = [values[name] for name in self._signals[frame.signal].columns[2:]]
            found[frame.signal] += zip([frame.time] * len(names), names, *columns, strict=True)
        for row in found.get("mobility", ()):
            self._still.pop(row[1], None)
        if (now := monotonic()) >= self._due:
            self._due = now + _AGAIN
            self._topics.offer_again()
            self._topics.places(snapshot.time, self._still.values())
        self._topics.moment(snapshot.time, found)
        events = snapshot.state.get("events", {"count": 0, "recent": []})
        new, self._events = events["count"] - self._events, events["count"]
        for event in events["recent"][-new:] if new else ():
            self._topics.event(*event)
        self._server.broadcast_time(nanoseconds(snapshot.time))


def _message(snapshot: TickSnapshot, frame: Frame) -> SignalMessage:
    """The message of a signal's rows, as results have them."""
    about = snapshot.scene.get("signals", {}).get(frame.signal, {}).get("columns", {})
    columns = {"time": ("double", "simulated time, s"), "node": ("string", "")}
    for name, values in frame.columns.items():
        column = about.get(name, {"role": "value", "codes": [], "meaning": "", "unit": ""})
        in_words = column["role"] == "slot" or column["codes"]
        kind = "string" if in_words else _KINDS.get(values.dtype.kind, "int64")
        columns[name] = (kind, ", ".join(filter(None, (column["meaning"], column["unit"]))))
    return SignalMessage(frame.signal, columns)


def serve(
    address: str, say: Callable[[str], None], *, host: str, port: int, folder: Path | None = None, token: str = ""
) -> None:
    """Serve what the run at `address` publishes until it has ended; `say` receives where."""
    with Subscriber(address, token) as subscriber, closing(LiveServer(host, port, folder)) as server:
        say(f"{server.address} has the run at {address}: open it as a Foxglove WebSocket")
        for snapshot in subscriber.until_end():
            server.take(snapshot)
