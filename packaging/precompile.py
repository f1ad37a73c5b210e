"""Compile ahead of the first runs.

    python packaging/precompile.py [ADAPTER ...]      what these adapters need, without names what all need
    python packaging/precompile.py --into-package     all, into the package that is imported, as for a wheel

Code that has been compiled is not compiled again: it is used as long as it was made of the same sources, by the same
numba and for the same kind of processor (see `cosim.compiled.compiling`).
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import monotonic

PROCESSES = 4  # at most; each takes half a GB


def _adapter(name: str) -> None:
    """What two steps of the adapter's own example need."""
    from cosim.contract.registry import adapter_kind
    from cosim.testing import rehearse

    rehearse(adapter_kind(name))


def _camera() -> None:
    """What vehicles have in many scenarios and not in the adapter's example: a camera that marks what it sees.

    Also pictures of what grows there.
    """
    import numpy as np

    from cosim.physics.vehicles.coverage import FieldCoverage
    from cosim.physics.vehicles.tiles import Shot, render
    from cosim.physics.vehicles.weeds import Plants, WeedField, growth

    one = np.zeros(1, np.int64)
    FieldCoverage(1, (0.0, 0.0, 1.0, 1.0)).look(one, np.zeros((1, 5)), one + 1)
    grown = Plants.of(WeedField(0.0, 0.0, 1.0, np.ones((1, 1))), growth((1,)))
    render(grown, Shot(0.0, 0.0, 0.0, 0.1, 2, 2))


def _machines() -> None:
    """What nodes have in many scenarios and not in the adapter's example: batteries, clocks, accelerators."""
    from cosim.engine.continuum.equipment import place

    place()


def _gpus() -> None:
    """What schedulers of a GPU cluster ask for: orders tried, their features, topologies switched."""
    import numpy as np

    from cosim.extensions.gpu_cluster.cluster.fabric import plain
    from cosim.extensions.gpu_cluster.cluster.generate import uniform
    from cosim.extensions.gpu_cluster.cluster.simulate import ClusterSettings, ClusterSimulation

    made = ClusterSimulation(plain(4, 2, 8, 2), uniform(1, 12), ClusterSettings("circuits", "exhaustive"))
    made.asking()
    made.advance()
    line = made.line(2)
    orders = np.array([line, line[::-1]])
    made.try_orders(orders)
    made.features(line, orders)
    routed = ClusterSettings("routed", "pack", strict=False, topologies=("rings", "fat-tree"))
    ClusterSimulation(plain(9, 2, 16, 0), uniform(1, 4), routed).switch(1)


def _requests() -> None:
    """Which edge runs which request: our search and our filling."""
    from cosim.extensions.corais.families import instances
    from cosim.extensions.corais.filling import fill
    from cosim.extensions.corais.problem import makespan
    from cosim.extensions.corais.search import solve

    (instance,) = instances("corais", (4, 2, 4), 1)
    makespan(instance, solve(instance, budget=1))
    fill(instance)


def _vehicular() -> None:
    """The vehicular application of `offloading`, beside the applications of its example."""
    from cosim.extensions.edgecloudsim.offloading import simulate
    from cosim.extensions.edgecloudsim.offloading.transport import ring_road

    simulate(ring_road(2, duration=2.0, warm_up=0.0), 1)


def _outputs() -> None:
    """A vehicle that an autopilot drives by its outputs."""
    import numpy as np

    from cosim.physics.vehicles import Copter
    from cosim.physics.vehicles.driven import Driven

    Driven(Copter(dynamics="rigid")).step(np.zeros(4), 0.001)


def _looks() -> None:
    """What is seen of the continuum by policies that decide by the clock, and by devices that are real."""
    import numpy as np

    from cosim.engine.continuum import Engine, Kind, System
    from cosim.engine.continuum.looking import look_at, reach_of

    one = np.zeros(1, np.int64)
    engine = Engine(System(kinds=(Kind(),), kind=one, tier=one, present=np.ones(1, np.bool_)), 1)
    look_at(engine.state.meta, one[:0].copy())
    reach_of(engine.state.meta, one)


