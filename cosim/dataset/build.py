"""A data set is a folder: one Parquet file per scene and split, `croissant.json`, `dataset.json`.

Files depend on the runs and the recipe alone: any number of workers writes the same bytes, and a
build that was cut off goes on where it was.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from cosim.contract.errors import SetupError
from cosim.dataset.card import croissant
from cosim.dataset.leakage import Leak, check
from cosim.dataset.recipe import SPLITS, Recipe, assign
from cosim.dataset.scene import RecordedScene, check_columns, count, schema, table
from cosim.results.compare import run_folders_of
from cosim.results.folder import RunFolder, write_json
from cosim.results.load import parameters_of

INDEX = "dataset.json"


@dataclass(frozen=True, slots=True)
class Made:
    """A data set: rows and positive rows by split, and what its leakage test found."""

    folder: Path
    rows: Mapping[str, int]
    positive: Mapping[str, int]
    scenes: Mapping[str, int]
    leak: Leak


def build(
    runs: Iterable[str | Path],
    recipe: Recipe,
    out: str | Path,
    *,
    workers: int = 1,
    name: str = "",
    licence: str = "https://spdx.org/licenses/CC-BY-4.0",
    progress: Callable[[int, int], None] | None = None,
) -> Made:
    """Make the data set of `runs` (run and sweep folders) in the folder `out`.

    Raises `SetupError` when the folder holds a data set of another recipe, a run does not have what
    the recipe names, or no run is complete.
    """
    out = Path(out)
    scenes = scenes_of(list(runs), recipe.by)
    split = assign([scene.group for scene in scenes], recipe.shares, recipe.seed)
    index = {
        "recipe": recipe.as_dict(),
        "scenes": {s.name: {"group": s.group, "split": split[s.group]} for s in scenes},
    }
    names = dict.fromkeys((*recipe.signals, *(column.partition(".")[0] for column in recipe.truth())))
    recorded = {signal: schema(scenes[0], signal) for signal in names}
    check_columns(recorded, recipe.truth())
    _take(out, index)
    files = {scene.name: out / split[scene.group] / f"{scene.name}.parquet" for scene in scenes}
    left = [scene for scene in scenes if not files[scene.name].is_file()]
    jobs = [(scene, recipe, str(files[scene.name])) for scene in left]
    for done, _ in enumerate(_mapped(jobs, workers), 1):
        if progress is not None:
            progress(done, len(jobs))
    counted = {scene: count(file) for scene, file in sorted(files.items())}
    where = {scene.name: split[scene.group] for scene in scenes}
    rows = {one: sum(n for s, (n, _) in counted.items() if where[s] == one) for one in SPLITS}
    positive = {one: sum(p for s, (_, p) in counted.items() if where[s] == one) for one in SPLITS}
    leak = check(out, recipe)
    digests = {str(file.relative_to(out)): sha256(file.read_bytes()).hexdigest() for file in sorted(files.values())}
    manifests = [RunFolder.open(Path(scene.folder)).manifest for scene in scenes]
    title = name or str(manifests[0]["scenario"])
    seeds = sorted({int(manifest["seed"]) for manifest in manifests})
    write_json(out / "croissant.json", croissant(out, title, recipe, digests, licence, seeds, leak.as_dict(), recorded))
    found = {"rows": rows, "positive": positive, "leakage": leak.as_dict(), "files": digests}
    write_json(out / INDEX, {**index, **found})
    scenes_in = {one: sum(place == one for place in where.values()) for one in SPLITS}
    return Made(out, rows, positive, scenes_in, leak)


def scenes_of(runs: Iterable[str | Path], by: str) -> list[RecordedScene]:
    """The scenes of run and sweep folders in the order of their names, which come from what was run.

    Raises `SetupError` for a run that is not complete and for a parameter `by` that was not swept.
    """
    paths = [Path(run) for run in runs]
    parameters: dict[Path, Mapping[str, Any]] = {}
    for run in paths:
        parameters |= parameters_of(run)
    found: dict[str, RecordedScene] = {}
    for path in run_folders_of(paths):
        manifest = RunFolder.open(path).manifest
        if manifest["status"] != "complete":
            raise SetupError(f"the run {path} is {manifest['status']}; a data set is made of complete runs")
        scene = str(manifest["plan_hash"])[:16]
        name = f"{manifest['scenario']}-{scene}"
        if by in ("seed", "scene"):
            group = name if by == "scene" else f"{manifest['scenario']} seed {manifest['seed']}"
        else:
            swept = parameters.get(path.resolve(), {})
            if by not in swept:
                known = ", ".join(["seed", "scene", *sorted(swept)])
                raise SetupError(f"--by: '{by}' was not swept in {path}; choose from {known}")
            group = f"{by}={swept[by]}"
        found[name] = RecordedScene(name, str(path), group)
    if not found:
        raise SetupError("there is no run to make a data set of")
    return [found[name] for name in sorted(found)]


def _take(out: Path, index: Mapping[str, Any]) -> None:
    """Make the folder, or go on in one that was begun with the same recipe and scenes."""
    file = out / INDEX
    if file.is_file():
        before = json.loads(file.read_text(encoding="utf-8"))
        if {key: before.get(key) for key in index} != dict(index):
            raise SetupError(f"{out} holds a data set of other runs or another recipe; name another folder with --out")
    elif out.is_dir() and any(out.iterdir()):
        raise SetupError(f"{out} is not empty and holds no data set; name another folder with --out")
    for split in SPLITS:
        (out / split).mkdir(parents=True, exist_ok=True)
    write_json(file, dict(index))


def _mapped(jobs: list[tuple[RecordedScene, Recipe, str]], workers: int) -> Iterable[None]:
    if workers <= 1 or len(jobs) <= 1:
        return map(_write, jobs)
    pool = ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn"))
    try:
        return list(pool.map(_write, jobs))
    finally:
        pool.shutdown()


def _write(job: tuple[RecordedScene, Recipe, str]) -> None:
    """Write the file of one scene whole or not at all."""
    scene, recipe, file = job
    part = f"{file}.part"
    pq.write_table(table(scene, recipe), part, compression="zstd", version="2.6")
    os.replace(part, file)  # noqa: PTH105
