"""Assemble the plan: from a loaded scenario to ticks, slots, wires, order, seeds and recordings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosim.contract.block import EventKey
from cosim.contract.errors import Problem, ScenarioError, error_line, refuse
from cosim.contract.hints import did_you_mean
from cosim.contract.medium import MEDIA, Medium, conflict
from cosim.contract.seeds import stream
from cosim.contract.signals import Signal, catalogue
from cosim.scenario.checks import unfit
from cosim.scenario.load import in_order, read
from cosim.scenario.plan.no_effect import without_effect
from cosim.scenario.plan.plan import AdapterPlan, Lag, Plan, Recording
from cosim.scenario.plan.scene import SceneBuilder
from cosim.scenario.plan.warnings import warnings
from cosim.scenario.plan.wiring import UnwiredAdapter, wire
from cosim.scenario.tree import Keys

if TYPE_CHECKING:
    from cosim.contract.adapter import Context
    from cosim.scenario.load import Loaded

_LONGEST_NS = 2**62  # about 146 years; keeps every time inside a signed 64-bit count of nanoseconds


def plan_of(path: str | Path, overrides: Sequence[str] = (), *, force: bool = False) -> Plan:
    """The plan of the scenario at `path`; see `checked`."""
    return checked(path, overrides, force=force)[1]


def checked(path: str | Path, overrides: Sequence[str] = (), *, force: bool = False) -> tuple[Loaded, Plan]:
    """The scenario at `path` and its plan, checked in one round.

    Raises `ScenarioError` with everything that is wrong with the scenario and everything that cannot be
    planned. `force`: also a run that this machine cannot hold is planned.
    """
    draft = read(path, overrides)
    if not draft.problems:
        loaded = draft.whole()
        return loaded, compile_plan(loaded, force=force)
    later = _Compiler(draft.loaded).problems() if draft.loaded is not None else []
    true = [one for one in later if one.fatal and not draft.covers(one)]
    raise ScenarioError(in_order([*draft.problems, *true], draft.files))


def compile_plan(loaded: Loaded, *, force: bool = False) -> Plan:
    """The plan of a loaded scenario. Raises `ScenarioError` with everything that cannot be planned.

    `force`: also a run that this machine cannot hold is planned.
    """
    compiler = _Compiler(loaded)
    found = compiler.problems()
    if fatal := [problem for problem in found if problem.fatal]:
        raise ScenarioError(in_order(fatal, loaded.files))
    said = [(one.note, f"{one.path}: {_said(one)}" if one.path else _said(one)) for one in found]
    plan = compiler.plan([text for note, text in said if not note], [text for note, text in said if note], found)
    if not force:
        from cosim.scenario.plan.estimate import Machine, estimate

        refuse([loaded.problem(one.path, one.message, one.hint) for one in estimate(plan).excess(Machine.here())])
    return plan


def _said(problem: Problem) -> str:
    return f"{problem.message}; {problem.hint}" if problem.hint else problem.message


def _same(a: tuple[str, int], b: tuple[str, int]) -> bool:
    """Whether two cannot listen at these addresses and ports: one that is no loopback address may be any other's."""
    loops = all(re.fullmatch(r"127(\.\d+){3}|::1", host) for host, _ in (a, b))
    return a[1] == b[1] and (a[0] == b[0] or not loops)