def _environments() -> None:
    """Many environments as one batch, of either model."""
    from importlib.util import find_spec

    if find_spec("gymnasium") is None:
        return
    from cosim.envs import ContinuumVectorEnv

    with tempfile.TemporaryDirectory(prefix="cosim-precompile-") as folder:
        scenario = Path(folder) / "small.cosim.yaml"
        for adapter in ("interval: {slots: 4}", "continuum: {}"):
            scenario.write_text(SMALL.replace("ADAPTER", adapter))
            made = ContinuumVectorEnv(scenario, 1, tasks=2)
            made.reset(seed=1)
            made.step(made.action_space.sample())


def _air() -> None:
    """What the radio of few scenarios has: channels to aircraft and fading."""
    from dataclasses import replace

    from cosim.contract.registry import adapter_kind
    from cosim.testing import rehearse

    rehearse(replace(adapter_kind("radio"), example="radio: {model: uma-av, fading: rician}"))


SMALL = """
apiVersion: cosim/v1
kind: Scenario
name: small
run: {duration: 3 min, step: 1 min}
adapters:
  ADAPTER
nodes:
  edge-[1..2]: {kind: edge, cpu: 2 x 2 GHz, memory: 4 GB}
  camera: {kind: device}
links:
  - {between: [camera, "edge-*"], rate: 50 Mbit/s}
workloads:
  jobs: {from: camera, arrivals: every 40 s, input: 10 MB, work: 30 Gcycles}
"""


def _extensions() -> list[str]:
    """The adapters of extensions: they have names where this package is installed, which it need not be yet."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["entry-points"]["cosim.adapters"].values()]


PARTS = (_machines, _camera, _gpus, _requests, _vehicular, _outputs, _air, _looks, _environments)


def precompile(names: list[str]) -> None:
    """Compile what is not compiled yet and the adapters `names`, or all adapters and the other parts, need."""
    from cosim.bus import scan
    from cosim.contract.registry import list_adapters
    from cosim.results.compiled import uncompiled

    scan.compile_all()
    parts: tuple[Callable[[], None], ...] = () if names else PARTS
    cold = uncompiled(names or [*(one.name for one in list_adapters() if one.kind), *_extensions()])
    # A compiler makes many objects that live long: looking for garbage among them takes a tenth of the time.
    with ProcessPoolExecutor(min(PROCESSES, len(os.sched_getaffinity(0))), initializer=gc.disable) as pool:
        jobs = [pool.submit(_adapter, name) for name in cold] + [pool.submit(part) for part in parts]
        for job in jobs:
            job.result()


def into_package() -> None:
    """Fill `cosim.compiled.compiling.PRECOMPILED` anew."""
    for name in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT"):
        os.environ.pop(name, None)
    from cosim.compiled.compiling import PRECOMPILED

    shutil.rmtree(PRECOMPILED, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="cosim-precompile-") as folder:
        os.environ["COSIM_CACHE"] = folder
        precompile([])
        made = [file for file in Path(folder).rglob("*") if file.suffix in (".nbi", ".nbc")]
        PRECOMPILED.mkdir()
        for file in made:
            shutil.copyfile(file, PRECOMPILED / file.name)
    count = sum(file.suffix == ".nbi" for file in made)
    print(f"{count} compiled functions are part of this installation")
    if not count:
        sys.exit(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapters", nargs="*", metavar="ADAPTER")
    parser.add_argument("--into-package", action="store_true")
    given = parser.parse_args()
    begun = monotonic()
    print("compiling", " and ".join(given.adapters) or "what adapters need", flush=True)
    into_package() if given.into_package else precompile(given.adapters)
    print(f"compiled in {monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
