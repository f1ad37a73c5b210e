"""The adapter contract: four methods, and a description that is known before anything starts.

An adapter joins an outside simulator or system to the bus. It is one folder with an `ADAPTER`
(an `AdapterKind`) in its `__init__.py`. The bus makes it from its checked configuration and then
calls `start` once, `step` at each of its periods from time 0 on, `finish` once when the run has
come to its end, and `close` always, whatever happened before.

    class Adapter(Protocol):
        def start(self, context: Context) -> None
        def step(self, time: float, inputs: Inputs) -> Sequence[Frame]
        def finish(self) -> Summary
        def close(self) -> None

`cosim.testing.check_adapter` checks a kind against this contract.
"""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic import Field as PydanticField

from cosim.contract import units
from cosim.contract.block import EventKey, NodeKey
from cosim.contract.entities import Event, Node, PricedQuantities, Scene
from cosim.contract.errors import Problem, ProtocolError, RunError, lacking
from cosim.contract.medium import Medium
from cosim.contract.quantity import quantities
from cosim.contract.seeds import stream
from cosim.contract.signals import Signal
from cosim.contract.trust import InputFile as InputFile  # adapters take it from here
from cosim.contract.trust import Trusted, Words, distrusting, is_outside

if TYPE_CHECKING:  # scenarios are read without numpy
    import numpy as np

    from cosim.contract.frame import Frame

T = TypeVar("T")
Config = TypeVar("Config", bound=BaseModel)
Origin = Literal["simulated", "emulated", "measured"]
Summary = Mapping[str, Any]  # what an adapter reports about its run: JSON values
_MOST_BITS = 1024  # of whole numbers in it, as much as a float64 reaches


