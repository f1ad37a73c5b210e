"""Learners on six named tasks: `python -m benchmarks.learners [--quick] [--json] [--out FOLDER]`.

Each task is a scenario as `cosim/Offload-v1`: a host for each task when it is made. PPO, DQN and discrete SAC learn
from the environment's own reward with the same net. It scores each possible answer by what the environment shows of the
task and of that host, with the same weights for all hosts, so that the number of hosts does not matter. What they
learned decides as `cosim.envs.as_policy` under seeds that no training has seen, beside the untrained nets and policies
without learning. A figure is the mean over tasks of the seconds from creation to the end, 10 s for a failed task.
"""

from __future__ import annotations

import csv
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, cast

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import cosim.envs
from benchmarks.measure import Table, parser, print_result
from cosim.contract.children import pool
from cosim.envs.session import Session
from cosim.results.student import interval
from cosim.schedulers import scheduler
from cosim.schedulers.state import STAGE, Policy, State, answers, decides

HEAD = "apiVersion: cosim/v1\nkind: Scenario\nname: {name}\nrun: {{duration: {duration}, step: 100 ms}}\n"
YARD = """\
adapters: {continuum: {CONTINUUM}}
nodes:
  camera-[1..8]: {kind: device}
  small-[1..2]: {kind: edge, cpu: 2 x 1 GHz}
  fast: {kind: edge, cpu: 4 x 2 GHz}
  cloud: {kind: cloud, cpu: 16 x 3 GHz}
links:
  - {between: [camera-*, small-*], rate: 100 Mbit/s, delay: 2 ms}
  - {between: [small-*, fast], rate: 200 Mbit/s, delay: 8 ms}
  - {between: [fast, cloud], rate: 100 Mbit/s, delay: 40 ms}
workloads:
  tasks: {from: camera-*, arrivals: ARRIVALS, input: exponential 100 kB, output: 2 kB, work: "WORK", deadline: 400 ms}
"""
POISSON, MEAN = "poisson 4 Hz", "exponential 150 Mcycles"
TASKS = {  # name -> what is put into the yard: the continuum's block, arrivals, work, further lines
    "yard": ("", POISSON, MEAN, ""),
    "queues": ("discipline: fcfs", POISSON, MEAN, ""),
    "bursts": ("", "bag 6 every 1500 ms", MEAN, ""),
    "misses": ("discipline: fcfs", POISSON, "90 Mcycles, 10 % x 8", ""),
    "failures": ("", POISSON, MEAN, "events:\n" + "".join(
        f"  - {{at: {at} s, do: fail, node: fast, for: 3 s}}\n" for at in (4, 12, 20)
    )),
    "uplink": ("", POISSON, MEAN, "events:\n  - {at: 2 s, do: degrade, link: small-1/fast, rate: 15 %}\n"),
}  # fmt: skip
LEARNERS = ("ppo", "dqn", "sac")
TESTED = range(101, 106)
FAILED = 10.0  # s, as in the environment's reward
GAMMA, LAMBDA = 0.95, 0.95
COLUMNS = 28  # of an answer: 12 of the host, 15 of the task, the way there


class Result(NamedTuple):
    """What a learner has learned of a task under a seed."""

    task: str
    learner: str
    seed: int
    untrained: float  # s
    trained: float  # s
    curve: list[float]  # mean reward of a decision, stretch by stretch
    cpu: float  # s of training


def scenario(folder: Path, task: str, duration: str = "30 s") -> Path:
    """The file of a task."""
    block, arrivals, work, more = TASKS[task]
    path = folder / f"{task}.cosim.yaml"
    text = YARD.replace("CONTINUUM", block).replace("ARRIVALS", arrivals).replace("WORK", work) + more
    path.write_text(HEAD.format(name=task, duration=duration) + text)
    return path


def answered(seen: dict[str, NDArray[Any]]) -> tuple[torch.Tensor, torch.Tensor]:
    """(H, COLUMNS) what is known of each host as an answer, and (H,) whether it can be one."""
    hosts, task, reach = seen["hosts"], seen["tasks"][0], seen["reach"][0]
    rows = np.concatenate([hosts, np.broadcast_to(task, (len(hosts), len(task))), reach[:, None]], axis=1)
    usable = (seen["host_mask"] != 0) & (reach < 10.0)  # 10: asinh of no way
    return torch.from_numpy(rows.astype(np.float32)), torch.from_numpy(usable | ~usable.any())


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(COLUMNS, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))


