"""Scenarios from traces of GPU clusters: the jobs in a file, on a cluster that they fill."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.gpu_cluster import traces as gpu
from cosim.extensions.gpu_cluster.cluster.engine.layout import WHOLE
from cosim.extensions.gpu_cluster.cluster.fitted import fit
from cosim.extensions.gpu_cluster.cluster.jobs import Jobs
from cosim.extensions.gpu_cluster.cluster.law import LawBlock, SizeBlock
from cosim.extensions.gpu_cluster.cluster.table import write_jobs
from cosim.sources.importing.imported import Imported, Notice

LEAF, SERVER = 32, 8  # GPUs of a leaf, of a server
LOAD = 0.7  # of the cluster, by what the jobs need on average
FILE = "jobs.parquet"


def read(source: str, path: Path, *, jobs: int | None = None, leaves: int | None = None, law: bool = False) -> Imported:
    """A scenario for the adapter `cluster`. Raises `ScenarioError`.

    Every job has its whole GPUs, or a share of one. How ranks talk is in no public trace: jobs of several
    GPUs are ring or all-to-all by chance, by the scenario's `mix`. `law`: as many jobs are drawn by a law that is
    fitted to these, instead.
    """
    trace = gpu.read(source, path, jobs=jobs)
    gpus, milli = trace.extra["gpus"], trace.extra["gpu_milli"]
    if law and trace.arrival[-1] == 0.0:
        raise ScenarioError(Problem("no law fits jobs that all come at once", file=path))
    made = Jobs(trace.arrival, gpus.astype(np.int64), trace.duration, milli=milli.astype(np.int64))
    span = float(trace.arrival[-1]) or float(trace.duration.max())
    needed = max(float(gpus.max()), made.gpu_seconds / span / LOAD)
    count = leaves or max(2, math.ceil(needed / LEAF))
    if gpus.max() > count * LEAF:
        text = f"a job has {gpus.max():.0f} GPUs, {count} leaves have {count * LEAF}"
        raise ScenarioError(Problem(text, file=path, hint="take more with --leaves"))
    if count > 4096:
        raise ScenarioError(Problem(f"the jobs would need {count:,} leaves", file=path, hint="take fewer with --jobs"))
    step = float(min(max(round(span / 1000.0), 60), 3600))
    duration = math.ceil(span * 1.1 / step + 1) * step
    nodes = min(count, next(n for n in range(min(count, 64), 0, -1) if count % n == 0))
    width = len(str(nodes))
    drawn = _written(len(made), *fit(made, trace.start)) if law else f" {{trace: {FILE}, mix: {{llm: 1, dlrm: 1}}}}"
    text = (
        "apiVersion: cosim/v1\nkind: Scenario\n"
        f"name: gpu-{source}\ntitle: {len(made)} jobs of a {source} trace on {count * LEAF} GPUs\n\n"
        f"run: {{duration: {duration:.10g} s, step: {step:.10g} s, seed: 1}}\n\n"
        "adapters:\n  cluster:\n"
        f"    regular: {{leaves: {count}, down: {LEAF}, up: {LEAF}, ocs: 8, per_server: {SERVER}}}\n"
        f'    nodes: "leaf-*"\n    jobs:{drawn}\n'
        "    placement: best-fit\n    backfill: 16\n\n"
        "kinds:\n  leaf: {tier: cloud}\n\nnodes:\n"
        + "".join(f"  leaf-{i + 1:0{width}}: {{kind: leaf, at: [{i} m, 0 m, 0 m]}}\n" for i in range(nodes))
    )
    notices = [
        Notice(
            "note", path, None, "pattern", "is not in the trace; jobs of several GPUs are ring or all-to-all by chance"
        )
    ]
    notices += [Notice("note", path, None, "jobs", reason) for reason in trace.left_out]
    shared = int((milli < 1000.0).sum())
    if shared:
        notices.append(Notice("note", path, None, "gpu_milli", f"{shared:,} jobs have a part of one GPU"))
    facts = {"jobs": len(made), "gpus": count * LEAF, "gpu_seconds": made.gpu_seconds, "shared": shared}
    beside = {} if law else {FILE: lambda file: write_jobs(file, made, with_pattern=False)}
    return Imported(text, tuple(notices), beside, facts)


def _written(count: int, gap: float, law: LawBlock) -> str:
    """The `jobs` of a scenario that draws them by a law."""

    def quantiles(values: Sequence[float]) -> str:
        return f"[{', '.join(f'{value:.5g} s' for value in values)}]"

    def size(one: SizeBlock) -> str:
        part = f"milli: {one.milli}, " if one.milli < WHOLE else ""
        return f"gpus: {one.gpus}, {part}weight: {one.weight:.6g}, durations: {quantiles(one.durations)}"

    return (
        f"\n      generate: fitted\n      count: {count}\n      gap: {gap:.6g} s\n"
        f"      mix: {{llm: 1, dlrm: 1}}\n      law:\n        gaps: {quantiles(law.gaps)}\n"
        f"        day: [{', '.join(f'{weight:g}' for weight in law.day)}]\n"
        f"        alike: [{', '.join(f'{value:.4g}' for value in law.alike)}]\n"
        "        sizes:" + "".join(f"\n          - {{{size(one)}}}" for one in law.sizes)
    )
