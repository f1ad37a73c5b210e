"""A run is a folder: its layout, its manifest, and how the next one gets its name."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from cosim.bus.mark import marked
from cosim.contract import locks, seals
from cosim.contract.errors import RunError, SetupError
from cosim.contract.seals import DamagedError
from cosim.contract.trust import distrusting
from cosim.results.provenance import git_state, host_facts, versions
from cosim.scenario.plan.plan import Plan

FORMAT = 1
Status = Literal["running", "complete", "partial"]

MOUNT = Path("/results")  # of the orchestrator's container, whose variable COSIM_RUNS has its name outside

# In a run's folder, not part of the results: where its scenario lies, whose containers it ran in, and its process.
ORIGIN = ".origin"

_READABLE = 1000  # nodes of a plan that is written line by line for people
_NUMBER = (int, float)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "scenario": (str,), "plan_hash": (str,), "status": (str,), "error": (dict,), "duration": _NUMBER,
    "reached": _NUMBER, "step": _NUMBER, "ticks_done": _NUMBER, "pacing": _NUMBER, "lag": (dict,), "adapters": (list,),
    "signals": (dict,), "warnings": (list,), "faults": (list,), "files": (dict,), "versions": (dict,), "host": (dict,),
}  # fmt: skip
_RESERVE = 256 * 1024  # B in reserve, so that a run that filled the disk can still report it


class RunFolder:
    """One run's folder. `manifest` mirrors `manifest.json`; `update` changes both.

    Layout (format 1): `manifest.json`, `plan.json`, `scenario.resolved.yaml`,
    `frames/<signal>/<adapter>.parquet`, `tasks.parquet`, `events.parquet`, `nodes.parquet`,
    `metrics.json`, `report.html`, `logs/`.
    """

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._lock: int | None = None

    @staticmethod
    def create(
        base: Path,
        plan: Plan,
        *,
        driver: Literal["mosaik", "loop"] = "loop",
        compiling: float = 0.0,
        at: Path | None = None,
        resumed: float | None = None,
        now: datetime | None = None,
    ) -> RunFolder:
        """Create a folder `base/<scenario>/<YYYYmmdd-HHMMSS>-<hash8>[-n]` (UTC) with manifest and plan.

        Never takes an existing folder, whatever other processes create at the same time. `compiling`
        is the time (s) spent compiling code before this run. `at` is the folder of a killed run
        that is repeated, `resumed` the time (s) that it had reached. `now` is for tests.
        """
        started = now or datetime.now(UTC)
        refuse_links(base, plan.name)
        path = at or _claim(base / plan.name, f"{started:%Y%m%d-%H%M%S}-{plan.hash[:8]}")
        for name in ("frames", "logs"):
            (path / name).mkdir(exist_ok=at is not None)
        folder = RunFolder(path, _first_manifest(plan, driver, compiling, started) | {"resumed": resumed})
        folder.hold()
        from cosim.testbed.emulation.netns import run_of

        project = os.environ.get("COSIM_PROJECT", "")
        origin = {"root": str(plan.root.resolve()), "project": project, "run": run_of(os.getpid())}
        (path / ORIGIN).write_text(json.dumps(origin), encoding="utf-8")
        (path / "scenario.resolved.yaml").write_text(plan.resolved, encoding="utf-8")
        write_json(path / "plan.json", plan.compact, indent=1 if len(plan.scene.nodes) <= _READABLE else None)
        (path / ".reserve").write_bytes(b"\0" * _RESERVE)
        folder.update(files=digests(path))
        return folder

    @staticmethod
    def open(path: str | Path) -> RunFolder:
        """The folder at `path`. Raises `SetupError` with the reason when it is not a run folder.

        Raises `DamagedError` when its manifest is not as it was written.
        """
        path = Path(path)
        try:
            if (path / "manifest.json").exists() and not (path / "manifest.json").is_file():
                raise DamagedError(f"{path / 'manifest.json'} is no ordinary file")
            manifest = seals.unsealed(path / "manifest.json", must="files")
        except (FileNotFoundError, NotADirectoryError):
            raise SetupError(f"{path} is not a run folder: {_why_not(path)}") from None
        if manifest.get("format") != FORMAT:
            raise SetupError(
                f"{path} has run format {manifest.get('format')!r}; this version reads format {FORMAT}. "
                "Read it with the version that wrote it (manifest.json, 'versions')"
            )
        wrong = [key for key, kinds in _KINDS.items() if not isinstance(manifest.get(key), (*kinds, type(None)))]
        if wrong:
            raise DamagedError(f"{path / 'manifest.json'} is damaged: {', '.join(wrong)} cannot be what it says")
        return RunFolder(path, manifest)

    @property
    def origin(self) -> dict[str, str]:
        """Folder of its scenario (`root`), compose `project`, and `run` of its process (`run_of`).

        Raises `SetupError`.
        """
        try:
            found = json.loads((self.path / ORIGIN).read_text(encoding="utf-8"))
            return {"root": str(found["root"]), "project": found.get("project", ""), "run": found.get("run", "")}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise SetupError(f"{self.path} does not say where its scenario lies: {error}") from error

    def verify(self, *names: str) -> None:
        """Compare every file of the results with its digest in the manifest, or `names` alone.

        Raises `DamagedError` that names the files which are missing, changed, or of another run. Runs
        of versions that kept no digests are taken as they are.
        """
        kept = self.manifest.get("files")
        if kept is None:
            return
        present = _results(self.path)
        if names:
            kept = {name: kept[name] for name in names if name in kept}
            present = [name for name in present if name in names]
        elif "metrics.json" not in kept:
            # it may be there already of a run that was killed while it converted its rows or measured
            present = [name for name in present if name != "metrics.json"]
        more = "does not belong to the run" if self.manifest.get("ended") else ""
        seals.refuse(self.path, seals.differences(self.path, kept, present, more=more))

    def update(self, **changes: object) -> None:
        """Set keys of the manifest and replace `manifest.json` in one step.

        A reader sees the old or the new one, never a half, even after a power cut.
        """
        unknown = set(changes) - set(self.manifest)
        if unknown:
            raise KeyError(f"the manifest has no key {', '.join(sorted(unknown))}; it has {', '.join(self.manifest)}")
        self.manifest.update(changes)
        self.manifest[seals.DIGEST] = seals.digest_of(self.manifest)
        write_json(self.path / "manifest.json", self.manifest)

    def release_reserve(self) -> None:
        """Give back the bytes that were held for the last writes of a run on a full disk."""
        (self.path / ".reserve").unlink(missing_ok=True)

    def hold(self) -> None:
        """Mark the folder as being written by this process, until `let_go` or its death."""
        handle = os.open(self.path / locks.RUN, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise RunError(f"{self.path} is being written by another process; wait until it has ended") from error
        self._lock = handle

    def let_go(self) -> None:
        """Undo `hold`; may be called twice."""
        if self._lock is not None:
            (self.path / locks.RUN).unlink(missing_ok=True)
            with suppress(OSError):  # code of others has closed it
                os.close(self._lock)
            self._lock = None

    @property
    def alive(self) -> bool:
        """Whether a process is still writing here."""
        return self._lock is not None or bool(locks.held(self.path / locks.RUN))

    @property
    def status(self) -> Status:
        """The run's status; `partial` if the manifest has `running` but the run's process is gone."""
        written: Status = self.manifest["status"]
        return "partial" if written == "running" and not self.alive else written

    @property
    def fault(self) -> dict[str, Any] | None:
        """The error that ended the run early; of one that was killed, the call that its process ended in."""
        written: dict[str, Any] | None = self.manifest["error"]
        if written is not None or self.status == "complete" or self.alive:
            return written
        adapter, phase = marked(self.path / "logs") or (None, None)
        where = "" if adapter is None else f" while adapter '{adapter}' was in {phase}"
        message = f"the run's process ended{where}, without closing the run"
        return {"type": "Killed", "message": message, "adapter": adapter, "phase": phase, "traceback": ""}


def run_folders(base: Path, scenario: str | None = None) -> list[Path]:
    """All run folders below `base`, of one scenario or of all, oldest first."""
    pattern = f"{scenario}/*/manifest.json" if scenario else "*/*/manifest.json"
    return sorted((file.parent for file in base.glob(pattern)), key=lambda path: (path.name[:15], _started(path)))


def latest(base: Path, scenario: str | None = None) -> RunFolder:
    """The youngest run folder. Raises `SetupError` when there is none."""
    found = run_folders(base, scenario)
    if not found:
        what = f"run of '{scenario}'" if scenario else "run"
        raise SetupError(f"there is no {what} in {base}; make one with: cosim run <scenario>")
    return RunFolder.open(found[-1])


def digests(folder: Path, *names: str) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of the files `names` of a run's results, by default of all, by their path in the folder."""
    return seals.digests(folder, names or _results(folder))


