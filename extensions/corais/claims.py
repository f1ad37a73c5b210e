"""Tables of CoRaiS' paper, made again: `claims.toml` has its numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import numpy as np

from cosim.contract.errors import RunError
from cosim.contract.records import Floats
from cosim.extensions.corais import baselines, exact, families, network, search
from cosim.extensions.corais.problem import Decision, Instance, makespan, responses
from cosim.results.load import load
from cosim.results.session import run
from cosim.scenario.gallery import example

# The prototype of Tables VII and VIII: five edges, requests of three sizes, where they come from and are predicted.
REPLICAS = (2, 4, 3, 3, 1)
SLOPE = (0.26, 0.21, 0.23, 0.31, 0.13)  # s per MB: a choice, so that 1000 requests take what they took CoRaiS (130 s)
MEGABYTES, PARTS = (2.6, 7.9, 18.6), (0.5, 0.3, 0.2)
PLACES = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0), (0.5, 0.5))
OUTPUT, TRANSFER = 0.1, 0.02  # of the input; s per MB and unit of distance: the paper states neither
DISTRIBUTIONS = {
    "equal": ((0.2,) * 5, (0.2,) * 5),
    "shifted": ((0.5, 0.2, 0.2, 0.05, 0.05), (0.1, 0.1, 0.4, 0.25, 0.15)),
}
# Requests of clients with the edges that served them then and at the end; the end of the run if there is none.
MOVED = """WITH stop AS (SELECT max(time) AS time FROM link),
    asked AS (SELECT node, task, created FROM task_event WHERE event = 'created' AND node IN ({clients})),
    told AS (SELECT task, ended FROM task WHERE status = 'completed'),
    known AS (SELECT node, created, ended FROM asked LEFT JOIN told USING (task)),
    begun AS (SELECT k.*, l.cell AS source FROM known k ASOF JOIN link l ON k.node = l.node AND k.created >= l.time),
    moved AS (SELECT b.*, l.cell AS target FROM begun b ASOF LEFT JOIN link l ON b.node = l.node AND b.ended >= l.time)
    SELECT avg(coalesce(ended, stop.time) - created), 100 * avg(CAST(ended IS NOT NULL AS DOUBLE)),
    100 * avg(CAST(source <> target AS DOUBLE)) FILTER (ended IS NOT NULL) FROM moved, stop"""
MEANS = ("response, s", "answered, %", "after a move, %")
Rows = dict[str, dict[str, float]]
Method = Callable[[Instance], Decision]


def methods(draws: tuple[int, ...], rng: np.random.Generator) -> dict[str, Method]:
    """The paper's rules, and the shipped network with so many draws, by the names of the tables."""
    held = network.stored()
    found: dict[str, Method] = {"Local": baselines.local, "Predicted": baselines.predicted}
    for count in draws:
        name = "1k" if count == 1000 else str(count)
        found[f"Random({name})"] = lambda one, n=count: baselines.random(one, n, rng)  # type: ignore[misc]
        if count > 1:
            found[f"CoRaiS({name})"] = lambda one, n=count: network.solve(one, held, count=n)  # type: ignore[misc]
    found["CoRaiS(greedy)"] = lambda one: network.solve(one, held)
    return found


def gaps(case: str, seed: int, _: None, *, instances: int, limit: float) -> Rows:
    """Tables III and IV: makespan over the solver's, and CPU s, at the scale `case`.

    The solver is HiGHS, which begins with the decision of `search` and has `limit` s; with 0 it is `search` alone.
    """
    found = list(families.instances("corais", _scale(case), instances, seed))
    solved = [search.solve(one) for one in found]
    least = [makespan(one, said) for one, said in zip(found, solved, strict=True)]
    if limit:
        least = [exact.solve(one, limit, start=begin).makespan for one, begin in zip(found, solved, strict=True)]
    rows: Rows = {}
    for name, rule in methods((1, 100, 1000), np.random.default_rng(seed)).items():
        values, spent = _tried(rule, found)
        rows[name] = {f"{case} Gap-M": float(np.mean(values / np.array(least))), f"{case} Time-M": spent}
    return rows


def costs(case: str, seed: int, _: None, *, instances: int, requests: int) -> Rows:
    """Table V: makespans (s), over those of CoRaiS(1k), and CPU s; nothing for scales of more than `requests`."""
    scale = _scale(case)
    if scale[2] > requests:
        return {}
    found = list(families.instances("corais", scale, instances, seed))
    tried = {
        name: _tried(rule, found) for name, rule in methods((10, 100, 500, 1000), np.random.default_rng(seed)).items()
    }
    base = tried["CoRaiS(1k)"][0]
    return {
        name: {
            f"{case} Cost-M": float(np.mean(values)), f"{case} Gap-M": float(np.mean(values / base)),
            f"{case} Time-M": spent,
        }
        for name, (values, spent) in tried.items()
    }  # fmt: skip


