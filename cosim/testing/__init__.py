"""The contract checker that ships with the framework: `check_adapter(ADAPTER)`.

It runs one adapter alone, without a scenario, a plan or a bus. The configuration is the kind's own
`example`; the world and the frames that the adapter reads are synthetic (`cosim.testing.synthetic`). It
checks:

- the description: importing the package is cheap, the configuration model refuses unknown keys and
  describes every key, the README shows the example, the ports name known signals;
- the life cycle: start, step from time 0 on, finish, close; close twice, without start, and after a
  start that failed;
- the frames: exactly the declared signals at every step, each as the catalogue defines it, counters that
  only grow and begin again with a slot's next member, fleet tables whose epoch and generation reflect
  every change;
- side effects: inputs are not written to, a frame does not change during the producer's next step,
  optional inputs may be absent, and the same seed gives the same bits unless the adapter's origin
  states that its numbers are not simulated; if it has nothing `outside` its process, a fork goes on alike.

From a shell: `python -m cosim.testing cosim.adapters.radio`, or the package of an adapter of your own.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from cosim.contract.adapter import AdapterKind, Ports
from cosim.contract.entities import Scene
from cosim.contract.errors import CosimError, SetupError
from cosim.contract.signals import CATALOGUE
from cosim.testing.bench import Bench
from cosim.testing.synthetic import small_scene

HEAVY = ("numba", "pyarrow", "duckdb", "mosaik", "mosaik_api_v3", "libsumo", "traci", "sumolib", "pandas", "polars")


class ContractError(CosimError, AssertionError):
    """An adapter breaks the contract; its developer acts. `faults` holds every fault found."""

    def __init__(self, adapter: str, faults: Sequence[str]) -> None:
        self.faults = list(faults)
        super().__init__(f"adapter '{adapter}' breaks the contract:" + "".join(f"\n- {text}" for text in faults))


def check_adapter(
    kind: AdapterKind,
    config: Mapping[str, Any] | BaseModel | None = None,
    *,
    scene: Scene | None = None,
    steps: int = 5,
    root: Path | None = None,
) -> None:
    """Raise `ContractError` with every fault of `kind`, or return when it keeps the contract.

    Without `config` the kind's `example` is used; without `scene` a small one with base stations,
    edge hosts, a cloud, drones and a fleet; relative paths of the configuration start at `root`, by
    default the adapter's own folder. Raises `SetupError` with the install line when something that
    the adapter requires is not installed.
    """
    faults = find_faults(kind, config, scene=scene, steps=steps, root=root)
    if faults:
        raise ContractError(kind.name, faults)


def find_faults(
    kind: AdapterKind,
    config: Mapping[str, Any] | BaseModel | None = None,
    *,
    scene: Scene | None = None,
    steps: int = 5,
    root: Path | None = None,
) -> list[str]:
    """What `check_adapter` would raise, as a list that is empty when all is well."""
    missing = [text for text in (requirement.missing() for requirement in kind.requires) if text]
    if missing:
        raise SetupError(f"adapter '{kind.name}' cannot be checked: {'; '.join(missing)}")
    faults: list[str] = []
    home = _check_home(kind, faults)
    parsed = _check_config(kind, config, faults)
    if parsed is None:
        return faults
    ports = _check_ports(kind, parsed, faults)
    if ports is None:
        return faults
    with tempfile.TemporaryDirectory(prefix="cosim-check-") as scratch:
        bench = Bench(
            kind, parsed, ports, scene or small_scene(kind.name if kind.fleet else "somebody-else"), max(steps, 2),
            root or home or Path.cwd(), Path(scratch), faults,
        )  # fmt: skip
        bench.check()
    return faults


def rehearse(kind: AdapterKind) -> None:
    """Live through two steps with `kind`'s own example in a small scene, so that its code is compiled.

    Whatever goes wrong there is left for the checker to find.
    """
    module = importlib.import_module(kind.config.partition(":")[0].rpartition(".")[0] or kind.config.partition(":")[0])
    try:
        config = kind.load_config().model_validate(kind.example_block())
        ports = kind.ports_of(config)
    except ValueError:
        return
    home = Path(module.__file__).parent if module.__file__ else Path.cwd()
    scene = small_scene(kind.name if kind.fleet else "somebody-else")
    with tempfile.TemporaryDirectory(prefix="cosim-compile-") as scratch:
        Bench(kind, config, ports, scene, 2, home, Path(scratch), []).rehearse()


# -- the description ---------------------------------------------------------------------------


def _check_home(kind: AdapterKind, faults: list[str]) -> Path | None:
    """The package that exports the kind is cheap to import and has a README with the example."""
    module = kind.config.partition(":")[0]
    while module:
        try:
            exported = getattr(importlib.import_module(module), "ADAPTER", None)
        except ImportError as error:
            faults.append(f"config: '{kind.config}' cannot be imported: {error}")
            return None
        if isinstance(exported, AdapterKind) and exported.name == kind.name:
            break
        module = module.rpartition(".")[0]
    else:
        faults.append(f"no package above '{kind.config}' exports this kind as ADAPTER")
        return None
    file = sys.modules[module].__file__
    home = Path(file).parent if file else Path.cwd()
    probe = f"import sys, {module}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    paths = [entry for entry in sys.path if entry]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {probe}"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode:
        faults.append(f"importing '{module}' in a fresh interpreter fails: {done.stderr.strip()[-300:]}")
    elif done.stdout.strip():
        faults.append(f"importing '{module}' also imports {done.stdout.strip()}; do that in adapter.py or backend.py")
    readme = home / "README.md"
    if not readme.is_file():
        faults.append(f"there is no README.md in {home}")
    elif not _shows(readme.read_text("utf-8"), kind.example):
        faults.append("README.md does not show the example block")
    if not kind.summary.strip():
        faults.append("the kind has no summary")
    return home


def _shows(text: str, block: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = [line.strip() for line in block.splitlines() if line.strip()]
    return any(lines[at : at + len(wanted)] == wanted for at in range(len(lines) - len(wanted) + 1))


def _check_config(
    kind: AdapterKind, config: Mapping[str, Any] | BaseModel | None, faults: list[str]
) -> BaseModel | None:
    try:
        model = kind.load_config()
    except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
        faults.append(f"config: '{kind.config}' cannot be loaded: {error!r}")
        return None
    if model.model_config.get("extra") != "forbid":
        faults.append("config: unknown keys are not refused; derive the model from AdapterConfig")
    silent = [name for name, info in model.model_fields.items() if not info.description]
    if silent:
        faults.append(f"config: no description for {', '.join(silent)}")
    if isinstance(config, BaseModel):
        return config
    try:
        return model.model_validate(dict(config) if config is not None else kind.example_block())
    except (ValueError, ValidationError) as error:
        faults.append(f"config: the {'example' if config is None else 'given configuration'} is refused: {error}")
        return None


def _check_ports(kind: AdapterKind, config: BaseModel, faults: list[str]) -> Ports | None:
    try:
        ports, signals = kind.ports_of(config), kind.signals_of(config)
        if kind.ports_of(config) != ports or kind.signals_of(config) != signals:
            faults.append("ports: they differ from one call to the next")
    except Exception as error:  # noqa: BLE001 - foreign code; the failure is the finding
        faults.append(f"ports: they cannot be derived from the configuration: {error!r}")
        return None
    own = {signal.name: signal for signal in signals}
    for name, signal in own.items():
        if name in CATALOGUE and CATALOGUE[name] != signal:
            faults.append(f"signals: '{name}' is in the catalogue with other columns")
    known = {**CATALOGUE, **own}
    named = (*ports.writes, *(read.signal for read in ports.reads if read.required))
    unknown = [name for name in named if name not in known]
    faults += [f"ports: there is no signal '{name}'; known: {', '.join(known)}" for name in unknown]
    if len(set(ports.writes)) != len(ports.writes):
        faults.append(f"ports: a signal is written twice: {', '.join(ports.writes)}")
    return None if unknown else ports


def main(arguments: Sequence[str]) -> int:
    """Check the adapters that the given packages export; print every fault."""
    if not arguments:
        sys.stderr.write("usage: python -m cosim.testing PACKAGE...   for example cosim.adapters.radio\n")
        return 2
    faulty = False
    for package in arguments:
        try:
            kind = importlib.import_module(package).ADAPTER
        except (ImportError, AttributeError) as error:
            sys.stderr.write(f"'{package}' is not a package with an ADAPTER that can be imported from here: {error}\n")
            return 2
        try:
            faults = find_faults(kind)
        except SetupError as error:
            faults = [str(error)]
        faulty |= bool(faults)
        sys.stdout.write(f"{kind.name}: {'keeps the contract' if not faults else ''}\n")
        sys.stdout.writelines(f"- {text}\n" for text in faults)
    return 1 if faulty else 0