class AdapterConfig(BaseModel):
    """Base of an adapter's YAML block: the keys that all adapters have.

    Unknown keys are errors, values do not change after loading.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)
    use: Words | None = PydanticField(None, description="the adapter's kind, when its name in the scenario is another")
    step: units.Period | None = PydanticField(None, description="time between two steps; default: run.step")
    isolated: bool | None = PydanticField(None, description="run in a process of its own; default: as the kind says")
    connect: Annotated[str | None, Trusted("connects to a program elsewhere")] = PydanticField(
        None, description="tcp:// or ipc:// address of a worker that runs it elsewhere"
    )
    key: Annotated[str | None, Trusted("proves a key to a program elsewhere")] = PydanticField(
        None, description="file with the private key that the worker at `connect` asks for"
    )


@dataclass(frozen=True, slots=True)
class Read:
    """A signal that an adapter reads.

    `delayed` reads see the value from before the present tick, and so may close a loop.
    `required` reads need an adapter that writes the signal; the plan is refused otherwise.
    """

    signal: str
    delayed: bool = False
    required: bool = True


@dataclass(frozen=True, slots=True)
class Ports:
    """What an adapter reads and writes under a given configuration."""

    reads: tuple[Read, ...] = ()
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Requirement:
    """A module that an adapter needs, and the extra of the distribution that brings it.

    `libraries` are what the module loads from the system, each with the Debian package that has it.
    """

    module: str
    extra: str
    libraries: tuple[tuple[str, str], ...] = ()

    def missing(self) -> str:
        """Why the requirement is not met and what to do, or ""."""
        if problem := lacking(self.module, self.extra):
            return problem
        absent = [(library, package) for library, package in self.libraries if not _loads(library)]
        if not absent:
            return ""
        libraries, packages = (" ".join(names) for names in zip(*absent, strict=True))
        return f"module '{self.module}' needs libraries of the system: {libraries}; on Debian: apt install {packages}"


@cache
def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


# What may be started for a run, and the variable by which a compose file or `cosim run --nodes netns` names it.
SERVICES = {
    "network": "COSIM_NETWORK",  # the network service takes states of links there
    "reports": "COSIM_REPORTS",  # and reports there what became of packets
    "vehicles": "COSIM_VEHICLES",  # programs of real vehicles attach there
    "gateway": "COSIM_GATEWAY",  # agents of real nodes attach there
    "outside": "COSIM_OUTSIDE",  # and machines that the run has not started there, where their address is another
    "keys": "COSIM_KEYS",  # folder of the keys made for this run
    "metrics": "COSIM_METRICS",  # HOST:PORT of the first node's metrics
}


ACTED_ON = ("workloads", "links", "fail", "degrade")  # what `AdapterKind.acts_on` may name


def services_in(environment: Mapping[str, str]) -> dict[str, str]:
    """The services that `environment` names."""
    return {name: environment[variable] for name, variable in SERVICES.items() if environment.get(variable)}


@dataclass(frozen=True, slots=True)
class Context:
    """The input of an adapter at its start. Plain data; it travels to other processes as it is."""

    name: str  # the adapter's name in the scenario
    scene: Scene
    period: float  # s between two steps
    duration: float  # s, simulated time at the last step
    seed: tuple[int, ...]  # entropy of this adapter's own stream
    root: str  # folder of the scenario file; relative paths of the configuration start there
    scratch: str  # folder of this adapter's own for logs and temporary files
    pacing: float = 0.0  # simulated s per wall s, 0: as fast as possible
    services: Mapping[str, str] = field(default_factory=dict)  # name -> address or folder, see `service`
    written: tuple[str, ...] = ()  # signals that the adapters of the run write, (): not known
    media: tuple[str, ...] = ()  # of the adapter's kind, see `serves`
    shared: tuple[str, ...] = ()  # of a check: what other adapters act upon or may, of `AdapterKind.acts_on`
    offered: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # adapter -> key -> value: `offers`

    def rng(self, *key: int) -> np.random.Generator:
        """A generator of this adapter's own; different keys give independent streams."""
        import numpy as np

        return np.random.Generator(np.random.PCG64(np.random.SeedSequence([*self.seed, *key])))

    def seed_of(self, name: str) -> tuple[int, ...]:
        """Entropy of the stream of adapter `name` of the same run, for who must draw what that one draws."""
        return stream(self.seed[0] | self.seed[1] << 32, name)

    def serves(self, by: str | None) -> bool:
        """Whether a cell or radio with this `by` is this adapter's: it names the adapter or its medium, or is None."""
        return by in (None, self.name, *self.media)

    def service(self, name: str) -> str:
        """The address (or folder) of a service that was started for the run, "" if there is none.

        `SERVICES` lists them all. Adapters read no environment variables: everything that they need is here.
        """
        return self.services.get(name, "")

    def unreached(self, begins: Iterable[tuple[str, float]]) -> Iterator[Problem]:
        """Warnings of what is written for a time (s) at which the run has ended; by path in the scenario."""
        for path, when in begins:
            if when >= self.duration:
                text = f"begins at {when:g} s, and the run has ended at {self.duration:g} s, so it never happens"
                yield Problem(text, path, hint="begin it earlier, or make run.duration longer", fatal=False)

    def unbooked(self, *known: str) -> Iterator[Problem]:
        """Warnings of prices of hosts that a model which knows these ones does not book, where no other one may."""
        hosts = [node for node in self.scene.nodes if node.tier != "device" and "workloads" not in self.shared]
        prices = {name: one.key for name, one in quantities(PricedQuantities).items() if name.startswith("price_")}
        for price, key in ({**prices, "tariff": "cost.tariff"} if hosts else {}).items():
            having = [node.id for node in hosts if price.removeprefix("price_") not in known and getattr(node, price)]
            if having:
                more = f", nor that of {len(having) - 1} more" if having[1:] else ""
                text = f"'{self.name}' does not book this price{more}, so no figure of cost has it"
                yield Problem(text, f"nodes.{having[0]}.{key}", hint="leave it out", fatal=False)

    def path(self, text: str) -> Path:
        """`text` as a path, relative ones from the scenario's folder.

        Raises `RunError` if it leads out of the folder of an untrusted scenario.
        """
        if distrusting() and is_outside(text, Path(self.root)):
            raise RunError(f"'{text}' is outside the folder of a scenario that is not trusted")
        return Path(self.root) / text


