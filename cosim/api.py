"""Python first: scenarios out of dictionaries, and the verbs of the command line as functions.

    scenario = cosim.Scenario("field")
    scenario.set("run", duration="1 min", step="1 s")
    scenario.adapter("continuum", scheduler="nearest")
    ...
    run = cosim.run(scenario)
    runs = cosim.sweep(scenario, seeds="1..10")
    cosim.compare(runs)

It is the model of scenario files: the same keys, the same text with units, the same errors, which
name the path of what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ruamel.yaml import YAML

from cosim.bus.runtime import Observer
from cosim.contract.errors import RunError, ScenarioError, SetupError, require
from cosim.report.folder import Folder
from cosim.report.groups import group
from cosim.report.text import label
from cosim.results import session
from cosim.results import size as sizes
from cosim.results.compare import Effect, adjust, effects, run_folders_of
from cosim.results.executor import make_executor
from cosim.results.load import Run, Runs, load_all
from cosim.results.replications import MAIN, group_warnings
from cosim.results.resume import scenario_in
from cosim.results.sweep import run_sweep
from cosim.scenario.load import load
from cosim.scenario.plan.variants import runs_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from cosim.twin.calibration import Calibration
    from cosim.twin.search.meter import Progress

Driver = Literal["mosaik", "loop"]


class Scenario:
    """A scenario that is written in Python.

    `of` is its name, or everything that a scenario file would hold as a mapping. Relative paths in it
    start at `folder`. The methods change it and return it.
    """

    def __init__(self, of: str | Mapping[str, Any], *, folder: str | Path = ".") -> None:
        self.folder = Path(folder)
        blocks = {"name": of} if isinstance(of, str) else dict(of)
        self.data: dict[str, Any] = {"apiVersion": "cosim/v1", "kind": "Scenario", **_copied(blocks)}

    def set(self, block: str, /, **keys: object) -> Scenario:
        """Set keys of a block that is named by its path, as `set("run", duration="1 min")`."""
        target = self.data
        for part in block.split("."):
            target = target.setdefault(part, {})
        target.update(_copied(keys))
        return self

    def adapter(self, name: str, /, **config: object) -> Scenario:
        """Add an adapter."""
        return self._add("adapters", name, config)

    def kind(self, name: str, /, **keys: object) -> Scenario:
        """Add a kind of nodes."""
        return self._add("kinds", name, keys)

    def node(self, name: str, /, **keys: object) -> Scenario:
        """Add a node, or several as `node("uav-[1..3]", kind="uav")`."""
        return self._add("nodes", name, keys)

    def workload(self, name: str, /, **keys: object) -> Scenario:
        """Add a workload; the key `from` is written `source`, as Python has a word of its own of that name."""
        if "source" in keys:
            keys = {"from": keys.pop("source"), **keys}
        return self._add("workloads", name, keys)

    def link(self, a: str, b: str, /, **keys: object) -> Scenario:
        """Add a link between nodes, groups or kinds `a` and `b`."""
        self.data.setdefault("links", []).append({"between": [a, b], **_copied(keys)})
        return self

    def event(self, at: str, do: str, /, **keys: object) -> Scenario:
        """Add an event; the key `for` is written `lasting`."""
        if "lasting" in keys:
            keys = {"for": keys.pop("lasting"), **keys}
        self.data.setdefault("events", []).append({"at": at, "do": do, **_copied(keys)})
        return self

    def _add(self, block: str, name: str, keys: Mapping[str, object]) -> Scenario:
        self.data.setdefault(block, {})[name] = _copied(keys)
        return self

    @property
    def yaml(self) -> str:
        """The scenario as the text of a scenario file."""
        writer, text = YAML(typ="safe", pure=True), StringIO()
        writer.default_flow_style = False
        writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # its stub knows None only
        writer.dump(self.data, text)
        return text.getvalue()

    def save(self, path: str | Path) -> Path:
        """Write the scenario file `path`, or `scenario.cosim.yaml` in the folder `path`."""
        file = Path(path)
        if file.suffix not in (".yaml", ".yml"):
            file.mkdir(parents=True, exist_ok=True)
            file = file / "scenario.cosim.yaml"
        file.write_text(self.yaml, encoding="utf-8")
        return file

    def check(self) -> None:
        """Raise `ScenarioError` with everything that is wrong, as `cosim check` does."""
        with _file_of(self) as file:
            load(file)

    def __repr__(self) -> str:
        return f"Scenario({self.data.get('name')!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.yaml)}</pre>"


def run(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    overrides: Sequence[str] = (),
    out: str | Path = "runs",
    driver: Driver = "loop",
    observers: Sequence[Observer] = (),
) -> session.Outcome:
    """Run a scenario: a file or folder, a mapping, or a `Scenario`.

    Raises `ScenarioError` or `SetupError` before anything is started. A run that fails later
    returns an outcome whose status is `partial` and whose error gives the reason.
    """
    with _file_of(scenario) as file:
        return session.run(file, overrides=overrides, out=out, driver=driver, observers=observers)


def sweep(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    seeds: str | Iterable[int] | None = None,
    overrides: Sequence[str] = (),
    out: str | Path = "runs",
    executor: str = "local",
    workers: int = 0,
    driver: Driver = "loop",
) -> Runs:
    """Every combination of the scenario's `sweep` block, each with all `seeds` ("1..10" or numbers).

    `executor` is "local", "ray" or "ray:ADDRESS". Runs that are there already are kept. Raises `ScenarioError`
    before the first run starts when one of them has a wrong value, and `RunError` that names the first run
    which did not complete; the others are kept, and the same call makes the rest.
    """
    with _file_of(scenario) as file:
        variants = runs_of(load(file, overrides), seeds)
        folder = run_sweep(
            file, variants, make_executor(executor, workers), base=Path(out), overrides=overrides, driver=driver
        )
    failed = [result for result in folder.results() if result.status != "complete"]
    if failed:
        raise RunError(f"{len(failed)} runs of {folder.path} did not complete; the first: {failed[0].error}")
    return load_all(folder.path)


def calibrate(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    *,
    overrides: Sequence[str] = (),
    runs: int | None = None,
    seconds: float | None = None,
    seed: int | None = None,
    method: str | None = None,
    out: str | Path = "calibrations",
    workers: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Calibration:
    """Fit the values that the scenario's block `calibrate` frees to the measurements.

    Uses at most `runs` simulated runs and `seconds` of wall clock, by default as set in the scenario, else 20,000 runs.
    The folder `out`/NAME gets the overlay, the draws and `calibration.json`. Raises `ScenarioError` for a scenario,
    data or a method that do not fit, and for a job of several problems, which is for `cosim calibrate`.
    """
    from cosim.twin.scenario.work import carry_out, works
    from cosim.twin.search.meter import Budget

    with _file_of(scenario) as file:
        loaded = load(file, overrides)
        folder = Path(out) / loaded.scenario.name
        tasks = works(loaded, overrides, folder=folder, workers=workers)
        if len(tasks) > 1:
            hint = "run 'cosim calibrate', which writes a folder for each"
            raise ScenarioError(loaded.problem("calibrate.job", f"has {len(tasks)} problems", hint))
        block = loaded.scenario.calibrate
        assert block is not None
        found, _ = carry_out(
            tasks[0], loaded, folder, budget=Budget(**block.budget.limits(runs, seconds)),
            seed=block.seed if seed is None else seed, method=method or block.method, progress=progress,
        )  # fmt: skip
    return found


def size(
    scenario: str | Path | Mapping[str, Any] | Scenario,
    vary: str,
    until: str | Sequence[str],
    *,
    confidence: float = 0.95,
    least: int = 5,
    most: int = 40,
    monotone: bool = False,
    price: str | None = None,
    overrides: Sequence[str] = (),
    out: str | Path = "runs",
    workers: int = 0,
    driver: Driver = "loop",
) -> sizes.Sizing:
    """The smallest value of `vary` ("N=1..20") for which `until` ("late_share < 1 %") holds, as `cosim size`."""
    with _file_of(scenario) as file:
        return sizes.size(
            file, vary, [until] if isinstance(until, str) else until, confidence=confidence, least=least, most=most,
            monotone=monotone, price=price, overrides=overrides, executor=make_executor("local", workers),
            base=Path(out), driver=driver,
        )  # fmt: skip


@dataclass(frozen=True, repr=False)
class Comparison:
    """How configurations differ: `effects` by the name of each, against the first one, over `tests` tests."""

    base: str
    effects: Mapping[str, tuple[Effect, ...]]
    tests: int
    warnings: Mapping[str, list[str]]  # by configuration: what has to be known of its figures; of those that have one

    @property
    def frame(self) -> pd.DataFrame:
        """One row per configuration and figure, as a pandas data frame."""
        require("tables", "pandas")
        import pandas as pd

        return pd.DataFrame([{"group": name, **asdict(e)} for name, found in self.effects.items() for e in found])

    def _tables(self) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
        """Caption and rows of what is shown of each configuration: the main figures."""
        heads = ("", "first", "other", "difference", "95 % interval", "test", "p (Holm)")
        for name, found in self.effects.items():
            yield f"{name} against {self.base}", [heads, *(_cells(one) for one in found if one.figure in MAIN)]

    def __repr__(self) -> str:
        parts = []
        for caption, rows in self._tables():
            widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
            lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
            parts += [caption, *lines, ""]
        warned = [f"warning: {name}: {text}" for name, found in self.warnings.items() for text in found]
        return "\n".join([*parts, *warned, f"{self.tests} comparisons"])

    def _repr_html_(self) -> str:
        parts = []
        for caption, rows in self._tables():
            body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            parts.append(f"<table><caption>{escape(caption)}</caption>{body}</table>")
        for name, texts in self.warnings.items():
            parts += [f"<p><b>{escape(f'{name}: {text}')}</b></p>" for text in texts]
        return "".join(parts) + f"<p>{self.tests} comparisons</p>"


def _cells(effect: Effect) -> tuple[str, ...]:
    spread = f"{effect.low:.3g} .. {effect.high:.3g}"
    a, b = ("≥ " if bound else "" for bound in effect.at_least)
    numbers = (f"{a}{effect.base:.4g}", f"{b}{effect.mean:.4g}", f"{effect.difference:.3g}")
    return (label(effect.figure), *numbers, spread, effect.test, f"{effect.adjusted:.2g}")


def compare(*runs: str | Path | Run | Runs | session.Outcome) -> Comparison:
    """How runs differ: folders of runs and sweeps, or what `run`, `sweep` and `load` gave.

    Runs that differ in nothing but the seed are replications of one configuration, and each further
    configuration is compared with the first: in pairs of equal seeds where there are two or more.
    """
    paths = run_folders_of(path for one in runs for path in _paths(one))
    if len(paths) < 2:
        raise SetupError("give at least two runs to compare, or a sweep")
    with ExitStack() as stack:
        groups = group([stack.enter_context(Folder(path)) for path in paths])
        metrics = [[one.metrics for one in each.runs] for each in groups]
        seeds = [[one.manifest.get("seed") for one in each.runs] for each in groups]
    found, tests = adjust([effects(metrics[0], metrics[i], seeds=(seeds[0], seeds[i])) for i in range(1, len(groups))])
    names = [each.label or each.key for each in groups]
    warned = {name: group_warnings([one["figures"] for one in some]) for name, some in zip(names, metrics, strict=True)}
    shown = {name: texts for name, texts in warned.items() if texts}
    return Comparison(names[0], dict(zip(names[1:], map(tuple, found), strict=True)), tests, shown)


def _paths(one: str | Path | Run | Runs | session.Outcome) -> list[Path]:
    if isinstance(one, Runs):
        return list(one.paths.values())
    if isinstance(one, Run):
        return [one.path]
    return [one.folder] if isinstance(one, session.Outcome) else [Path(one)]


@contextmanager
def _file_of(scenario: str | Path | Mapping[str, Any] | Scenario) -> Iterator[Path]:
    """A file that holds `scenario`; mistakes in one that is written in Python are reported by their paths alone."""
    if isinstance(scenario, Mapping):
        scenario = Scenario(scenario)
    if not isinstance(scenario, Scenario):
        yield Path(scenario)
        return
    with scenario_in(scenario.folder, scenario.yaml) as file:
        try:
            yield file
        except ScenarioError as error:
            own = {file, file.resolve()}
            raise ScenarioError(
                [replace(p, file=None, line=None, column=None) if p.file in own else p for p in error.problems]
            ) from None


def _copied(value: Any) -> Any:  # noqa: ANN401 - YAML data
    """Plain lists and mappings of what may be anything alike."""
    if isinstance(value, Mapping):
        return {str(key): _copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