def character(case: str, seed: int, _: None, *, instances: int, requests: int, backlog: float) -> Rows:
    """Table VI: how CoRaiS(1k) shares equal requests at edge A among five edges, A to E, and each edge's response.

    Beside them (`best`) stands how this package's search shares them, as water fills vessels.
    LB: equal edges with equal backlogs. WP: equal edges with backlogs that fall from A to E, from `backlog` s to 0. HA:
    run times that fall from A to E, with equal backlogs.
    """
    held, rng, count = network.stored(), np.random.default_rng(seed), 5
    counts, costs_of, best = np.zeros(count), np.zeros(count), np.zeros(count)
    for k in range(instances):
        zero = np.zeros(count)
        own = np.linspace(backlog, 0.0, count) if case == "WP" else np.full(count, 0.5)
        slope = np.linspace(0.9, 0.3, count) if case == "HA" else np.full(count, 0.5)
        one = Instance(
            rng.random((count, 2)) * 0.1, slope, zero, np.full(count, 3), own, zero, zero, zero,
            np.zeros(requests, np.int64), np.zeros(requests, np.int64), np.full(requests, 0.5), np.full(requests, 0.5),
            1.0,
        )  # fmt: skip
        decision = network.solve(one, held, count=1000, seed=k)
        counts += np.bincount(decision, minlength=count)
        best += np.bincount(search.solve(one), minlength=count)
        costs_of += responses(one, decision)
    return {
        edge: dict(zip((f"{case} EReqN", f"{case} LCost", f"{case} best"), found, strict=True))
        for edge, found in zip("ABCDE", (np.stack([counts, costs_of, best], 1) / instances).tolist(), strict=True)
    }  # fmt: skip


def prototype(case: str, seed: int, _: None, *, distribution: str, instances: int) -> Rows:
    """Tables VII and VIII: s until the last of `case` requests is answered, by the problem's own times.

    The network sees sizes and run times of the ranges that it was trained on: another unit of data and of time, and the
    same decisions.
    """
    rng, held, count = np.random.default_rng([seed, int(case)]), network.stored(), int(case)
    sources, targets = DISTRIBUTIONS[distribution]
    unit, none = max(MEGABYTES), np.zeros(len(SLOPE))
    scale = max(SLOPE) * unit
    rules: dict[str, Method] = {
        "CoRaiS(1k)": lambda one: network.solve(one, held, count=1000), "Local": baselines.local,
        "Predicted": baselines.predicted, "Random(1k)": lambda one: baselines.random(one, 1000, rng),
        "search": search.solve,
    }  # fmt: skip
    total = dict.fromkeys(rules, 0.0)
    for _number in range(instances):
        sizes = rng.choice(MEGABYTES, count, p=PARTS) / unit
        one = Instance(
            np.array(PLACES), np.array(SLOPE) * unit / scale, none, np.array(REPLICAS), none, none, none, none,
            rng.choice(len(SLOPE), count, p=sources), rng.choice(len(SLOPE), count, p=targets), sizes, OUTPUT * sizes,
            TRANSFER * unit / scale,
        )  # fmt: skip
        for name, rule in rules.items():
            total[name] += scale * makespan(one, rule(one)) / instances
    return {name: {f"{case} requests": value} for name, value in total.items()}


def mobility(case: str, seed: int, _: None, *, within: str, leaving: str, scenario: str, duration: str) -> Rows:
    """Fig. 6 and 7: requests of clients that move within a region, or leave one, under the scheduler `case`.

    Mean response (s), by their age if they have not been answered; the share that was answered, and the share of the
    answered ones whose client was then at another edge than when it made them, %.
    """
    words = [f"run.seed={seed}", f"run.duration={duration}", f"adapters.continuum.scheduler={case}"]
    columns: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        made = run(example(scenario).folder, overrides=words, out=Path(folder))
        if made.error is not None:
            raise RunError(f"{scenario}, seed {seed}: {made.error}")
        with closing(load(made.folder)) as found:
            for how, clients in (("within", within), ("leaving", leaving)):
                (row,) = found.sql(MOVED.format(clients=", ".join(f"'{one}'" for one in clients.split()))).fetchall()
                columns |= {f"{how} {name}": value for name, value in zip(MEANS, row, strict=True)}
    return {case: columns}


def _scale(case: str) -> tuple[int, int, int]:
    total, edges, requests = map(int, case.strip("()").split(","))
    return total, edges, requests


def _tried(rule: Method, found: list[Instance]) -> tuple[Floats, float]:
    """Makespans (s), and CPU s of a decision."""
    rule(found[0])  # its machine code
    begun = process_time()
    decisions = [rule(one) for one in found]
    spent = (process_time() - begun) / len(found)
    return np.array([makespan(one, each) for one, each in zip(found, decisions, strict=True)]), spent