@dataclass(slots=True)
class Inputs:
    """What an adapter reads at one step.

    `frames[signal]` holds the latest frame of every adapter that writes the signal, in the order of
    the schedule, as far as there is one. `events` are those that became due since the last step.
    """

    frames: Mapping[str, Sequence[Frame]] = field(default_factory=dict)
    events: Sequence[Event] = ()

    def one(self, signal: str) -> Frame | None:
        """The frame of the only writer of `signal`, or None when there is none yet."""
        frames = self.frames.get(signal, ())
        if len(frames) > 1:
            raise ValueError(f"{len(frames)} adapters write '{signal}'; read them with all('{signal}')")
        return frames[0] if frames else None

    def all(self, signal: str) -> Sequence[Frame]:
        """The frames of all writers of `signal`."""
        return self.frames.get(signal, ())


class Adapter(Protocol):
    """One simulator or system on the bus."""

    def start(self, context: Context) -> None:
        """Get ready for step(0). Raise to end the run before it starts.

        A `ScenarioError` may be raised only for what the kind's `check` finds as well.
        """

    def step(self, time: float, inputs: Inputs) -> Sequence[Frame]:
        """Advance to `time` (s) and return one frame per signal that the adapter writes.

        Called with time 0 first, then once per period. Every node-row signal is written every time;
        for an event-row signal the frame holds what happened since the last step, maybe nothing.
        """

    def finish(self) -> Summary:
        """End the run and return what must be kept (ledgers, counts, validity)."""

    def close(self) -> None:
        """Release everything. Called always, also after a failure, and may be called twice."""


class InMemory(Generic[Config]):
    """What adapters have in common that hold nothing but memory: their block, and nothing to release."""

    def __init__(self, config: Config) -> None:
        self._config = config

    def close(self) -> None:
        """There is nothing to release."""