def scores(made: nn.Module, rows: torch.Tensor, usable: torch.Tensor) -> torch.Tensor:
    """(..., H) the score of each host, far below all others where it cannot be chosen."""
    found: torch.Tensor = made(rows)[..., 0].masked_fill(~usable, -1e9)
    return found


def greedy(made: nn.Module) -> Policy:
    """The policy that takes the host with the highest score."""

    def predict(seen: dict[str, NDArray[Any]]) -> int:
        with torch.no_grad():
            return 2 + int(scores(made, *answered(seen)).argmax())

    return cosim.envs.as_policy(predict, scale=True)


def seconds(path: Path, policy: Policy, seeds: Iterable[int] = TESTED) -> float:
    """Mean s of a task that ended, over runs under these seeds."""
    total, count = 0.0, 0
    for seed in seeds:
        session = Session(path, "task", seed)
        while (state := session.ask()) is not None:
            session.answer(answers(policy, state))
        for row in session.ended():
            whole = row["part"] != STAGE
            total += float(np.where(row["completed"], row["seconds"], FAILED)[whole].sum())
            count += int(whole.sum())
        session.close()
    return total / count


class Steps:
    """The environment, from decision to decision and run to run."""

    def __init__(self, path: Path, seed: int) -> None:
        self.env = cosim.envs.scaled(gymnasium.make("cosim/Offload-v1", scenario=path, disable_env_checker=True))
        self.now = answered(self.env.reset(seed=seed)[0])
        self.rewards: list[float] = []

    def step(self, host: int) -> tuple[float, bool]:
        """The reward, and whether the run has ended; `now` is what is seen next."""
        seen, reward, _, ended, _ = self.env.step(2 + host)
        self.now = answered(self.env.reset()[0] if ended else seen)
        self.rewards.append(float(reward))
        return float(reward), ended

    def curve(self, stretches: int = 10) -> list[float]:
        return [round(float(part.mean()), 4) for part in np.array_split(self.rewards, stretches)]


