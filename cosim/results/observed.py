"""A run that can be seen and steered while it goes on: what it publishes, and who may command it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from cosim.bus.tally import Tally
from cosim.contract import environment
from cosim.contract.frame import Frame

if TYPE_CHECKING:
    from cosim.bus.steering import Steering
    from cosim.results.events import EventLog
    from cosim.talk.publish import Publisher

LOOPBACK = "tcp://127.0.0.1:*"
_AGAIN = 0.5  # s between two publications of a run that stands still


class Publishing:
    """Observer of a run that publishes every tick, and the last one again while the run waits."""

    def __init__(
        self,
        publisher: Publisher,
        state: Callable[[], Mapping[str, Any]] = dict,
        scene: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self._publisher, self._state, self._scene = publisher, state, scene
        self._tally = Tally()
        self._last: tuple[int, float, Sequence[tuple[str, Frame]]] = (0, 0.0, ())
        self._at = monotonic()

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        """Publish `frames`; with the first ones what is known of the scene since its adapters have started."""
        if self._scene is not None:
            self._publisher.describe(self._scene())
            self._scene = None
        self._tally.tick(tick, time, frames)
        self._last = (tick, time, tuple(frames))
        self._send()

    def idle(self) -> None:
        """Publish the last tick again if that is some time ago: an observer may have joined, or the state changed."""
        if monotonic() - self._at >= _AGAIN:
            self._send()

    def ended(self, status: str) -> None:
        """Report to the observers how the run ended; the frames' buffers are gone by now."""
        self._last = (*self._last[:2], ())
        self._send(last=True, ended=status)

    def _send(self, *, last: bool = False, **more: object) -> None:
        self._at = monotonic()
        tick, time, written = self._last
        writers, frames = [writer for writer, _ in written], [frame for _, frame in written]

        def state() -> Mapping[str, Any]:
            return {**self._state(), "tasks": self._tally.read(), "writers": writers, **more}

        self._publisher.publish(tick, time, frames, state, last=last)


@contextmanager
def publisher(
    say: Callable[[str], None],
    address: str = LOOPBACK,
    scene: Mapping[str, Any] | None = None,
    state: Callable[[], Mapping[str, Any]] = dict,
    started: Callable[[], Mapping[str, Any]] | None = None,
    *,
    token: str = "",
) -> Iterator[Publishing]:
    """Publish a run and report its address, unless `address` names it exactly and other machines can reach it.

    `started` is the scene as it is known at the first tick.
    """
    from cosim.talk.publish import Publisher

    with Publisher(address, scene, token or environment.text("COSIM_TOKEN")) as found:
        here = found.address.startswith("tcp://127.")
        if here or found.address != address:  # in a container, 0.0.0.0 and its port are of no use
            say(f"publishing frames at {found.address}")
        if here:  # elsewhere it may have another name
            say(f"to watch: cosim view {found.address}{', to steer with --token and the token' if token else ''}")
        yield Publishing(found, state, started)


@contextmanager
def controlled(
    say: Callable[[str], None], steering: Steering, address: str = LOOPBACK, folder: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Take commands at `address`; report the address and the token, which is shown only this once; both of them.

    While the run lasts, `folder` has both in a file that only this user can read, but no token of COSIM_TOKEN.
    """
    from cosim.talk.control import ControlSocket, new_token

    given = environment.text("COSIM_TOKEN")
    token = given or new_token()
    with ControlSocket(steering.act, token, address, verbs=steering.verbs, folder=folder, fresh=not given) as found:
        known = "the token of COSIM_TOKEN" if given else f"the token {token}"
        say(f"taking commands at {found.address} with {known}")
        yield found.address, token


def state_of(steering: Steering, events: EventLog, control: str) -> Callable[[], dict[str, Any]]:
    """The run's own state for every publication; `control` is the address for commands, or ""."""

    def state() -> dict[str, Any]:
        return {
            **steering.state(),
            "control": control,
            "events": {"count": events.count, "recent": [list(event) for event in events.recent]},
        }

    return state