class _Compiler:
    """The parts of a plan, and what is wrong with them."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.found: list[Problem] = []
        self.listened: dict[tuple[str, int], str] = {}  # address and TCP port -> who listens there
        run = loaded.scenario.run
        self.step = _nanoseconds(loaded, ("run", "step"), run.step, self.found) or 1
        duration = _nanoseconds(loaded, ("run", "duration"), run.duration, self.found)
        self.ticks = _multiple(loaded, ("run", "duration"), duration, self.step, self.found)
        self.signals = signals_in(loaded, self.found)
        self.media = _media(loaded, self.found)
        stations = [_station(loaded, name, self.step, self.signals, self.media, self.found) for name in loaded.adapters]
        self.adapters = wire(loaded, stations, self.found)
        self.builder = SceneBuilder(loaded.scenario, loaded.world)
        self.recordings = _recordings(loaded, self.adapters, self.builder, self.signals, self.step, self.found)
        self.scene = replace(self.builder.scene(), media=self.media)
        self.found += without_effect(loaded, self.builder)

    @property
    def pacing(self) -> float:
        # The software of real nodes lives in real time, whatever suits the simulated ones.
        run = self.loaded.scenario.run
        return run.pacing.factor or (0.0 if run.nodes == "process" else 1.0)

    def problems(self) -> list[Problem]:
        """What is wrong, and what the adapters would refuse; also what they only warn of."""
        asked = [
            replace(
                self.loaded.problem(problem.path, problem.message, problem.hint, fatal=problem.fatal),
                note=problem.note,
                memory=problem.memory,
                members=problem.members,
            )
            if problem.file is None
            else problem
            for adapter in self.adapters
            if not adapter.connect  # it is checked where it runs
            for problem in self._asked(adapter)
        ]
        return list(dict.fromkeys([*self.found, *asked, *self._events()]))

    def _events(self) -> Iterator[Problem]:
        """Events that cannot happen in the scene."""
        root = self.loaded.path.parent.resolve()
        for index, event in enumerate(self.loaded.scenario.events):
            if not isinstance(event, EventKey):
                continue
            do = str(getattr(event, "do", ""))
            configs = [used.config for used in self.loaded.adapters.values() if do in used.kind.events]
            nodes = [one.id for one in self.loaded.world.select(event.node)] if event.node is not None else []
            if why := unfit(event, configs, self.scene, nodes, root):
                yield self.loaded.problem(("events", index, "do"), why)

    def _asked(self, adapter: AdapterPlan) -> list[Problem]:
        used = self.loaded.adapters[adapter.name]
        try:
            context = self._context(adapter)
            found = used.kind.problems(used.config, context)
            ports = {} if any(one.fatal for one in found) else used.kind.ports_listened(used.config, context)
        except ScenarioError as error:
            return error.problems
        except Exception as error:  # noqa: BLE001 - a foreign adapter's check may fail in any way
            return [
                Problem(f"adapter '{used.use}' cannot check its block: {error_line(error)}", f"adapters.{adapter.name}")
            ]
        for key, path in ((key, f"adapters.{adapter.name}.{key}") for key in ports):
            alike = [known for known in self.listened for own in ports[key] if _same(own, known)]
            if taken := min(alike, key=lambda one: one[1], default=None):
                message = f"TCP port {taken[1]} is that of {self.listened[taken]} too"
                found = [*found, Problem(message, path, hint="give it another port")]
            self.listened.update(dict.fromkeys(ports[key], path))
        return found

    def _context(self, adapter: AdapterPlan) -> Context:
        """The context that the adapter gets when it starts."""
        from cosim.contract.adapter import Context, services_in

        return Context(
            name=adapter.name,
            scene=self.scene,
            period=adapter.period * self.step / 1e9,
            duration=self.ticks * self.step / 1e9,
            seed=adapter.seed,
            root=str(self.loaded.path.parent.resolve()),
            scratch="",
            pacing=self.pacing,
            services={name: at for name, at in services_in(os.environ).items() if name in adapter.services},
            media=adapter.media,
            offered={other.name: other.offers for other in self.adapters if other.offers},
            written=tuple(dict.fromkeys(name for other in self.adapters for name in other.writes)),
            shared=self._shared(adapter.name),
        )

    def _shared(self, name: str) -> tuple[str, ...]:
        """What the other adapters act upon; everything if one of them does not declare this."""
        from cosim.contract.adapter import ACTED_ON

        others = [used.kind.acts_on for other, used in self.loaded.adapters.items() if other != name]
        return tuple(what for what in ACTED_ON if any(one is None or what in one for one in others))

    def _makers(self) -> list[str]:
        """The adapters that simulate the tasks of workloads."""
        kinds = {name: used.kind for name, used in self.loaded.adapters.items()}
        return [
            name for name, kind in kinds.items() if kind.origin == "simulated" and "workloads" in (kind.acts_on or ())
        ]

    def plan(self, warned: Sequence[str], taken: Sequence[str], found: Sequence[Problem]) -> Plan:
        """The plan of a scenario without problems."""
        scenario, run = self.loaded.scenario, self.loaded.scenario.run
        waits = any(node.missing == "wait" for _, node in self.scene.computers())
        return Plan(
            name=scenario.name,
            title=scenario.title,
            description=scenario.description,
            step_ns=self.step,
            ticks=self.ticks,
            seed=run.seed,
            pacing=self.pacing,
            lag=Lag(run.lag.policy or ("wait" if waits else "report"), run.lag.warn, run.lag.fail),
            timeout=run.timeout,
            scene=self.scene,
            adapters=tuple(self.adapters),
            events=self.builder.events(),
            recordings=self.recordings,
            root=self.loaded.path.parent,
            resolved=self.loaded.text,
            warnings=(*_extrapolated(self.loaded), *warnings(self.scene, self.adapters, self._makers()), *warned),
            taken=tuple(taken),
            held={one.path: one.memory for one in found if one.memory},
            members={one.path: one.members for one in found if one.members},
        )


def _extrapolated(loaded: Loaded) -> tuple[str, ...]:
    """Where calibrated values are used beyond what they were calibrated for."""
    if not loaded.scenario.calibrated:
        return ()
    from cosim.scenario.extrapolation import extrapolations  # most scenarios use none

    return extrapolations(loaded)


def _nanoseconds(loaded: Loaded, at: Keys, seconds: float, problems: list[Problem]) -> int:
    """`seconds` as whole nanoseconds; 0 after reporting that there are none."""
    exact = Decimal(repr(seconds)) * 1_000_000_000
    whole = int(exact.to_integral_value()) if exact < _LONGEST_NS else _LONGEST_NS + 1
    if whole > _LONGEST_NS:
        problems.append(loaded.problem(at, f"{seconds:g} s is too long", "at most 146 years"))
        return 0
    # 0.3 ms is 0.00029999999999999997 s as a float: what is off by less than that is meant to be whole
    if whole < 1 or abs(exact - whole) > max(Decimal("1e-6"), exact * Decimal("4e-16")):
        problems.append(loaded.problem(at, f"{seconds!r} s is not a whole number of nanoseconds"))
        return 0
    return whole


def _multiple(loaded: Loaded, at: Keys, length: int, step: int, problems: list[Problem]) -> int:
    """How many steps `length` (ns) has; reports when it is no whole number of them. 0: reported already."""
    count, rest = divmod(length, step)
    if rest:
        nearest = [f"{_text(n * step)}" for n in (count, count + 1) if n > 0]
        message = f"{_text(length)} is not a whole number of steps of {_text(step)}"
        problems.append(
            loaded.problem(at, message, f"the nearest {'are' if len(nearest) > 1 else 'is'} {' and '.join(nearest)}")
        )
    return max(count, 1)


def _text(nanoseconds: int) -> str:
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if nanoseconds >= size:
            return f"{(Decimal(nanoseconds) / size).normalize():f} {unit}"
    return f"{nanoseconds} ns"


def _station(
    loaded: Loaded, name: str, step: int, signals: dict[str, Signal], media: Sequence[Medium], problems: list[Problem]
) -> UnwiredAdapter:
    """What the plan needs to know of one adapter before it is wired."""
    from cosim.contract.adapter import Read

    used = loaded.adapters[name]
    config: Any = used.config  # AdapterConfig's keys; a foreign model may lack them
    at: Keys = ("adapters", name)
    own_step = getattr(config, "step", None)
    period = 1
    if own_step is not None:
        length = _nanoseconds(loaded, (*at, "step"), own_step, problems)
        period = _multiple(loaded, (*at, "step"), length, step, problems)
    connect = getattr(config, "connect", None) or ""
    isolated = getattr(config, "isolated", None)
    if connect and not connect.startswith(("tcp://", "ipc://")):
        problems.append(
            loaded.problem((*at, "connect"), f"'{connect}' is no address", "write tcp://host:port or ipc://path")
        )
    if connect and isolated:
        hint = "'connect' names a worker that runs already, 'isolated' starts one: remove one of them"
        problems.append(loaded.problem((*at, "isolated"), "cannot be isolated and connected", hint))
    ports = used.kind.ports_of(used.config)
    reads = {medium.signal: Read(medium.signal, required=False) for medium in media if used.kind.carries}
    reads |= {read.signal: read for read in ports.reads}
    problems += [
        loaded.problem(
            at, f"adapter '{name}' uses signal '{signal}', which no adapter defines", _bringer(signal, signals)
        )
        for signal in (*ports.writes, *reads)
        if signal not in signals
    ]
    return UnwiredAdapter(
        plan=AdapterPlan(
            name=name,
            use=used.use,
            config=loaded.data["adapters"][name],
            period=period,
            reads=(),
            writes=ports.writes,
            origin=used.kind.origin,
            isolated=not connect and (used.kind.isolated if isolated is None else bool(isolated)),
            connect=connect,
            key=getattr(config, "key", None) or "",
            seed=stream(loaded.scenario.run.seed, name),
            media=used.kind.media,
            services=used.kind.services,
            offers={key: getattr(used.config, key) for key in used.kind.offers},
        ),
        reads=tuple(reads.values()),
    )


def _bringer(signal: str, known: Mapping[str, Signal]) -> str:
    """What to do about a signal that is not known: add the adapter that defines it, or correct its name."""
    from cosim.contract import registry

    for one in registry.list_adapters():
        own = one.kind.signals if one.kind is not None and isinstance(one.kind.signals, tuple) else ()
        if any(defined.name == signal for defined in own):
            return f"it comes with the adapter '{one.name}': add it to 'adapters'"
    return did_you_mean(signal, sorted(known))


def _media(loaded: Loaded, problems: list[Problem]) -> tuple[Medium, ...]:
    """Those that adapters bring, by the names of their adapters; contradictions go to `problems`."""
    found: list[Medium] = []
    for name, used in loaded.adapters.items():
        medium = used.kind.medium
        if medium is None:
            continue
        if text := conflict((*MEDIA, *found, medium)):
            hint = "its description declares them: give the medium others"
            problems.append(loaded.problem(("adapters", name), f"adapter '{name}' brings a medium, but {text}", hint))
        found.append(replace(medium, by=(name, *used.kind.media)))
    return tuple(found)


def signals_in(loaded: Loaded, problems: list[Problem] | None = None) -> dict[str, Signal]:
    """The catalogue with the signals that the scenario's adapters add; contradictions go to `problems`."""
    interfaces = [used.kind.medium.interface for used in loaded.adapters.values() if used.kind.medium is not None]
    signals = catalogue(interfaces)
    for name, used in loaded.adapters.items():
        for signal in used.kind.signals_of(used.config):
            if signals.setdefault(signal.name, signal) != signal and problems is not None:
                message = f"adapter '{name}' defines signal '{signal.name}' in another way than others do"
                problems.append(loaded.problem(("adapters", name), message, "give the signal another name"))
    return signals


