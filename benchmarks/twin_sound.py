"""Which words come on data that the model makes, and on data that it does not (`--job sound`)?

Tables of queues that are computed here, not by the engine, go through `cosim calibrate`'s own way with 1,000 to 2,500
runs: one to three servers in order of arrival or sharing, one load or three (the last one held back), constant,
exponential, log-normal or even service times, arrivals replayed, drawn or free. The others have a cause that their
scenario lacks. Sets are drawn anew for every `SEED`.
"""

from __future__ import annotations

import csv
import heapq
import math
import tempfile
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.measure import mapped
from cosim.contract.errors import ScenarioError
from cosim.scenario.load import load
from cosim.twin.problem import Floats
from cosim.twin.scenario.work import carry_out, works
from cosim.twin.search import Budget

SEED, SOUND, OTHERS = 7, 40, 21
LAWS = ("constant", "exponential", "log-normal", "even")
CAUSES = ("gamma", "wide", "bursts", "drift", "pauses", "discipline", "servers")
WORDS = ("cannot make", "does not reproduce", "lie beside", "lacks a cause", "agree less", "end of its interval",
         "took another time", "do not take longer")  # fmt: skip
SCENARIO = """\
apiVersion: cosim/v1
kind: Scenario
name: set
run: {{duration: {duration:g} s, step: 1 s, seed: 1}}
adapters:
  continuum: {{scheduler: nearest, discipline: {discipline}}}
nodes:
  client: {{kind: device}}
  worker: {{kind: edge, cpu: {servers} x 1 GHz}}
links:
  - {{between: [client, worker], rate: 100 Gbit/s, delay: {delay:g} ms}}
workloads:
  ask: {{from: client, arrivals: poisson {rate:g} Hz, work: "{work}"}}
calibrate:
{recordings}  observed:
    response: {{{file}signal: task.response, column: response, time: created}}
{parts}  free:
    workloads.ask.work: {{bounds: ["{low}", "{high}"], scale: log}}
{free}"""


def in_turn(times: Floats, works: Floats, servers: int, last_first: bool = False) -> Floats:
    """When tasks end that servers take one by one, in order of arrival or the youngest first."""
    free, ends, waiting, k = [0.0] * servers, np.empty(len(times)), list[int](), 0
    for _ in times:
        now = heapq.heappop(free)
        now = max(now, times[k]) if not waiting and k < len(times) else now
        while k < len(times) and times[k] <= now:
            waiting.append(k)
            k += 1
        one = waiting.pop(-1 if last_first else 0)
        ends[one] = now + works[one]
        heapq.heappush(free, ends[one])
    return ends


def sharing(times: Floats, works: Floats, servers: int) -> Floats:
    """When tasks end that all are under way at once."""
    ends, left, now, k = np.empty(len(times)), dict[int, float](), 0.0, 0
    while k < len(times) or left:
        speed = min(1.0, servers / max(len(left), 1))
        first = min(left, key=lambda one: left[one], default=-1)
        end = now + left[first] / speed if left else math.inf
        until = min(end, times[k] if k < len(times) else math.inf)
        left = {one: work - speed * (until - now) for one, work in left.items()}
        now = until
        if end <= until:
            ends[first] = now
            del left[first]
        else:
            left[k] = works[k]
            k += 1
    return ends


def written(law: str, mean: float, spread: float) -> str:
    work, part = f"{1e3 * mean:.6g} Mcycles", f"+- {100 * spread:.4g} %"
    form = {"constant": "{0}", "exponential": "exponential {0}", "log-normal": "log-normal {0} {1}", "even": "{0} {1}"}
    return form[law].format(work, part)


def drawn(law: str, mean: float, spread: float, count: int, random: np.random.Generator) -> Floats:
    sigma = 1.3 if law == "wide" else math.sqrt(math.log1p(spread**2))
    return {
        "constant": lambda: np.full(count, mean),
        "exponential": lambda: random.exponential(mean, count),
        "even": lambda: mean * (1.0 + spread * (2.0 * random.random(count) - 1.0)),
        "gamma": lambda: random.gamma(4.0, mean / 4.0, count),
    }.get(law, lambda: mean * np.exp(sigma * random.standard_normal(count) - sigma**2 / 2.0))()


