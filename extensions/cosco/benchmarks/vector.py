"""Steps of many environments per CPU second: `python -m benchmarks.vector [--json] [--hosts 50] [--environments 64]
[--scenario fog-interval] [--model continuum]`.

`cosim/Continuum-v1` as a batch: a fog on the adapter `interval`, intervals of 5 minutes, an arrival per ten hosts and
interval. The actions are one that never changes, or drawn before. Once observations are copies, once every step
writes to the same arrays. With resets: whole episodes of `--intervals` intervals under new seeds, whose containers
are drawn at the reset. Single environments play the same actions beside it, and every bit of what they see must be
the same. `--scenario` takes another one on that adapter, as it is, in whole episodes. `--model continuum`: twenty wired
devices with five tasks a second in all, four edge hosts and a cloud, intervals of 1 s.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import cosim.envs  # noqa: F401 - registers the environments
from benchmarks.measure import Table, parser, print_result, verdict
from cosim.scenario.load import load
from cosim.scenario.plan.compile import compile_plan

TARGETS = {"interval": 150_000.0, "continuum": 50_000.0}  # with resets
ID = "cosim/Continuum-v1"
TASKS = 64


def scenario(folder: Path, hosts: int, intervals: int) -> Path:
    """Four edge hosts for each in the cloud; a job takes some three intervals alone."""
    cloud = max(1, hosts // 5)
    path = folder / "fog.cosim.yaml"
    path.write_text(f"""
apiVersion: cosim/v1
kind: Scenario
name: fog
run: {{duration: {5 * intervals} min, step: 5 min, seed: 1}}
adapters:
  interval: {{demand: 1 GHz, peak: 4 GHz}}
nodes:
  edge-[1..{hosts - cloud}]: {{kind: edge, cpu: 4 x 2 GHz, memory: 8 GB, power: {{idle: 50 W, max: 100 W}}}}
  cloud-[1..{cloud}]: {{kind: cloud, cpu: 8 x 2 GHz, memory: 32 GB, power: {{idle: 70 W, max: 140 W}}}}
  cameras: {{kind: device}}
workloads:
  jobs:
    from: cameras
    arrivals: poisson {hosts / 10 * 12:g} /h
    input: 300 MB
    work: exponential 3600 Gcycles
    deadline: 20 min
""")
    return path


def continuum(folder: Path, intervals: int) -> Path:
    """Twenty devices behind one of four edge hosts, and a cloud; a task takes some half a second alone."""
    path = folder / "edge.cosim.yaml"
    path.write_text(f"""
apiVersion: cosim/v1
kind: Scenario
name: edge
run: {{duration: {intervals} s, step: 1 s, seed: 1}}
adapters:
  continuum: {{}}
nodes:
  edge-[1..4]: {{kind: edge, cpu: 4 x 2 GHz, memory: 8 GB, power: {{idle: 50 W, max: 100 W}}}}
  cloud: {{kind: cloud, cpu: 16 x 3 GHz, power: {{idle: 100 W, max: 300 W}}}}
  device-[1..20]: {{kind: device, cpu: 1 x 1 GHz}}
links:
  - {{between: [device-*, edge-1], rate: 100 Mbit/s, delay: 2 ms}}
  - {{between: [edge-1, "edge-[2..4]"], rate: 1 Gbit/s, delay: 2 ms}}
  - {{between: [edge-1, cloud], rate: 1 Gbit/s, delay: 20 ms}}
workloads:
  jobs:
    from: device-*
    arrivals: poisson 0.25 Hz
    input: 100 kB
    output: 5 kB
    work: exponential 1 Gcycles
    deadline: 2 s
