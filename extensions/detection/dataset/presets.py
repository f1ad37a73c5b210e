"""Recipes that come with the package, one for each of the usual questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from cosim.contract.errors import SetupError
from cosim.contract.hints import did_you_mean
from cosim.extensions.detection.dataset.recipe import Recipe
from cosim.results.compare import run_folders_of

_BAD_LINKS = (
    "jam: jamming.loss >= 3", "fade: impairment.snr_down <= 3", "fade: impairment.snr_up <= 3",
    "interference: impairment.interference_down >= 10", "interference: impairment.interference_up >= 10",
    "overload: impairment.load >= 0.9",
)  # fmt: skip
_STATE = ("host.running", "host.utilisation", "host.up")


@dataclass(frozen=True, slots=True)
class Preset:
    """A recipe, the signals that it also takes where runs have them, and what it asks."""

    question: str
    recipe: Recipe
    also: tuple[str, ...] = ()


PRESETS: Mapping[str, Preset] = MappingProxyType({
    "jamming": Preset(
        "which phones lose 3 dB of SINR to a jammer, and why links are bad",
        Recipe(("ue", "gnb"), "jamming.loss >= 3", keep=("jamming.loss",), causes=_BAD_LINKS),
    ),
    "wifi-jamming": Preset(
        "which Wi-Fi stations lose 3 dB of SINR to a jammer",
        Recipe(("link",), "jamming.loss >= 3", keep=("jamming.loss",)),
    ),
    "offloading": Preset(
        "which tasks are done in time, from the task, its host and its link at creation",
        Recipe(
            ("task", "host@host"), "task.status == completed and task.late == false", window=30.0, at="created",
            within=60.0, columns=("task.input", "task.output", "task.work", "task.deadline", *_STATE),
        ),
        ("link",),
    ),
    "machines": Preset(
        "which hosts of virtual machines are at 80 % or more in five minutes",
        Recipe(("host",), "host.utilisation >= 0.8", window=3600.0, ahead=300.0),
        ("server",),
    ),
    "jobs": Preset(
        "which training jobs wait a minute or more, from the job and the cluster at its arrival",
        Recipe(
            ("job", "cluster@*"), "job.started - job.arrival >= 60", window=1.0, at="arrival", within=86400.0,
            columns=("job.gpus", *(f"cluster.{name}" for name in ("busy", "down", "waiting", "running", "circuits"))),
        ),
    ),
    "placement": Preset(
        "which host each task is sent to, from the task and the state of every host",
        Recipe(
            ("task", "host@candidate"), "task.chosen == true", window=1.0, at="created", within=60.0, choice="host",
            keep=("task.task",), columns=("task.input", "task.work", "task.deadline", *_STATE),
        ),
    ),
    "job-placement": Preset(
        "which node a training job starts on, from the job and the state of every node",
        Recipe(
            ("job", "host@candidate"), "job.chosen == true", window=1.0, at="started", within=86400.0, choice="node",
            keep=("job.job",), columns=("job.gpus", *_STATE),
        ),
    ),
})  # fmt: skip


def known(name: str) -> Preset:
    """The preset called `name`. Raises `SetupError` for a name that is not in `PRESETS`."""
    if name not in PRESETS:
        raise SetupError(f"there is no preset '{name}'; {did_you_mean(name, PRESETS, otherwise='there are')}")
    return PRESETS[name]


def preset(name: str, runs: Iterable[str | Path]) -> Recipe:
    """The recipe called `name` for `runs`, run and sweep folders.

    Raises `SetupError` for a name that is not in `PRESETS`.
    """
    found = known(name)
    folder = next(iter(run_folders_of([Path(run) for run in runs])), None)
    also = tuple(signal for signal in found.also if folder is not None and (folder / "frames" / signal).is_dir())
    return replace(found.recipe, signals=(*found.recipe.signals, *also))
