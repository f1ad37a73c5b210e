"""A data set is a folder: one Parquet file per scene and split, `croissant.json`, `dataset.json`.

Files depend on the runs and the recipe alone: any number of workers writes the same bytes, and a
build that was cut off goes on where it was.
"""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cosim import version
from cosim.contract import seals
from cosim.contract.children import pool
from cosim.contract.errors import SetupError
from cosim.contract.hints import did_you_mean
from cosim.extensions.detection.dataset.card import croissant
from cosim.extensions.detection.dataset.leakage import INDEX, Leak, check, made
from cosim.extensions.detection.dataset.recipe import SPLITS, Recipe, assign
from cosim.extensions.detection.dataset.scene import (
    CHOICE,
    RecordedScene,
    check_columns,
    count,
    files_of,
    schema,
    table,
)
from cosim.extensions.detection.dataset.tables import parts, remarks
from cosim.results.compare import run_folders_of
from cosim.results.folder import RunFolder, write_json
from cosim.results.load import parameters_of
from cosim.sources.tables.table import is_table

_FORMAT: Mapping[str, Any] = {"compression": "zstd", "version": "2.6"}


@dataclass(frozen=True, slots=True)
class BuiltDataset:
    """A data set: rows and positive rows by split, and what its leakage test found."""

    folder: Path
    rows: Mapping[str, int]
    positive: Mapping[str, int]
    scenes: Mapping[str, int]
    leak: Leak
    remarks: tuple[str, ...] = ()  # columns of tables that are no features, and splits that are of no use


