"""A run from plan to folder: adapters built, runtime driven, results kept, everything stopped.

However the run ends (at its end, by an adapter that dies, a full disk, Ctrl-C or SIGTERM), the
adapters are closed and the folder is completed. A run that was cut short has the `status` `partial`
and an error with the reason.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Any, Literal

import duckdb

from cosim.bus import loop_driver
from cosim.bus.describe import describe
from cosim.bus.guard import CallGuard
from cosim.bus.mark import call_mark
from cosim.bus.pacer import Pacer
from cosim.bus.runtime import Observer, Runtime
from cosim.bus.steering import Steering
from cosim.contract.adapter import Adapter, services_in
from cosim.contract.errors import CosimError, RunError, ScenarioError, SetupError, blamed
from cosim.contract.frame import Frame
from cosim.contract.registry import adapter_kind, is_foreign
from cosim.results.compiled import compile_first
from cosim.results.ending import Interrupts, report_first, stop_on_signals
from cosim.results.figures import warnings
from cosim.results.folder import RunFolder, Status, outside
from cosim.results.layers import streets
from cosim.results.metrics import write_metrics
from cosim.results.observed import LOOPBACK, controlled, state_of
from cosim.results.observed import publisher as _publisher
from cosim.results.recorder import Recorder, unexpected
from cosim.results.resume import Interrupted, set_aside, settle
from cosim.scenario.plan.catalogue import signals_of
from cosim.scenario.plan.compile import plan_of
from cosim.scenario.plan.plan import AdapterPlan, Plan

log = logging.getLogger("cosim.run")

Driver = Literal["mosaik", "loop"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended and where its results are."""

    folder: Path
    status: Status
    error: CosimError | None
    figures: Mapping[str, float | None]
    wall_seconds: float  # from the adapters' start to the end of their work
    reached: float  # s, simulated
    compiling_seconds: float = 0.0  # before the run
    starting_seconds: float = 0.0  # of `wall_seconds`, until all adapters had started

    @property
    def summary(self) -> str:
        """One line for people: the pace covers the ticks only; the time before them is listed separately."""
        running = max(0.0, self.wall_seconds - self.starting_seconds)
        pace = self.reached / running if running > 0 else float("inf")
        shown = f"{pace:.0f}" if pace >= 10 else f"{pace:.2g}"
        before = [
            f"{seconds:.1f} s to {what}"
            for what, seconds in (("compile", self.compiling_seconds), ("start", self.starting_seconds))
            if seconds >= 0.05
        ]
        return f"{self.reached:g} s simulated in {running:.1f} s ({shown} x real time)" + (
            f" after {' and '.join(before)}" if before else ""
        )

    @property
    def warnings(self) -> list[str]:
        """What has to be known of the figures, as that many tasks had not ended."""
        return warnings({key: {"value": value} for key, value in self.figures.items()})

    @property
    def lateness(self) -> str:
        """One line for people about a paced run that was behind the wall clock; "" for others."""
        count, most = self.figures.get("late_ticks"), self.figures.get("lag_max")
        if not count or most is None:
            return ""
        ticks = "1 tick was" if count == 1 else f"{count:g} ticks were"
        return f"{ticks} late, by {most:.3g} s at most; fewer nodes, a longer run.step or a slower run.pacing help"


class _Ticks:
    """Reports the progress of the run to the caller."""

    def __init__(self, progress: Callable[[int], None]) -> None:
        self._progress = progress

    def tick(self, tick: int, time: float, frames: Sequence[tuple[str, Frame]]) -> None:
        self._progress(tick)


def run(
    scenario: str | Path,
    *,
    overrides: Sequence[str] = (),
    out: str | Path = "runs",
    driver: Driver = "loop",
    observers: Sequence[Observer] = (),
) -> Outcome:
    """Load, plan and run a scenario from Python.

    Raises `ScenarioError` or `SetupError` before anything is started. A run that fails later
    returns an outcome whose status is `partial` and whose error gives the reason.
    """
    return run_plan(plan_of(scenario, overrides), Path(out), driver=driver, observers=observers)