@dataclass(frozen=True, slots=True)
class AdapterKind:
    """The description of an adapter, which its folder exports as `ADAPTER`.

    `config` and `factory` are written "module:name" and imported when needed, so that listing the
    adapters imports none of them. `ports` and `signals` are fixed or depend on the configuration
    only. `compiled`, if any, is a function without arguments that returns whether the adapter starts
    without compiling code first. `example` is the adapter's block as it stands under `adapters:` in a
    scenario; paths in it start at the adapter's own folder.
    """

    name: str
    summary: str
    config: str  # "cosim.adapters.radio.config:RadioConfig"
    factory: str  # "cosim.adapters.radio.adapter:RadioAdapter"; called with the configuration
    ports: Callable[[Any], Ports] | Ports
    origin: Origin = "simulated"
    requires: tuple[Requirement, ...] = ()
    isolated: bool = False  # runs in a process of its own
    fleet: bool = False  # can own fleets
    signals: Callable[[Any], tuple[Signal, ...]] | tuple[Signal, ...] = ()  # its own, beyond the catalogue
    compiled: str = ""  # "cosim.physics.radio.warm:compiled"
    check: str = ""  # "cosim.adapters.radio.check:problems": (config, context) -> all for which it refuses a scene
    node: Mapping[str, str] = field(default_factory=dict)  # key of nodes -> "cosim.adapters.lora.keys:Lora"
    events: Mapping[str, str] = field(default_factory=dict)  # `do` of events -> "cosim.adapters.lora.keys:Jam"
    media: tuple[str, ...] = ()  # names by which `cell: {by: ...}` and `radio: {by: ...}` mean this kind
    medium: Medium | None = None  # by which real nodes reach one another; nodes with its keys get an interface
    carries: bool = False  # reads the signals of all media
    services: tuple[str, ...] = ()  # those of `SERVICES` that it gets
    acts_on: frozenset[str] | None = None  # of `ACTED_ON` what it acts upon; None: not known
    can_fail: Callable[[Any, Node], bool] | None = None  # (configuration, node): does 'fail' do anything; None: yes
    offers: tuple[str, ...] = ()  # keys of its configuration, JSON values, that other adapters of the run may know
    outside: Callable[[Any, Scene], str] | str | None = None  # (configuration, scene): what of its state is not in this
    # process, and so not in a fork, "": nothing; None: not known
    listens: str = ""  # "cosim.adapters.live.check:listens": (config, context) -> see `ports_listened`
    batch: str = ""  # "cosim.adapters.continuum.batch:prepare": many runs in one process, see `prepare`
    example: str = ""  # YAML block that the contract checker and `cosim new` use

    def load_config(self) -> type[BaseModel]:
        found = _import(self.config)
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            raise TypeError(f"{self.config} is not a pydantic model")
        return found

    def example_block(self) -> dict[str, Any]:
        """The example, parsed. Raises `ValueError` when it is no block of this adapter."""
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            data = YAML(typ="safe", pure=True).load(self.example) if self.example.strip() else {}
        except YAMLError as error:
            raise ValueError(f"its example is not YAML: {error}") from None
        if isinstance(data, dict) and list(data) == [self.name]:
            data = data[self.name] or {}
        if not isinstance(data, dict):
            raise ValueError(f"its example must be the block `{self.name}:` with the keys of its configuration")
        return data

    def node_keys(self) -> dict[str, type[NodeKey]]:
        """The keys of nodes that an adapter of this kind brings."""
        return {key: _class(target, NodeKey) for key, target in self.node.items()}

    def event_kinds(self) -> dict[str, type[EventKey]]:
        """The events that an adapter of this kind brings."""
        return {do: _class(target, EventKey) for do, target in self.events.items()}

    def ports_of(self, config: BaseModel) -> Ports:
        """What an adapter with this configuration reads and writes."""
        return self.ports if isinstance(self.ports, Ports) else self.ports(config)

    def signals_of(self, config: BaseModel) -> tuple[Signal, ...]:
        """The signals that an adapter with this configuration adds to the catalogue."""
        return self.signals if isinstance(self.signals, tuple) else self.signals(config)

    def is_compiled(self) -> bool:
        """Whether an adapter of this kind starts without compiling code first. May import a lot."""
        return not self.compiled or bool(_import(self.compiled)())

    def problems(self, config: BaseModel, context: Context) -> list[Problem]:
        """Everything for which an adapter of this kind, so configured, would refuse to start under `context`.

        `start` refuses a scene for these reasons only, and calls the same function. Paths are those of the
        scenario; a plan is not made while there are any. `context.scratch` is "" here.
        """
        found: list[Problem] = _import(self.check)(config, context) if self.check else []
        return found

    def ports_listened(self, config: BaseModel, context: Context) -> Mapping[str, Set[tuple[str, int]]]:
        """By key of the configuration, the addresses and TCP ports that an adapter so configured listens at; those
        that are free to choose are left out."""
        found: Mapping[str, Set[tuple[str, int]]] = _import(self.listens)(config, context) if self.listens else {}
        return found

    def prepare(self, config: BaseModel, context: Context, events: Sequence[Event]) -> object | None:
        """What many runs in one process need, as an adapter that is alone in its scenario; None: it cannot.

        What it is, is between the adapter and who runs the batch (`cosim.engine.continuum.prepared.Prepared`).
        """
        return _import(self.batch)(config, context, events) if self.batch else None

    def build(self, config: BaseModel) -> Adapter:
        """An adapter that has not started yet."""
        adapter: Adapter = _import(self.factory)(config)
        return adapter


def json_value(value: object, where: str = "summary") -> Any:  # noqa: ANN401 - a JSON value
    """`value` as JSON values; numpy scalars and arrays, paths and tuples become what JSON has for them."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if value.bit_length() > _MOST_BITS:
            raise ProtocolError(f"{where} is a number of {value.bit_length()} bits")
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, Mapping):
        return {_text(str(key), where): json_value(entry, f"{where}.{key}") for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [json_value(entry, f"{where}[{i}]") for i, entry in enumerate(value)]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # of numpy, which is not needed to read a scenario
        return json_value(value.tolist(), where)
    raise ProtocolError(f"{where} is a {type(value).__name__}, which is not a JSON value")


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # as of a file name in another encoding
        raise ProtocolError(f"{where} holds half a character: {value[:30]!a}") from None
    return value


def _class(target: str, base: type[T]) -> type[T]:
    found = _import(target)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise TypeError(f"{target} is not a {base.__name__}")
    return found


def _import(target: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
