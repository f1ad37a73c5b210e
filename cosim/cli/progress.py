"""Progress of a run on the error stream: a bar for people, a line now and then for log files."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

from cosim.cli.console import interactive, note

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID
    from rich.status import Status

    from cosim.scenario.plan.plan import Plan

LOADING = 1_000_000  # new objects until Python's cycle collector looks at them, while a command loads its modules
_REDRAW = 0.1  # s between two updates of the bar
_TELLING = 0.05  # part of the run after which its pace gives the time left
_LINE = 15.0  # s between two lines where no bar is shown
_MOMENT = 3.0  # s of waiting that are not worth reporting


class RunProgress:
    """Shows how far a run is and how long it will still take."""

    def __init__(self, plan: Plan, *, quiet: bool) -> None:
        self._plan, self._quiet = plan, quiet
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._begun = self._shown = time.monotonic()

    def __enter__(self) -> RunProgress:
        if not self._quiet and interactive():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.completed:.0f}/{task.total:.0f} s"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._plan.name, total=self._plan.duration)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """Print a message above the bar."""
        if self._quiet:
            return
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            note(text)

    def tick(self, tick: int) -> None:
        """The run has finished `tick`."""
        if tick == 0 and gc.get_threshold()[0] == LOADING:  # everything is loaded
            gc.freeze()
            gc.set_threshold(200_000, 20, 20)
        if self._quiet:
            return
        now = time.monotonic()
        if tick == 0:
            self._begun = now  # real nodes take their time to start, which is no part of the pace
        if self._bar is not None and self._task is not None:
            if now - self._shown > _REDRAW or tick == self._plan.ticks:
                self._shown = now
                self._bar.update(self._task, completed=self._plan.time(tick))
        elif now - self._shown > _LINE and tick > 0:
            self._shown = now
            share = tick / self._plan.ticks
            left = f", {(now - self._begun) * (1 - share) / share:.0f} s left" if share > _TELLING else ""
            note(f"{self._plan.name}: {self._plan.time(tick):.0f} of {self._plan.duration:.0f} s{left}")


class Waiting:
    """Shows what is being waited for: a line that changes for people, a line now and then for log files."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._status: Status | None = None
        self._begun = time.monotonic()
        self._next = self._begun + _MOMENT

    def __enter__(self) -> Waiting:
        return self

    def __exit__(self, *_: object) -> None:
        self.done()

    def done(self) -> None:
        """It is over; may be called twice."""
        if self._status is not None:
            self._status.stop()
            self._status = None
        self._quiet = True

    def show(self, text: str) -> None:
        """Show what is going on now; to be called again while it goes on."""
        now = time.monotonic()
        if self._quiet or (not interactive() and now < self._next):
            return
        elapsed = f" ({now - self._begun:.0f} s)" if now - self._begun > _MOMENT else ""
        if not interactive():
            self._next = now + _LINE
            note(text + elapsed)
        elif self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status(text, spinner="line")
            self._status.start()
        else:
            self._status.update(f"{text}{elapsed}")