def made(folder: Path, random: np.random.Generator, cause: str) -> Path:
    """The scenario of a set, with its tables; `cause` is what it lacks."""
    shared = cause != "discipline" and random.random() < 0.3
    several = cause not in ("bursts", "discipline") and random.random() < 0.3
    law = {"gamma": "exponential", "wide": "log-normal"}.get(cause, str(random.choice(LAWS)))
    servers = {"servers": 3, "discipline": 1}.get(cause, int(random.integers(1, 4)))
    spread, mean = random.uniform(0.2, 0.9), math.exp(random.uniform(math.log(0.01), math.log(0.15)))
    latency, count = random.uniform(1e-3, 0.02), int(random.integers(300, 1500))
    least = 0.6 if cause in ("servers", "discipline") else 0.2
    loads = sorted(random.uniform(least, 0.8, 3 if several else 1))
    durations = []
    for k, share in enumerate(loads):
        gaps = random.exponential(mean / (share * servers), count)
        if cause == "bursts":
            gaps = np.where(np.arange(count) % 4 == 0, 4.0 * gaps, 0.02 * mean)
        times = np.cumsum(gaps)
        works = drawn(cause if cause in ("gamma", "wide") else law, mean, spread, count, random)
        works = works * np.linspace(0.6, 1.4, count) if cause == "drift" else works
        works = works + np.where(random.random(count) < 0.03, 12.0 * mean, 0.0) if cause == "pauses" else works
        if shared:
            ends = sharing(times + latency / 2.0, works, servers) + latency / 2.0
        else:
            ends = in_turn(times + latency / 2.0, works, servers, cause == "discipline") + latency / 2.0
        durations.append(math.ceil(times[-1]))
        rows = [(repr(float(a)), repr(float(b - a))) for a, b in zip(times, ends, strict=True) if b < durations[-1]]
        with (folder / f"load{k}.csv").open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows([("created", "response"), *rows])
    rate = loads[0] * servers / mean
    replay = several or (cause != "bursts" and random.random() < 0.35)
    recordings, parts = "", ""
    if several:
        names = [
            f"    load{k}: {{file: load{k}.csv, settings: {{run.duration: {d} s}}}}\n" for k, d in enumerate(durations)
        ]
        recordings = f"  recordings:\n{''.join(names)}"
        parts = "  replay: {sizes: [], time: created}\n  held-back: {recordings: [load2]}\n"
    else:
        parts += "  replay: {file: load0.csv, sizes: [], time: created}\n" if replay else ""
        parts += f"  fit: {{until: {0.65 * durations[0]:g} s}}\n" if random.random() < 0.5 else ""
    delay = 500.0 * latency
    free = (
        f"    links.0.delay: {{bounds: [{delay / 4:g} ms, {delay * 4:g} ms], scale: log}}\n"
        if random.random() < 0.6
        else ""
    )
    if not replay and random.random() < 0.5:
        bounds = f"poisson {0.6 * rate:g} Hz, poisson {1.5 * rate:g} Hz"
        free += f"    workloads.ask.arrivals: {{bounds: [{bounds}], scale: log}}\n"
    low, start, high = (written(law, mean * factor, spread) for factor in (0.4, random.uniform(0.7, 1.4), 2.5))
    path = folder / "scenario.cosim.yaml"
    path.write_text(SCENARIO.format(
        duration=durations[0], discipline="sharing" if shared else "fcfs", servers=1 if cause == "servers" else servers,
        delay=delay, rate=rate, work=start, low=low, high=high, recordings=recordings, parts=parts, free=free,
        file="" if several else "file: load0.csv, ",
    ), encoding="utf-8")  # fmt: skip
    return path


def predicted(cause: str, number: int, seed: int = SEED) -> list[str]:
    """The words on the fit of a set."""
    random = np.random.default_rng([seed, number, len(cause)])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            loaded = load(made(folder, random, cause))
            (work,) = works(loaded, folder=folder / "out", workers=1)
            budget = Budget(int(random.integers(1000, 2500)))
            found, _ = carry_out(work, loaded, folder / "out", budget=budget, seed=number + 1)
        except ScenarioError as error:
            return [str(error)]
    return [line for line in found.warnings if any(word in line for word in WORDS)]


def run(
    data: Path | None, held_back: Path | None, quick: bool, seed: int = SEED, workers: int = 1
) -> dict[str, object]:
    """How many sound sets have a word, and how many others."""
    del data, held_back
    begun, lines = process_time(), []
    sound, others = (2, 2) if quick else (SOUND, OTHERS)
    cases = [("", k) for k in range(sound)] + [(CAUSES[k % len(CAUSES)], k) for k in range(others)]
    counts = {"sound": 0, "others": 0}
    words = mapped(predicted, *zip(*cases, strict=True), [seed] * len(cases), workers=workers)
    for (cause, number), found in zip(cases, words, strict=True):
        kind = "others" if cause else "sound"
        counts[kind] += bool(found)
        lines += [{"set": f"{kind} {number} {cause}".strip(), "word": found[0]}] if found else []
    return {"words": lines, "sound sets with a word": f"{counts['sound']} of {sound}", "seed": seed,
            "other sets with a word": f"{counts['others']} of {others}", "CPU s": process_time() - begun}  # fmt: skip
