"""Publish runs as a research object, and repeat what was published.

A crate is a folder (or a zip of it) after the profile Workflow Run RO-Crate 0.5 (w3id.org/ro/wfrun/workflow/0.5):

- `ro-crate-metadata.json`: what it is, in terms that archives and search engines read,
- `workflow/`: the scenario, and every file that it names, laid out as they were,
- `runs/`: the run folders, with digests of every file; of a sweep also `sweep.json`, `results.jsonl`, its page,
- `environment.lock.txt`: the versions of everything that was installed, as pip reads it,
- `digests.json`: size and SHA-256 of all other files,
- `README.md`: the one command that makes the runs again and compares them bit by bit.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import Distribution, PackageNotFoundError, distribution, version
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from cosim.contract import seals
from cosim.contract.errors import ScenarioError, SetupError, require
from cosim.contract.seals import DamagedError
from cosim.contract.trust import path_in
from cosim.results.compare import exact, run_folders_of
from cosim.results.executor import Executor, RunTask
from cosim.results.folder import ORIGIN, RunFolder, write_json
from cosim.results.load import parameters_of
from cosim.results.resume import scenario_in
from cosim.scenario.gather import FILE
from cosim.scenario.load import load
from cosim.scenario.named import files_named, texts
from cosim.scenario.parameters import filled
from cosim.scenario.plan.compile import compile_plan
from cosim.scenario.reading import read_text
from cosim.scenario.tree import plain

METADATA = "ro-crate-metadata.json"
LOCK = "environment.lock.txt"
DIGESTS = "digests.json"
_MOST_FILES = 200_000
_INFLATED, _SMALL = 100, 64 << 20  # what is unpacked may be so many times the zip, and so many B more
_RESOLVED = "scenario.resolved.yaml"
_SPECIFICATION = "https://w3id.org/ro/crate/1.1"
_PROFILES = (
    ("https://w3id.org/ro/wfrun/process/0.5", "Process Run Crate"),
    ("https://w3id.org/ro/wfrun/workflow/0.5", "Workflow Run Crate"),
    ("https://w3id.org/workflowhub/workflow-ro-crate/1.0", "Workflow RO-Crate"),
)
_NOT_DATA = ("calibrate", "title", "description", "sweep")  # blocks whose texts name nothing that a run reads
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


@dataclass(frozen=True)
class Repeated:
    """A run that was made again: what differs from the published one, [] when nothing does."""

    run: str
    differences: list[str]


def publish(
    folder: Path,
    out: Path,
    *,
    title: str = "",
    author: str = "",
    license_: str = "",
    archive: bool = False,
) -> Path:
    """Make the crate `out` of a run or a sweep; its path, that of the zip with `archive`.

    Raises `SetupError` for runs that are not complete, for files that are gone, have changed or lie at absolute
    paths, and where the package rocrate is not installed.
    """
    require("publish", "rocrate")
    from rocrate.rocrate import ROCrate

    folder = folder.resolve()
    runs = [RunFolder.open(path) for path in run_folders_of([folder])]
    for run in runs:
        if run.manifest["status"] != "complete":
            raise SetupError(f"{run.path} is {run.manifest['status']}: only whole runs are published")
        run.verify()
    packed = Path(f"{out}.zip") if archive and out.suffix != ".zip" else out
    out = packed.with_suffix("") if archive else out
    for there in {out, packed}:
        if there.is_file() or (there.exists() and any(there.iterdir())):
            raise SetupError(f"{there} is there already; give another folder with --out, or remove it")
    root, files = _inputs(runs)
    base = Path(os.path.commonpath([root, *(file.parent for file in files)]))
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        _copy(file, out / "workflow" / file.relative_to(base))
    workflow = Path("workflow") / root.relative_to(base) / FILE
    (out / workflow).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(runs[0].path / _RESOLVED, out / workflow)
    try:
        _complete(out, workflow, runs[0])
    except SetupError:
        shutil.rmtree(out)
        raise
    for left in (out / "workflow").rglob("__pycache__"):  # Python keeps what it compiled of the scenario's own modules
        shutil.rmtree(left)
    names = {run.path: _place(run.path, folder) for run in runs}
    for run in runs:
        _copy_run(run.path, out / names[run.path])
    whole = _copy_sweep(folder, out, workflow) if (folder / "sweep.json").is_file() else []
    (out / LOCK).write_text("".join(f"{line}\n" for line in lock()), encoding="utf-8")
    crate = ROCrate(version="1.1")
    manifest = runs[0].manifest
    name = title or str(manifest["title"] or manifest["scenario"])
    (out / "README.md").write_text(_readme(name, len(runs)), encoding="utf-8")
    _describe(crate, name, author, license_, workflow, [f"workflow/{f.relative_to(base)}" for f in files], whole)
    _actions(crate, runs, [str(names[run.path]) for run in runs], out)
    crate.metadata.write(out)
    write_json(out / DIGESTS, seals.sealed({"files": seals.digests(out, _files(out))}))
    if not archive:
        return out
    seals.seal_zip(Path(shutil.make_archive(str(out), "zip", out)))
    shutil.rmtree(out)
    return packed


def rerun(
    crate: Path, executor: Executor, base: Path, progress: Callable[[str], None] | None = None
) -> Iterator[Repeated]:
    """Make the runs of a crate again under `base`, each compared bit by bit with what was published.

    Raises `SetupError` when `crate` is none, `DamagedError` when its files are not as they were.
    """
    with opened(crate) as folder:
        workflow = _workflow(folder)
        published = sorted(path.parent for path in folder.glob("runs/**/manifest.json"))
        if not published:
            raise SetupError(f"{crate} holds no run")
        for path in published:
            RunFolder.open(path).verify()
        if (folder / workflow).read_bytes() not in ((path / _RESOLVED).read_bytes() for path in published):
            raise DamagedError(f"{crate}: {workflow} is not the scenario of any of its runs; it has changed since then")
        copy = base / "workflow"
        if copy.exists():
            raise SetupError(f"{copy} is there already; give another folder with --out")
        shutil.copytree(folder / "workflow", copy)
        root = copy / workflow.relative_to("workflow").parent
        for path in published:
            name = str(path.relative_to(folder))
            if progress:
                progress(name)
            manifest = RunFolder.open(path).manifest
            with scenario_in(root, (path / _RESOLVED).read_text(encoding="utf-8")) as file:
                plan = compile_plan(load(file))
                place = base / "again" / plan.hash[:12]
                (place / "runs").mkdir(parents=True, exist_ok=True)
                (place / "logs").mkdir(exist_ok=True)
                task = RunTask(plan.hash, str(file.resolve()), (), {}, str(place.resolve()), manifest["driver"])
                (result,) = executor.run([task])
            if result.status != "complete":
                yield Repeated(name, [f"the run did not complete: {result.error}"])
            else:
                yield Repeated(name, exact(path, place / result.run))


@contextmanager
def opened(crate: Path) -> Iterator[Path]:
    """The folder of a crate, unpacked for the time being if it is a zip. Raises `SetupError`, `DamagedError`."""
    if not crate.exists():
        raise SetupError(f"{crate} is no crate: there is no such file or folder")
    with tempfile.TemporaryDirectory(prefix="cosim-crate-") as unpacked:
        folder = crate
        if zipfile.is_zipfile(crate):
            folder = Path(unpacked)
            with _named():
                seals.check_zip(crate)
            try:
                with zipfile.ZipFile(crate) as packed:
                    _limited(crate, packed.infolist())
                    packed.extractall(folder)  # its members cannot leave the folder: zipfile drops '..' and roots
            except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
                raise DamagedError(f"{crate} cannot be unpacked: {error}; fetch it anew") from error
        if not (folder / METADATA).is_file():
            hint = "name the folder or the zip that `cosim publish` wrote"
            raise SetupError(f"{crate} is no crate: it has no {METADATA}; {hint}")
        with _named():
            _check(crate, folder)
        yield folder


@contextmanager
def _named() -> Iterator[None]:
    """Say what to do about a crate that is damaged."""
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}; fetch the crate anew") from error


def _check(crate: Path, folder: Path) -> None:
    """Raise `DamagedError` where files of a crate are not what was written; one of earlier versions has no digests."""
    try:
        kept = seals.unsealed(folder / DIGESTS, must="files")["files"]
    except FileNotFoundError:
        if DIGESTS.encode() not in (folder / METADATA).read_bytes():
            return
        raise DamagedError(f"{crate} is damaged: {DIGESTS} is missing") from None
    except KeyError:
        raise DamagedError(f"{crate} is damaged: {DIGESTS} is not what was written") from None
    wrong = seals.differences(folder, kept, _files(folder), more="does not belong to the package")
    seals.refuse(crate, wrong)


def _files(folder: Path) -> list[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != DIGESTS)
    return sorted(str(path.relative_to(folder)) for path in found)


def _limited(crate: Path, members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise `SetupError` for a zip whose content is out of proportion to what was fetched."""
    size = sum(member.file_size for member in members)
    if len(members) > _MOST_FILES or size > _INFLATED * crate.stat().st_size + _SMALL:
        raise SetupError(f"{crate} would become {len(members):,} files of {size / 1e9:.3g} GB; unpack it by hand")