def _recordings(
    loaded: Loaded,
    adapters: list[AdapterPlan],
    builder: SceneBuilder,
    signals: dict[str, Signal],
    step: int,
    problems: list[Problem],
) -> tuple[Recording, ...]:
    """One recording for every signal that some adapter writes, as set in `record`; `'*'` holds the defaults."""
    blocks = loaded.scenario.record
    for name, block in blocks.items():
        if block.every is not None:
            length = _nanoseconds(loaded, ("record", name, "every"), block.every, problems)
            _multiple(loaded, ("record", name, "every"), length, step, problems)
        if block.summary is not None:
            length = _nanoseconds(loaded, ("record", name, "summary"), block.summary, problems)
            _multiple(loaded, ("record", name, "summary"), length, step, problems)
    recordings = []
    for name in dict.fromkeys(signal for adapter in adapters for signal in adapter.writes):
        given: dict[str, Any] = {}
        for key in ("*", name):
            if key in blocks:
                given.update({field: getattr(blocks[key], field) for field in blocks[key].model_fields_set})
        known = [column.name for column in signals[name].columns] if name in signals else []
        columns = tuple(column for column in given.get("columns") or () if column in known)
        chosen = builder.slots(given["nodes"]) if given.get("nodes") is not None else ()
        recordings.append(
            Recording(
                signal=name,
                keep=given.get("keep", True),
                every=given.get("every") or 0.0,
                columns=columns,
                slots=tuple((part.first, part.count) for part in chosen),
                summary=given.get("summary") or 0.0,
                by=tuple(name for name in given.get("by") or () if not known or name in known),
            )
        )
    return tuple(recordings)