""")
    return path


def many(path: Path, count: int, mode: str) -> Any:
    return gymnasium.make_vec(
        ID, num_envs=count, vectorization_mode="vector_entry_point", scenario=path, tasks=TASKS, observation_mode=mode
    )


def speed(env: Any, actions: list[NDArray[np.int64]], intervals: int, rounds: int) -> dict[str, float]:
    """Best of the rounds: steps per CPU s without and with resets, CPU us of a reset per interval that it draws."""
    steps, resets = [], []
    env.reset(seed=0)
    env.step(actions[0])
    for k in range(rounds):
        begun = time.process_time()
        env.reset(seed=1000 * k)
        ready = time.process_time()
        for n in range(intervals - 1):
            env.step(actions[n % len(actions)])
        steps.append(time.process_time() - ready)
        resets.append(ready - begun)
    done = env.num_envs * (intervals - 1)
    return {
        "steps_per_cpu_s": done / min(steps),
        "with_resets": done / min(a + b for a, b in zip(steps, resets, strict=True)),
        "reset_us_per_interval": min(resets) / (env.num_envs * intervals) * 1e6,
    }


def single(path: Path, count: int, actions: list[NDArray[np.int64]]) -> dict[str, float | bool]:
    """CPU us per step of single environments, and whether a batch is equal to them in every bit."""
    batch = many(path, count, "copy")
    seen, *_ = batch.reset(seed=3)
    first: list[Any] = [seen]
    rewards = []
    for action in actions:
        seen, reward, *_ = batch.step(action[:count])
        first.append(seen)
        rewards.append(reward)
    equal, spent, steps = True, 0.0, 0
    for k in range(count):
        env = gymnasium.make(ID, scenario=path, tasks=TASKS, disable_env_checker=True)
        seen, _ = env.reset(seed=3 + k)
        begun = time.process_time()
        found = [(seen, 0.0), *(env.step(action[k])[:2] for action in actions)]
        spent += time.process_time() - begun
        steps += len(actions)
        env.close()
        for n, (seen, reward) in enumerate(found):
            equal &= all(seen[name].tobytes() == first[n][name][k].tobytes() for name in seen)
            equal &= n == 0 or bool(reward == rewards[n - 1][k])
    return {"us_per_step": spent / steps * 1e6, "equal_bits": equal}


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--hosts", type=int, default=50)
    arguments.add_argument("--environments", type=int, default=64)
    arguments.add_argument("--intervals", type=int, default=200)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--compared", type=int, default=8, help="single environments beside")
    arguments.add_argument("--scenario", help="a shipped one")
    arguments.add_argument("--model", choices=TARGETS, default="interval")
    options = arguments.parse_args()
    target = TARGETS[options.model]
    if options.model == "continuum":
        options.hosts = 5
    count, hosts, intervals = options.environments, options.hosts, options.intervals
    if options.scenario:
        own = Path(__file__).parents[1] / "scenarios" / options.scenario
        plan = compile_plan(load(own))
        hosts = sum(node.tier != "device" for _, node in plan.scene.computers())
        intervals = plan.ticks // plan.adapters[0].period
    chance = np.random.Generator(np.random.PCG64(1))
    drawn = list(chance.integers(0, 2 + hosts, (8, count, TASKS)))
    constant = [np.tile(2 + np.arange(TASKS) % hosts, (count, 1))]
    table = Table(
        f"{count} environments of {hosts} hosts",
        ["actions, observations", "steps/CPU s", "with resets", "", "reset us"],
    )
    with tempfile.TemporaryDirectory() as folder:
        path = (
            continuum(Path(folder), intervals)
            if options.model == "continuum"
            else scenario(Path(folder), hosts, intervals)
        )
        path = own if options.scenario else path
        cases = {}
        for mode in ("same", "copy"):
            for name, actions in (("constant", constant), ("random", drawn)):
                found = speed(many(path, count, mode), actions, intervals, options.rounds)
                cases[f"{name}, {mode}"] = found
                table.add([
                    f"{name}, {mode}", f"{found['steps_per_cpu_s']:,.0f}",
                    f"{found['with_resets']:,.0f}", verdict(found["with_resets"], target, at_least=True),
                    f"{found['reset_us_per_interval']:.1f}",
                ])  # fmt: skip
        alone = single(path, min(options.compared, count), drawn[:intervals])
    table.add(
        ["single environments", f"{1e6 / alone['us_per_step']:,.0f}", "", f" (equal bits: {alone['equal_bits']})", ""]
    )
    data = {"hosts": hosts, "environments": count, "intervals": intervals, "cases": cases, "single": alone}
    print_result("vector", data, [table], as_json=options.json)


if __name__ == "__main__":
    main()