def lock() -> list[str]:
    """What is installed of this package, what it needs, and what runs have used, as `name==version`, by name."""
    wanted, found = ["continuum-cosim", *_used()], dict[str, str]()
    while wanted:
        name = wanted.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found:
            continue
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        found[key] = one.version
        wanted += _needs(one)
    return [f"{name}=={found[name]}" for name in sorted(found)]


def differences(crate: Path) -> list[str]:
    """How what is installed here differs from the lock of a crate, in words."""
    with opened(crate) as folder:
        try:
            lines = (folder / LOCK).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            text = f"{crate}: {LOCK} says which versions there were, and cannot be read; fetch the crate anew"
            raise DamagedError(text) from error
    then = dict(line.split("==", 1) for line in lines if "==" in line)
    found = []
    for name, was in then.items():
        try:
            now = version(name)
        except PackageNotFoundError:
            now = "not installed"
        if now != was:
            found.append(f"{name} {was}, here {now}")
    return found


def _used() -> list[str]:
    """Distributions that a run may load without this package requiring them outright."""
    from cosim.results.provenance import versions

    return [name for name in versions() if name != "python"]


def _needs(one: Distribution) -> Iterator[str]:
    for line in one.requires or ():
        match = _NAME.match(line)
        if match and "extra ==" not in line:
            yield match[0]