def run_plan(
    plan: Plan,
    base: Path,
    *,
    driver: Driver = "mosaik",
    publish: bool | str = False,
    control: bool | str = False,
    observers: Sequence[Observer] = (),
    progress: Callable[[int], None] | None = None,
    say: Callable[[str], None] = log.info,
    counting: bool = False,
    again: Interrupted | None = None,
) -> Outcome:
    """Run `plan` and return where its results are.

    The folder is made below `base`. `progress` is called with each finished tick, `say` with messages
    for the user at the terminal. `publish` and `control` (which includes `publish`) are an
    address, or True for a port of the loopback interface that the system chooses. With `counting`,
    values out of the bounds of their signals are counted instead of ending the run. `again` is a killed
    run of this plan whose folder is filled anew, see `cosim.results.resume`. Errors before the
    first adapter has started are raised, and leave no folder; later ones are in the outcome.
    """
    launch = _launcher(plan, say)
    absolute = Path(os.path.abspath(base if again is None else again.folder.path))  # noqa: PTH100 - links stay
    signals = signals_of(plan)
    adapters = build_adapters(plan)
    compiling = compile_first({adapter.use for adapter in plan.adapters if not adapter.connect}, say)
    with ExitStack() as stack:
        stack.enter_context(_same_folder())
        interrupts = stack.enter_context(stop_on_signals(say))
        if again is None:
            folder = RunFolder.create(absolute, plan, driver=driver, compiling=compiling)
            shown = base / folder.path.relative_to(absolute)
        else:
            set_aside(again.folder)
            shown, resumed = again.folder.path, again.reached
            folder = RunFolder.create(base, plan, driver=driver, compiling=compiling, at=absolute, resumed=resumed)
        say(f"running {plan.name} into {outside(shown)}")
        if again is None:
            stack.enter_context(_gone_if_refused(folder))
        stack.enter_context(_log_into(folder.path / "logs" / "run.log"))
        for text in plan.taken:
            log.info("%s", text)
            say(text)
        for warning in plan.warnings:
            log.warning("%s", warning)
            say(f"warning: {warning}")
        recorder = Recorder(folder, plan, signals)
        watchers: list[Observer] = [recorder, *observers]
        runtime = Runtime(plan, adapters, signals, scratch=folder.path / "logs", observers=watchers, counting=counting)
        runtime.mark = stack.enter_context(call_mark(folder.path / "logs", [one.name for one in plan.adapters]))
        interrupts.end(runtime, recorder)
        if launch is not None:
            stack.enter_context(launch(folder.path / "logs" / "nodes"))
        runtime.services.update(services_in(os.environ))
        pacer = Pacer(plan.pacing, plan.lag, stopping=lambda: bool(runtime.stopping), controlled=bool(control))
        if again is not None:
            pacer.free_until = again.reached
        steering = Steering(runtime, pacer, recorder.event)
        runtime.on_event = recorder.events.note
        where, token = "", ""
        if control:
            where, token = stack.enter_context(controlled(say, steering, _address(control), folder.path / "logs"))
        publishing = None
        if publish or control:
            state = state_of(steering, recorder.events, where)
            events = {do: one for do, one in steering.commands.items() if "event" in one} if control else {}
            scene = {**describe(plan, signals), "takes": events}
            publishing = stack.enter_context(_publisher(
                say, _address(publish), scene, state, lambda: {**scene, "lines": streets(folder.path)}, token=token,
            ))  # fmt: skip
            pacer.idle = publishing.idle
            runtime.observers.append(publishing)
        if progress is not None:
            runtime.observers.append(_Ticks(progress))
        wall, cpu = monotonic(), process_time()
        error, starting = _drive(runtime, pacer, driver, interrupts)
        if isinstance(error, (ScenarioError, SetupError)) and runtime.reached < 0.0 and again is None:
            raise error  # nothing has happened, and no folder is left
        seconds = monotonic() - wall
        facts = {
            "wall_seconds": seconds,
            "starting_seconds": starting,
            "cpu_seconds": process_time() - cpu + _elsewhere(runtime),
            "lag": _lag(pacer),
            "interactive": steering.interactive,
            "adapters": [{**row, "summary": runtime.summaries.get(str(row["name"]), {})} for row in runtime.account()],
        }
        status: Status = "complete" if error is None else "partial"
        if publishing is not None:
            publishing.ended(status)
        try:
            recorder.close(status, error=error, facts=facts)
            if again is not None and status == "complete":
                settle(folder)
        except RunError as refused:
            error, status = refused, "partial"
    figures: Mapping[str, float | None] = {}
    # A limit may have been reached; the tables are there.
    with report_first(say), suppress(OSError, MemoryError, duckdb.Error):
        figures = {name: figure["value"] for name, figure in write_metrics(folder)["figures"].items()}
    return Outcome(shown, status, error, figures, seconds, max(0.0, runtime.reached), compiling, starting)


def _launcher(plan: Plan, say: Callable[[str], None]) -> Callable[[Path], AbstractContextManager[object]] | None:
    """Starts the real nodes that are this run's to start, with their logs in a folder; None when there are none.

    Raises `ScenarioError` or `SetupError` for links that cannot be carried, and for containers that are
    nowhere, before anything is made.
    """
    if plan.scene.real == "containers":
        from cosim.testbed.launch.require import require_containers

        require_containers(plan, os.environ)
    if plan.scene.real != "netns":
        return None
    from cosim.testbed.launch.carrier import carrier  # most runs have no real nodes and need not load what starts them
    from cosim.testbed.launch.netns import netns_nodes, require_namespaces

    require_namespaces(plan.scene)
    carrying = carrier(plan, "netns")
    return lambda logs: netns_nodes(plan.scene, logs, say, carrying)