def ppo(steps: Steps, actor: nn.Module, count: int) -> None:
    critic, length = net(), 512
    optimiser = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    for _ in range(count // length):
        kept: list[tuple[Any, ...]] = []
        for _ in range(length):
            rows, usable = steps.now
            with torch.no_grad():
                chosen = torch.distributions.Categorical(logits=scores(actor, rows, usable))
                host = chosen.sample()
                worth = critic(rows).mean()
            reward, ended = steps.step(int(host))
            kept.append((rows, usable, host, chosen.log_prob(host), worth, reward, ended))
        rows, usable, hosts, chances, worths = (torch.stack(part) for part in list(zip(*kept, strict=True))[:5])
        gains, gain, following = torch.zeros(length), 0.0, critic(steps.now[0]).mean().detach()
        for t in reversed(range(length)):  # generalised advantage estimation
            goes_on = 1.0 - kept[t][6]
            error = kept[t][5] + GAMMA * goes_on * following - worths[t]
            gain = error + GAMMA * LAMBDA * goes_on * gain
            gains[t], following = gain, worths[t]
        returns, advantage = gains + worths, (gains - gains.mean()) / (gains.std() + 1e-8)
        for _ in range(4):
            for part in torch.randperm(length).split(128):
                policy = torch.distributions.Categorical(logits=scores(actor, rows[part], usable[part]))
                ratio = (policy.log_prob(hosts[part]) - chances[part]).exp()
                clipped = torch.minimum(ratio * advantage[part], ratio.clamp(0.8, 1.2) * advantage[part])
                missed = (critic(rows[part]).mean(1)[:, 0] - returns[part]) ** 2
                loss = -clipped.mean() + 0.5 * missed.mean() - 0.01 * policy.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()


def replayed(
    steps: Steps, count: int, choose: Callable[[torch.Tensor, torch.Tensor, float], int],
    learn: Callable[[list[torch.Tensor]], None],
) -> None:  # fmt: skip
    """Act, keep, and learn from what is kept, every fourth step."""
    kept: list[tuple[Any, ...]] = []
    for n in range(count):
        rows, usable = steps.now
        host = choose(rows, usable, n / count)
        reward, ended = steps.step(host)
        kept.append((rows, usable, torch.tensor(host), torch.tensor(reward), *steps.now, torch.tensor(float(ended))))
        if n >= 500 and n % 4 == 0:
            learn([torch.stack(part) for part in zip(*random.sample(kept, 64), strict=True)])


def follow(target: nn.Module, source: nn.Module) -> None:
    """Move a target net by one percent towards its source."""
    with torch.no_grad():
        for old, new in zip(target.parameters(), source.parameters(), strict=True):
            old.lerp_(new, 0.01)


def dqn(steps: Steps, worth: nn.Module, count: int) -> None:
    target = net()
    target.load_state_dict(worth.state_dict())
    optimiser = torch.optim.Adam(worth.parameters(), lr=1e-3)

    def choose(rows: torch.Tensor, usable: torch.Tensor, part: float) -> int:
        if random.random() < max(0.05, 1.0 - 3.0 * part):
            return int(random.choice(usable.nonzero()[:, 0].tolist()))
        with torch.no_grad():
            return int(scores(worth, rows, usable).argmax())

    def learn(batch: list[torch.Tensor]) -> None:
        rows, usable, host, reward, following, allowed, ended = batch
        with torch.no_grad():  # double DQN
            best = scores(worth, following, allowed).argmax(1, keepdim=True)
            aim = reward + GAMMA * (1 - ended) * scores(target, following, allowed).gather(1, best)[:, 0]
        loss = functional.smooth_l1_loss(scores(worth, rows, usable).gather(1, host[:, None])[:, 0], aim)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        follow(target, worth)

    replayed(steps, count, choose, learn)


def sac(steps: Steps, actor: nn.Module, count: int) -> None:
    """Discrete SAC (Christodoulou 2019), with an entropy of a fifth of the greatest one as its aim."""
    worths, targets = [net(), net()], [net(), net()]
    for target, worth in zip(targets, worths, strict=True):
        target.load_state_dict(worth.state_dict())
    heat = torch.tensor(-3.0, requires_grad=True)
    critics = torch.optim.Adam([p for worth in worths for p in worth.parameters()], lr=1e-3)
    others = torch.optim.Adam([*actor.parameters(), heat], lr=1e-3)

    def choose(rows: torch.Tensor, usable: torch.Tensor, _part: float) -> int:
        with torch.no_grad():
            return int(torch.distributions.Categorical(logits=scores(actor, rows, usable)).sample())

    def spread(rows: torch.Tensor, usable: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logs = torch.log_softmax(scores(actor, rows, usable), -1)
        return logs.exp(), logs.clamp(min=-30.0)

    def learn(batch: list[torch.Tensor]) -> None:
        rows, usable, host, reward, following, allowed, ended = batch
        alpha = heat.exp().detach()
        with torch.no_grad():
            chance, logs = spread(following, allowed)
            least = torch.minimum(*(target(following)[..., 0] for target in targets))
            aim = reward + GAMMA * (1 - ended) * (chance * (least - alpha * logs)).sum(1)
        error = sum(((worth(rows)[..., 0].gather(1, host[:, None])[:, 0] - aim) ** 2).mean() for worth in worths)
        critics.zero_grad()
        error.backward()
        critics.step()
        chance, logs = spread(rows, usable)
        with torch.no_grad():
            least = torch.minimum(*(worth(rows)[..., 0] for worth in worths))
        entropy = -(chance * logs).sum(1)
        aimed = 0.2 * usable.sum(1).float().log()
        loss = (chance * (alpha * logs - least)).sum(1).mean() + heat * (entropy - aimed).mean().detach()
        others.zero_grad()
        loss.backward()
        others.step()
        for target, worth in zip(targets, worths, strict=True):
            follow(target, worth)

    replayed(steps, count, choose, learn)


LEARN: dict[str, Callable[[Steps, nn.Module, int], None]] = {"ppo": ppo, "dqn": dqn, "sac": sac}


def learned(job: tuple[Path, str, str, int, int, tuple[int, ...]]) -> tuple[Any, ...]:
    """The fields of a `Result`. The job is folder, task, learner, seed, decisions and seeds to judge by."""
    folder, task, learner, seed, count, tested = job
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    random.seed(seed)
    path, made, began = folder / f"{task}.cosim.yaml", net(), time.process_time()
    untrained = seconds(path, greedy(made), tested)
    began = time.process_time()
    steps = Steps(path, seed)
    LEARN[learner](steps, made, count)
    steps.env.close()
    cpu = time.process_time() - began
    return task, learner, seed, untrained, seconds(path, greedy(made), tested), steps.curve(), cpu


@decides("task")
def least_loaded(state: State) -> NDArray[np.int64]:
    """As the continuum's own."""
    load = np.where(np.isfinite(state.reach[0]) & (state.hosts["up"] != 0.0), state.hosts["tasks"], np.inf)
    return np.array([np.argmin(load / state.hosts["speed"])])


@decides("task")
def any_host(state: State) -> NDArray[np.int64]:
    """As the continuum's `random`."""
    usable = np.flatnonzero(np.isfinite(state.reach[0]) & (state.hosts["up"] != 0.0))
    return usable[[int(state.tasks["chance"][0] * len(usable))]] if len(usable) else np.array([-1])


def plain() -> dict[str, Policy]:
    """Policies without learning beforehand, made anew for a run."""
    named = {name: scheduler(name).policy("continuum") for name in ("edf", "bandit")}
    return {"random": cast(Policy, any_host), "least-loaded": cast(Policy, least_loaded), **named}


def main() -> None:
    found = parser(__doc__ or "")
    found.add_argument("--tasks", nargs="*", default=list(TASKS), choices=list(TASKS))
    found.add_argument("--learners", nargs="*", default=list(LEARNERS), choices=LEARNERS)
    found.add_argument("--seeds", type=int, default=5, help="of training")
    found.add_argument("--steps", type=int, default=16_384, help="decisions of a training")
    found.add_argument("--quick", action="store_true", help="one task, two seeds, 2,048 decisions")
    found.add_argument("--workers", type=int, default=2)
    found.add_argument("--out", type=Path, default=Path("learners"), help="folder of the scenarios and curves.csv")
    given = found.parse_args()
    tested = tuple(TESTED)
    if given.quick:
        given.tasks, given.seeds, given.steps, tested = given.tasks[:1], 2, 2_048, tested[:2]
    given.out.mkdir(parents=True, exist_ok=True)
    paths = {task: scenario(given.out, task) for task in given.tasks}
    jobs = [
        (given.out, task, learner, seed, given.steps, tested)
        for task in given.tasks for learner in given.learners for seed in range(1, given.seeds + 1)
    ]  # fmt: skip
    with pool(given.workers) as workers:
        results = [Result(*found) for found in workers.map(learned, jobs)]
    table = Table("s per task on unseen seeds", ["task", "policy", "mean", "95 %", "of seeds"])
    rows: list[dict[str, Any]] = []
    for task, path in paths.items():
        best = {name: seconds(path, policy, tested) for name, policy in plain().items()}
        for name, value in best.items():
            rows.append({"task": task, "policy": name, "mean": value, "half": 0.0, "values": [value]})
        for name in ("untrained", *given.learners):
            values = [r.untrained if name == "untrained" else r.trained for r in results
                      if r.task == task and name in ("untrained", r.learner)]  # fmt: skip
            mean, half = interval(values)
            rows.append({"task": task, "policy": name, "mean": mean, "half": half, "values": values})
    for row in rows:
        table.add([row["task"], row["policy"], f"{row['mean']:.4f}", f"{row['half']:.4f}", len(row["values"])])
    with (given.out / "curves.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["task", "learner", "seed", "stretch", "reward"])
        for r in results:
            writer.writerows((r.task, r.learner, r.seed, n, value) for n, value in enumerate(r.curve, 1))
    curves = [{"task": r.task, "learner": r.learner, "seed": r.seed, "curve": r.curve} for r in results]
    ahead = [
        task for task in paths
        if min(r["mean"] for r in rows if r["task"] == task and r["policy"] in given.learners)
        < min(r["mean"] for r in rows if r["task"] == task and r["policy"] in plain())
    ]  # fmt: skip
    cpu = sum(r.cpu for r in results)
    figures = {"rows": rows, "curves": curves, "ahead": ahead, "cpu_s": cpu}
    table.title += (
        f"; a learner is ahead of the others on {len(ahead)} of {len(paths)} tasks; {cpu:.0f} CPU s of training"
    )
    print_result("learners", figures, [table], as_json=given.json)


if __name__ == "__main__":
    main()