def _inputs(runs: Sequence[RunFolder]) -> tuple[Path, list[Path]]:
    """The folder of the scenario, and every file that the runs' scenarios name."""
    root: Path | None = None
    found: dict[Path, None] = {}
    for run in runs:
        origin = Path(run.origin["root"])
        root = root or origin
        tree = read_text((run.path / _RESOLVED).read_text(encoding="utf-8"), None, [])
        whole = plain(filled(tree, [])) if tree else {}
        for text in texts({key: value for key, value in whole.items() if key not in _NOT_DATA}):
            found.update(dict.fromkeys(_files_of(origin, text)))
    assert root is not None
    return root, list(found)


def _files_of(root: Path, text: str) -> list[Path]:
    found = files_named(root, text)
    if found and Path(path_in(text)).is_absolute():
        raise SetupError(f"the scenario names '{text}' by an absolute path, which is elsewhere on other machines")
    return found


def _complete(out: Path, workflow: Path, run: RunFolder) -> None:
    """The copy of the scenario makes the plan that the run had. Raises `SetupError`."""
    try:
        plan = compile_plan(load(out / workflow))
    except ScenarioError as error:
        raise SetupError(f"the scenario of {run.path} cannot be made again from its files: {error}") from error
    if plan.hash != run.manifest["plan_hash"]:
        raise SetupError(
            f"the scenario of {run.path} makes another plan now: its files or this version differ from then; "
            "run it again, and publish that"
        )