def build(
    runs: Iterable[str | Path],
    recipe: Recipe,
    out: str | Path,
    *,
    workers: int = 1,
    executor: str = "local",
    name: str = "",
    licence: str = "https://spdx.org/licenses/CC-BY-4.0",
    creator: str = "",
    published: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> BuiltDataset:
    """Make the data set of `runs` in the folder `out`: run and sweep folders, or tables for a recipe without signals.

    `executor` is "local", "ray" or "ray:ADDRESS". Raises `SetupError` when the folder holds a data set of
    another recipe, a run does not have what the recipe names, or no run is complete.
    """
    out = Path(out)
    scenes = scenes_of(list(runs), recipe)
    split = assign([scene.group for scene in scenes], recipe.shares, recipe.seed)
    index = {
        "recipe": recipe.as_dict(),
        "scenes": {s.name: {"group": s.group, "split": split[s.group]} for s in scenes},
    }
    if recipe.signals:
        names = dict.fromkeys((*recipe.names, *(column.partition(".")[0] for column in recipe.truth())))
        recorded = {signal: schema(scenes[0], signal) for signal in names}
        if recipe.choice:
            recorded[recipe.names[0]] = pa.schema([*recorded[recipe.names[0]], *CHOICE])
    else:
        recorded = {"": schema(scenes[0], "")}
    check_columns(recorded, (*recipe.truth(), *recipe.columns))
    known = sorted({name for columns in recorded.values() for name in columns.names})
    lost = [name for name in recipe.drop if name not in known and name != "rnti"]
    if lost:
        raise SetupError(
            f"--drop: there is no column '{lost[0]}'; {did_you_mean(lost[0], known, otherwise='there are')}"
        )
    _take(out, index)
    files = {scene.name: out / split[scene.group] / f"{scene.name}.parquet" for scene in scenes}
    left = [scene for scene in scenes if not files[scene.name].is_file()]
    whole = replace(
        recipe, sample=()
    )  # only what is learned from is thinned, so that figures of others need no weights
    jobs = [(one, recipe if split[one.group] == "train" else whole, str(files[one.name])) for one in left]
    for done, _ in enumerate(_mapped(jobs, workers, executor), 1):
        if progress is not None:
            progress(done, len(jobs))
    counted = {scene: count(file) for scene, file in sorted(files.items())}
    where = {scene.name: split[scene.group] for scene in scenes}
    rows = {one: sum(n for s, (n, _) in counted.items() if where[s] == one) for one in SPLITS}
    positive = {one: sum(p for s, (_, p) in counted.items() if where[s] == one) for one in SPLITS}
    leak = check(out, recipe)
    kept = seals.digests(out, [str(file.relative_to(out)) for file in sorted(files.values())])
    digests = {name: str(entry["sha256"]) for name, entry in kept.items()}
    manifests = [RunFolder.open(Path(scene.folder)).manifest for scene in scenes if scene.part is None]
    title = name or (str(manifests[0]["scenario"]) if manifests else Path(scenes[0].folder).name.partition(".")[0])
    seeds = sorted({int(manifest["seed"]) for manifest in manifests})
    sources = sorted({Path(scene.folder).name for scene in scenes if scene.part is not None})
    card = croissant(
        out, title, recipe, digests=digests, licence=licence, seeds=seeds, sources=sources, leak=leak.as_dict(),
        recorded=recorded, creator=creator, published=published,
    )  # fmt: skip
    write_json(out / "croissant.json", card)
    kept |= seals.digests(out, ["croissant.json"])
    found = {"rows": rows, "positive": positive, "leakage": leak.as_dict(), "digests": kept}
    write_json(out / INDEX, seals.sealed({**index, **found}))
    scenes_in = {one: sum(place == one for place in where.values()) for one in SPLITS}
    return BuiltDataset(
        out, rows, positive, scenes_in, leak, (*_lost(scenes, recipe), *_useless(rows, positive, recipe))
    )


def _lost(scenes: list[RecordedScene], recipe: Recipe) -> Iterator[str]:
    """Remarks about the columns of tables."""
    known = {recipe.node, recipe.at, recipe.by, *recipe.drop, *recipe.truth()}
    for file in sorted({scene.folder for scene in scenes if scene.part is not None}):
        for text in remarks(Path(file), known):
            if not recipe.columns or text.partition("'")[2].partition("'")[0] in recipe.columns:
                yield text


def _useless(rows: Mapping[str, int], positive: Mapping[str, int], recipe: Recipe) -> Iterator[str]:
    """Splits that nothing can be trained or judged with."""
    more = "cut the table with --blocks, name groups with --by" if not recipe.signals else "take more seeds"
    alike = sum(positive.values()) in (0, sum(rows.values()))  # no other split would help
    for split in SPLITS:
        if not rows[split] and recipe.shares[SPLITS.index(split)] > 0.0:
            yield f"the split {split} has no rows: there are too few groups; {more}"
        elif rows[split] and not alike and positive[split] in (0, rows[split]):
            what = "no row of" if not positive[split] else "every row of"
            yield f"{what} the split {split} has the label; {more}, or another --split-seed"


def scenes_of(runs: Iterable[str | Path], recipe: Recipe) -> list[RecordedScene]:
    """The scenes of run and sweep folders, or of tables, in the order of their names, which come from what is in them.

    Raises `SetupError` for a run that is not complete, for a parameter `by` that was not swept, and for a table
    beside signals.
    """
    by = recipe.by
    paths = [Path(run) for run in runs]
    tables = [path for path in paths if is_table(path)]
    if tables and (recipe.signals or len(tables) < len(paths)):
        other = "it has no signals; leave out --signals" if recipe.signals else "make a data set of runs by itself"
        raise SetupError(f"{tables[0]} is a table: {other}")
    if not tables and not recipe.signals:
        raise SetupError("a data set needs at least one signal; name one with --signals")
    if tables:
        column = "" if by in ("seed", "scene") else by
        made = (part for path in tables for part in parts(path, recipe.node, recipe.at, column, recipe.blocks))
        named = {name: RecordedScene(name, part.file, group, part) for name, group, part in made}
        return [named[name] for name in sorted(named)]
    parameters: dict[Path, Mapping[str, Any]] = {}
    for run in paths:
        parameters |= parameters_of(run)
    found: dict[str, RecordedScene] = {}
    for path in run_folders_of(paths):
        folder = RunFolder.open(path)
        folder.verify()
        manifest = folder.manifest
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
        before = seals.unsealed(file, must="digests")
        if {key: before.get(key) for key in index} != dict(index):
            raise SetupError(f"{out} holds a data set of other runs or another recipe; name another folder with --out")
        if "digests" in before:
            made(out, whole=False)
    elif out.is_dir() and any(out.iterdir()):
        raise SetupError(f"{out} is not empty and holds no data set; name another folder with --out")
    for split in SPLITS:
        (out / split).mkdir(parents=True, exist_ok=True)
    write_json(file, seals.sealed(index))


Job = tuple[RecordedScene, Recipe, str]


def _mapped(jobs: list[Job], workers: int, executor: str) -> Iterable[None]:
    kind, _, address = executor.partition(":")
    if kind not in ("local", "ray"):
        raise SetupError(f"there is no executor '{executor}'; write local, ray, or ray:ADDRESS")
    if kind == "ray" and jobs:
        return _on_ray(jobs, address or "auto", workers)
    if workers <= 1 or len(jobs) <= 1:
        return map(_write, jobs)
    return _in_processes(jobs, min(workers, len(jobs)))


def _in_processes(jobs: list[Job], workers: int) -> Iterator[None]:
    with pool(workers) as processes:
        yield from processes.map(_write, jobs)


def _on_ray(jobs: list[Job], address: str, workers: int) -> Iterable[None]:
    """A scene per core of a Ray cluster; what is needed of a run travels there, and the file of its rows back."""
    from cosim.results.cluster import RayExecutor

    cluster = RayExecutor(address, workers)
    for (_, _, file), content in cluster.each(_rows_there, jobs, _packed):
        part = Path(f"{file}.part")
        part.write_bytes(content)
        part.replace(file)
        yield None


def _packed(job: Job) -> tuple[RecordedScene, Recipe, dict[str, bytes], str]:
    """What a node of the cluster needs for the rows of a scene: files by their path in the run's folder."""
    scene, recipe, _ = job
    folder = Path(scene.folder)
    if scene.part is not None:
        return scene, recipe, {folder.name: folder.read_bytes()}, version()
    names = (*recipe.names, *(column.partition(".")[0] for column in recipe.truth()))
    files = [file for name in dict.fromkeys(names) for file in files_of(scene, name)]
    return scene, recipe, {str(file.relative_to(folder)): file.read_bytes() for file in files}, version()


def _rows_there(scene: RecordedScene, recipe: Recipe, content: Mapping[str, bytes], wanted: str) -> bytes:
    """On a node of the cluster: the file of a scene's rows."""
    if version() != wanted:
        raise SetupError(f"this node has continuum-cosim {version()}, the data set was begun with {wanted}")
    with tempfile.TemporaryDirectory(prefix="cosim-ray-") as scratch:
        for name, data in content.items():
            file = Path(scratch) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        where = scratch if scene.part is None else str(file)
        part = None if scene.part is None else replace(scene.part, file=where)
        found = io.BytesIO()
        pq.write_table(table(replace(scene, folder=where, part=part), recipe), found, **_FORMAT)
        return found.getvalue()


def _write(job: Job) -> None:
    """Write the file of one scene whole or not at all."""
    scene, recipe, file = job
    part = f"{file}.part"
    pq.write_table(table(scene, recipe), part, **_FORMAT)
    os.replace(part, file)  # noqa: PTH105