def _results(folder: Path) -> list[str]:
    files = [*folder.glob("frames/*/*.parquet"), *folder.glob("*.parquet")]
    files += [folder / name for name in ("plan.json", "scenario.resolved.yaml", "metrics.json")]
    return sorted(str(file.relative_to(folder)) for file in files if file.is_file())


def outside(path: Path) -> Path:
    """`path` as the person at the terminal knows it: results of a container lie in a folder of the host."""
    name = os.environ.get("COSIM_RUNS", "")
    return Path(name) / path.relative_to(MOUNT) if name and path.is_relative_to(MOUNT) else path


def write_json(path: Path, data: object, indent: int | None = 1) -> None:
    """Replace `path` by `data` as strict JSON in one step; infinities and NaN become null."""
    text = seals.json_text(data, indent)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(f"cannot write {outside(path)}: {error.strerror or error}") from error
    _sync_folder(path.parent)


def refuse_links(base: Path, scenario: str) -> None:
    """Raise `SetupError` for links among results in `base`, which an untrusted scenario's folder may bring."""
    own = base / scenario
    if distrusting() and any(path.is_symlink() for path in (base, own, *own.rglob("*"))):
        raise SetupError(f"{base} holds links, by which results would be written elsewhere; give another --out")


def _claim(parent: Path, name: str) -> Path:
    """Make `parent/name`, or the first free `parent/name-n`, and no folder that existed."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for n in range(1, 100_000):
            path = parent / (name if n == 1 else f"{name}-{n}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise SetupError(f"cannot make a run folder in {parent}: {error.strerror or error}") from error
    raise SetupError(f"there are too many run folders named {name} in {parent}; remove some")


def _first_manifest(plan: Plan, driver: str, compiling: float, started: datetime) -> dict[str, Any]:
    """A manifest with all its keys, as it stands before tick 0."""
    return {
        "format": FORMAT,
        "scenario": plan.name,
        "title": plan.title,
        "description": plan.description,
        "plan_hash": plan.hash,
        "status": "running",
        "error": None,
        "seed": plan.seed,
        "duration": plan.duration,
        "reached": 0.0,
        "step": plan.step,
        "ticks_done": 0,
        "pacing": plan.pacing,
        "driver": driver,
        "untrusted": distrusting(),  # a run that is resumed stays so
        "interactive": False,  # whether events were injected, so that the plan alone does not repeat the run
        "started": started.isoformat(),
        "ended": None,
        "wall_seconds": 0.0,
        "starting_seconds": 0.0,  # of the wall clock's, until all adapters had started
        "cpu_seconds": 0.0,
        "compiling_seconds": compiling,  # before the run's clock started; 0: the machine code was there
        "versions": versions(),
        "git": git_state(plan.root),
        "host": host_facts(),
        "lag": {"policy": plan.lag.policy, "max": 0.0, "mean": 0.0, "late_ticks": 0, "behind": 0.0},
        "adapters": [
            {
                "name": adapter.name, "use": adapter.use, "origin": adapter.origin,
                "period": adapter.period * plan.step, "isolated": adapter.isolated, "steps": 0,
                "wall_seconds": 0.0, "cpu_seconds": None, "summary": {},
            }
            for adapter in plan.adapters
        ],
        "signals": {},
        "warnings": list(plan.warnings),
        "taken": list(plan.taken),
        "faults": [],
        "slow": [],
        "resumed": None,  # s that the run had reached when it was killed and later made again
        "files": {},  # size and SHA-256 of every file of the results
        "digest": "",  # of this manifest
    }  # fmt: skip


def _sync_folder(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _started(path: Path) -> str:
    try:
        return str(json.loads((path / "manifest.json").read_text(encoding="utf-8"))["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _why_not(path: Path) -> str:
    try:
        if not path.exists():
            return "it does not exist"
    except OSError as error:  # too long a name
        return f"{error.strerror}"
    if not path.is_dir():
        return "it is a file; give the folder that holds manifest.json"
    inside = list(path.glob("*/manifest.json")) or list(path.glob("*/*/manifest.json"))
    if inside:
        return f"it holds {len(inside)} run folder(s), for example {inside[0].parent}; give one of them"
    return "it has no manifest.json"