def _place(run: Path, folder: Path) -> Path:
    """Where a run's folder is in the crate."""
    return Path("runs") / run.name if run == folder else Path(os.path.relpath(run, folder))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _copy_run(source: Path, target: Path) -> None:
    """Copy a run's folder without its logs and without the record of its place on this machine."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("logs", ORIGIN, ".*"))


def _copy_sweep(folder: Path, out: Path, workflow: Path) -> list[str]:
    sweep = {**seals.unsealed(folder / "sweep.json", must="last"), "scenario": str(workflow)}
    write_json(out / "sweep.json", seals.sealed(sweep))
    copied = ["sweep.json"]
    for name in ("results.jsonl", "size.json", "report.html"):
        if (folder / name).is_file():
            _copy(folder / name, out / name)
            copied.append(name)
    if "size.json" in copied:
        write_json(out / "size.json", seals.sealed({**seals.unsealed(out / "size.json"), "folder": "."}))
    return copied


def _describe(
    crate: Any,  # noqa: ANN401 - rocrate has no types
    name: str,
    author: str,
    license_: str,
    workflow: Path,
    inputs: Sequence[str],
    whole: Sequence[str],
) -> None:
    from rocrate.model.contextentity import ContextEntity

    root = crate.root_dataset
    root["name"] = name
    root["description"] = f"A simulation of the drone-edge-cloud continuum: {name}. It can be repeated bit by bit."
    root["license"] = license_ or "https://spdx.org/licenses/CC-BY-4.0"
    profiles = [
        crate.add(ContextEntity(crate, address, {"@type": "CreativeWork", "name": text, "version": address[-3:]}))
        for address, text in _PROFILES
    ]
    root["conformsTo"] = profiles
    if author:
        root["author"] = crate.add(ContextEntity(crate, "#author", {"@type": "Person", "name": author}))
    language = {
        "@type": "ComputerLanguage", "name": "continuum-cosim scenario", "alternateName": "cosim/v1",
        "url": "urn:continuum-cosim:scenario:v1", "version": version("continuum-cosim"),
    }  # fmt: skip
    engine = {
        "@type": "SoftwareApplication", "name": "continuum-cosim", "softwareVersion": version("continuum-cosim"),
    }  # fmt: skip
    made = crate.add(ContextEntity(crate, "urn:continuum-cosim:engine", engine))
    scenario = crate.add_file(str(workflow), dest_path=str(workflow), properties={
        "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow"], "name": name, "encodingFormat": "text/yaml",
        "conformsTo": {"@id": "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"},
    })  # fmt: skip
    profile = {
        "@type": "CreativeWork", "name": "ComputationalWorkflow profile", "version": "1.0-RELEASE",
    }  # fmt: skip
    crate.add(ContextEntity(crate, "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE", profile))
    scenario["programmingLanguage"] = crate.add(ContextEntity(crate, "#language", language))
    scenario["softwareRequirements"] = made
    scenario["version"] = "cosim/v1"
    root["mainEntity"] = scenario
    crate.metadata["conformsTo"] = [{"@id": _SPECIFICATION}, profiles[-1]]
    crate.metadata.extra_terms["sha256"] = "https://w3id.org/ro/terms/workflow-run#sha256"  # 1.1 has no word for it
    for file in dict.fromkeys((*inputs, LOCK, DIGESTS, "README.md", *whole)):
        added = crate.add_file(file, dest_path=file, properties={"name": Path(file).name, **_format(file)})
        if file == "README.md":
            added["about"] = root


def _actions(
    crate: Any,  # noqa: ANN401 - rocrate has no types
    runs: Sequence[RunFolder],
    places: Sequence[str],
    out: Path,
) -> None:
    from rocrate.model.contextentity import ContextEntity

    scenario = crate.root_dataset["mainEntity"]
    inputs = [e for e in crate.data_entities if str(e.id).startswith("workflow/") and e.id != scenario.id]
    parameters = {str(path.relative_to(out.resolve())): one for path, one in parameters_of(out).items()}
    actions = []
    for number, (run, place) in enumerate(zip(runs, places, strict=True), 1):
        manifest = run.manifest
        folder = crate.add_dataset(place, dest_path=place, properties={"name": f"results of run {number}"})
        files = []
        for file in sorted(path for path in (out / place).rglob("*") if path.is_file()):
            name = str(file.relative_to(out))
            kept = manifest["files"].get(str(file.relative_to(out / place)), {})
            digest = {"sha256": kept["sha256"]} if "sha256" in kept else {}
            about = {"name": file.name, "contentSize": str(file.stat().st_size), **_format(name), **digest}
            files.append(crate.add_file(name, dest_path=name, properties=about))
        folder["hasPart"] = files
        settings = {**parameters.get(place, {}), "run.seed": manifest["seed"]}
        values = [
            crate.add(
                ContextEntity(crate, f"#run-{number}-{key}", {"@type": "PropertyValue", "name": key, "value": str(v)})
            )
            for key, v in settings.items()
        ]
        action = {
            "@type": "CreateAction", "name": f"{manifest['scenario']}, run {number}",
            "startTime": _instant(manifest["started"]), "endTime": _instant(manifest["ended"]), "actionStatus": "http://schema.org/CompletedActionStatus",
            "description": f"seed {manifest['seed']}, {manifest['duration']:g} s simulated",
        }  # fmt: skip
        entity = crate.add(ContextEntity(crate, f"#run-{number}", action))
        entity["instrument"] = scenario
        entity["object"] = _one([*inputs, *values])
        entity["result"] = [folder, *files]
        if crate.root_dataset.get("author") is not None:
            entity["agent"] = crate.root_dataset["author"]
        actions.append(entity)
    crate.root_dataset["mentions"] = _one(actions)


def _one(several: list[Any]) -> Any:  # noqa: ANN401 - rocrate has no types
    """A single value stands for itself, as RO-Crate 1.1 recommends."""
    return several[0] if len(several) == 1 else several


def _instant(text: str) -> str:
    """A time to the second, as validators read it."""
    return datetime.fromisoformat(text).strftime("%Y-%m-%dT%H:%M:%S+00:00")


def _format(file: str) -> dict[str, str]:
    known = {".json": "application/json", ".yaml": "text/yaml", ".csv": "text/csv", ".html": "text/html",
             ".md": "text/markdown", ".txt": "text/plain", ".parquet": "application/vnd.apache.parquet",
             ".xml": "application/xml", ".py": "text/x-python", ".jsonl": "application/jsonl"}  # fmt: skip
    kind = known.get(Path(file).suffix)
    return {"encodingFormat": kind} if kind else {}


def _workflow(folder: Path) -> Path:
    """The scenario file of a crate, from its metadata. Raises `SetupError`."""
    try:
        graph = json.loads((folder / METADATA).read_text(encoding="utf-8"))["@graph"]
        root = next(one for one in graph if one["@id"] == "./")
        path = Path(unquote(root["mainEntity"]["@id"]))  # identifiers are addresses: a space is %20
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise SetupError(f"{METADATA} of the crate names no scenario; fetch the crate anew") from error
    if path.is_absolute() or ".." in path.parts or path.parts[:1] != ("workflow",) or not (folder / path).is_file():
        text = f"{METADATA} of the crate names '{path}' as the scenario, which is not in its folder 'workflow'"
        raise SetupError(f"{text}; fetch the crate anew")
    return path


def _readme(name: str, runs: int) -> str:
    return (
        f"# {name}\n\n{runs} simulation run{'s' if runs > 1 else ''} with the scenario, its data and the results, as a"
        " Workflow Run RO-Crate (`ro-crate-metadata.json`).\n\nTo make everything again and compare it bit by bit,"
        f" install continuum-cosim in the version that {LOCK} names, from its wheel or a checkout. Then, in"
        f" this folder:\n\n    pip install -r {LOCK}\n    cosim rerun .\n"
    )