@contextmanager
def _same_folder() -> Iterator[None]:
    """Come back to the working directory that the run began in: a simulator may have changed it."""
    try:
        before = Path.cwd()
    except OSError:  # it is gone already
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            os.chdir(before)


@contextmanager
def _gone_if_refused(folder: RunFolder) -> Iterator[None]:
    """Leave no folder of a run that could not begin, as an address in use, so that the newest run is a real one."""
    try:
        yield
    except (ScenarioError, SetupError):
        folder.let_go()
        shutil.rmtree(folder.path, ignore_errors=True)
        raise


def _address(wish: bool | str) -> str:
    return wish if isinstance(wish, str) and wish else LOOPBACK


def build_adapters(plan: Plan) -> dict[str, Adapter]:
    """An adapter, not yet started, for each of the plan's; those with a process of their own as proxies.

    Raises `SetupError` that names everything that is not installed.
    """
    missing = [
        f"adapter '{adapter.name}': {reason}"
        for adapter in plan.adapters
        if not adapter.connect
        for reason in (requirement.missing() for requirement in adapter_kind(adapter.use).requires)
        if reason
    ]
    if missing:
        raise SetupError("; ".join(missing))
    return {adapter.name: _built(adapter, plan.timeout) for adapter in plan.adapters}


def _built(adapter: AdapterPlan, timeout: float) -> Adapter:
    try:
        return _build(adapter, timeout)
    except BaseException as error:
        if (found := blamed(error, adapter.name, "build")) is error:
            raise
        raise found from error


def _build(adapter: AdapterPlan, timeout: float) -> Adapter:
    if adapter.isolated or adapter.connect:
        from cosim.bus.remote import RemoteAdapter

        return RemoteAdapter(
            adapter.name, adapter.use, adapter.config, timeout=timeout, connect=adapter.connect, key=adapter.key
        )
    kind = adapter_kind(adapter.use)
    config = kind.load_config().model_validate(adapter.config)
    return CallGuard()(kind.build, config) if is_foreign(adapter.use) else kind.build(config)


def _drive(runtime: Runtime, pacer: Pacer, driver: Driver, interrupts: Interrupts) -> tuple[CosimError | None, float]:
    """Start, drive, finish and close; the error that ended the run early, and the seconds of the start."""
    error: CosimError | None = None
    begun, starting = monotonic(), 0.0
    interrupts.may_raise = True
    try:
        try:
            if runtime.stopping:
                raise RunError(f"stopped before the first tick: {runtime.stopping}")
            runtime.start()
        finally:
            starting = monotonic() - begun
        if driver == "mosaik":
            from cosim.bus import mosaik_driver

            mosaik_driver.drive(runtime, pacer)
        else:
            loop_driver.drive(runtime, pacer)
        runtime.finish()
        if runtime.stopping:
            error = RunError(f"stopped at {max(0.0, runtime.reached):g} s: {runtime.stopping}")
    except CosimError as failure:
        error = failure
    except KeyboardInterrupt as stopped:
        error = RunError(
            f"stopped at {max(0.0, runtime.reached):g} s: interrupted twice, without waiting for the tick{stopped}"
        )
    except Exception as failure:  # noqa: BLE001 - the run's boundary: the results are kept, the log has the traceback
        error = RunError(f"the run could not go on: {type(failure).__name__}: {failure}")
        error.__cause__ = failure
    finally:
        interrupts.may_raise = False
        faults = runtime.close()
        if faults and error is None:
            error = faults[0]
    if error is not None:
        log.error("%s", error, exc_info=error if unexpected(error) else None)
    return error, starting


def _elsewhere(runtime: Runtime) -> float:
    """CPU seconds of the adapters that run in other processes."""
    return sum(row["cpu_seconds"] or 0.0 for row in runtime.account())


def _lag(pacer: Pacer) -> dict[str, Any]:
    record = pacer.record
    return {
        "policy": pacer.policy.policy,
        "max": record.max,
        "mean": record.mean,
        "late_ticks": record.late_ticks,
        "behind": record.shifted,
    }


class _RunLog(logging.FileHandler):
    """A log that goes silent when the disk is full; the run itself reports the full disk."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Leave the line out."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def _log_into(path: Path) -> Iterator[None]:
    """Everything that the library and the adapters log during the run, in the run's folder.

    What adapters warn of is printed as well: tables of ports, how to start an outside program.
    """
    handler = _RunLog(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(os.environ.get("COSIM_LOG", "INFO"))
    with ExitStack() as stack:
        stack.callback(handler.close)
        aloud = (logging.lastResort,)
        for name, handlers in (("cosim", (handler,)), ("cosim.adapters", aloud), ("cosim.extensions", aloud)):
            root = logging.getLogger(name)
            stack.callback(root.setLevel, root.level)
            root.setLevel(min(root.level or logging.INFO, logging.INFO))
            for one in handlers:
                if one is not None:
                    root.addHandler(one)
                    stack.callback(root.removeHandler, one)
        yield
