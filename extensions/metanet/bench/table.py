"""One table of schedulers: every entry on every world and seed of the suite, kept line by line, compared in pairs."""

from __future__ import annotations

import hashlib
import importlib
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosim.engine
import cosim.schedulers
from cosim.contract import errors
from cosim.contract.children import as_they_come, signal_name
from cosim.contract.seals import SealedLines
from cosim.extensions.cosco import interval as compiled_model
from cosim.extensions.cosco.interval.layout import POLICIES as COMPILED
from cosim.extensions.metanet import catalogue
from cosim.extensions.metanet.bench import scenarios, suite
from cosim.extensions.metanet.catalogue import CATALOGUE
from cosim.results import student
from cosim.schedulers import BUILTIN, POLICIES, SchedulerError, scheduler, target_of

REFERENCE = "least-loaded"
ENTRIES = (*COMPILED[1:], "edf", "priority", *CATALOGUE, "rollout", "search")
TASKS = (
    "nearest", "least-loaded", "random", "round-robin", "hybrid", "edf", "priority", "fuzzy", "bandit", "game",
    *CATALOGUE, "rollout", "search",
)  # fmt: skip  # of the continuum, but those that need a cloud or devices that compute
_OURS = frozenset((*COMPILED, *BUILTIN, *POLICIES, *ENTRIES))
FILE = "rows.jsonl"
WEIGHTS = (".npy", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors")  # suffixes


@dataclass(frozen=True)
class TableEntry:
    """A scheduler in the table."""

    name: str  # one that has a name, in the product or by an installed package, or module:name
    licence: str
    weights: int  # B of the file, 0: none
    digest: str  # of its code and weights; results of another digest are run anew


@dataclass(frozen=True)
class TableRow:
    """One entry on one world under one seed."""

    entry: str
    digest: str  # of the entry
    suite: str  # its digest
    world: str
    seed: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class EntryLimits:
    """Wall time, s, after which an entry of others is ended."""

    decision: float = 60.0  # and to be made: an import of a large library and a first compilation take some 20 s
    run: float = 600.0  # one world under one seed, 80 decisions


@dataclass(frozen=True)
class FailedEntry:
    """An entry that failed or took too long, and where."""

    entry: str
    world: str
    seed: int
    why: str

    def __str__(self) -> str:
        return f"entry '{self.entry}' fails in world {self.world}, seed {self.seed}: {self.why}"


def entries_of(model: str) -> tuple[str, ...]:
    """The entries of a table on worlds of this model."""
    return TASKS if model == "continuum" else ENTRIES


def frozen(world: str) -> str:
    """The digest of the suite, or of the files of a world that is a scenario."""
    return suite.DIGEST if world in suite.names() else digest(scenarios.files(world))


def entry(name: str, limits: EntryLimits | None = None, model: str = "interval") -> TableEntry:
    """What an entry on `model` is made of; `licence` and `weights` (a path) are attributes of a policy of others.

    A relative path is beside its module, else in the working directory. To the entry's code belong the imported
    modules beside it, and files of weights there. Raises `SchedulerError` for a name that is none, of a policy that
    does not decide what the model asks or cannot be made, within `limits` if there are some, for weights that are no
    file, and for a licence that is no name.
    """
    roots = [Path(one.__file__ or "").parent for one in (cosim.schedulers, catalogue)]
    if model == "continuum" and name in BUILTIN:
        own = Path(cosim.engine.__file__).parent / "continuum" / "schedulers.py"
        return TableEntry(name, "Apache-2.0", 0, digest([own]))
    if name in COMPILED and model == "interval":
        return TableEntry(name, "Apache-2.0", 0, digest([*Path(compiled_model.__file__).parent.glob("*.py")]))
    with _within(limits.decision if limits else None):
        found = scheduler(name)
        if found.make is not None or model == "interval":
            found.policy(model)
    target = target_of(name)
    module = importlib.import_module(target.partition(":")[0])
    file = Path(module.__file__ or "")
    made: Any = getattr(module, target.partition(":")[2], None)
    known, beside = [], []
    if name in _OURS:
        known = [path for path in (file.parent / "weights.npz",) if path.is_file()]
    else:
        weights = getattr(made, "weights", None)
        if weights is not None and not isinstance(weights, (str, Path)):
            raise SchedulerError(
                f"entry '{name}' has a {type(weights).__name__} as weights; expected the path of a file"
            )
        if weights is not None:
            known = [path for path in (file.parent / weights, Path(weights)) if path.is_file()][:1]
            if not known:
                raise SchedulerError(f"entry '{name}' has weights = '{weights}', and there is no such file")
        beside = _beside(file)
    licence = "Apache-2.0" if name in _OURS else getattr(made, "licence", "not stated")
    if not isinstance(licence, str) or not licence.strip() or not licence.isprintable() or "|" in licence:
        raise SchedulerError(
            f"entry '{name}' has licence = {licence!r}; expected its name in one line, such as MIT or Apache-2.0"
        )
    size = sum(path.stat().st_size for path in known)
    code = [path for root in roots for path in root.rglob("*.py") if path.name != "train.py"]
    return TableEntry(name, licence, size, digest([file, *known, *beside, *code]))


def _within(seconds: float | None) -> AbstractContextManager[None]:
    """Raise `TimeoutError` in what is done within after so many s; in the main thread, where signals are heard."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not made within {seconds:g} s")

    main = threading.current_thread() is threading.main_thread()
    return suite.limited(seconds if main else None, late)


def _beside(file: Path) -> list[Path]:
    """Imported modules and files of weights in the folder of a module."""
    modules = [Path(found) for one in list(sys.modules.values()) if (found := getattr(one, "__file__", None))]
    weights = [path for path in file.parent.iterdir() if path.suffix in WEIGHTS and path.is_file()]
    return [path for path in modules if path.parent == file.parent and path.is_file()] + weights


def digest(files: Iterable[Path]) -> str:
    """Of the names and the contents of files."""
    found = hashlib.sha256()
    for file in sorted(set(files)):
        found.update(file.name.encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def read(folder: Path) -> list[TableRow]:
    """The results that a folder holds. Raises `DamagedError` where they are not what was written."""
    kept, rows = SealedLines(folder / FILE), []
    for number, (line, _) in enumerate(kept.read(), 1):
        try:
            rows.append(TableRow(**line["row"]))
        except (LookupError, TypeError) as error:
            raise kept.damaged(number) from error
    return rows


def fill(
    folder: Path, entries: Sequence[TableEntry], worlds: Sequence[str], seeds: Sequence[int], *, workers: int = 1,
    notify: Callable[[int, int, TableRow], None] | None = None, limits: EntryLimits | None = None,
    failed: Callable[[FailedEntry], None] | None = None,
) -> list[TableRow]:  # fmt: skip
    """Run what `folder` does not hold yet, write each result as it comes, and return the requested results.

    With `limits` entries of others run in processes of their own, and one that takes longer is ended. An entry that
    fails or is ended is passed to `failed`, and nothing of it is returned. Raises `SchedulerError` for such an entry
    where there is no `failed`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    have = {(row.entry, row.digest, row.suite, row.world, row.seed): row for row in read(folder)}
    wanted = [
        (each.name, each.digest, frozen(world), world, seed) for world in worlds for seed in seeds for each in entries
    ]
    missing = [key for key in wanted if key not in have]
    out = dict[str, FailedEntry]()
    kept = SealedLines(folder / FILE)
    for done, found in enumerate(_run(missing, workers, limits, out), 1):
        if isinstance(found, FailedEntry):
            if failed is None:
                raise SchedulerError(str(found))
            if out.setdefault(found.entry, found) is found:
                failed(found)
            continue
        kept.append({"row": vars(found)})
        have[found.entry, found.digest, found.suite, found.world, found.seed] = found
        if notify is not None:
            notify(done, len(missing), found)
    return [have[key] for key in wanted if key[0] not in out]


Key = tuple[str, str, str, str, int]  # entry, its digest, that of the suite, world, seed


def _run(
    missing: Sequence[Key], workers: int, limits: EntryLimits | None, out: Mapping[str, FailedEntry]
) -> Iterator[TableRow | FailedEntry]:
    """Rows as they come; with `limits` those of others after ours, without those of an entry that is `out` already."""
    ours = ((key,) for key in missing if (limits is None or key[0] in _OURS) and key[0] not in out)
    yield from (row for _, row in as_they_come(one, ours, workers))
    if limits is None:
        return
    begun = list[Key]()

    def theirs() -> Iterator[tuple[Key, float]]:
        for key in missing:
            if key[0] not in _OURS and key[0] not in out:
                begun.append(key)
                yield key, limits.decision

    def lost(number: int, status: int | None) -> TableRow | FailedEntry:
        name, _, _, world, seed = begun[number]
        if status is None:
            why = f"a run took more than {limits.run:g} s"
        elif status == -signal.SIGALRM:
            why = f"a decision took more than {limits.decision:g} s"
        else:
            how = f"by {signal_name(-status)}" if status < 0 else f"with exit status {status}"
            why = f"its process ended {how}"
        return FailedEntry(name, world, seed, why)

    yield from (found for _, found in as_they_come(one, theirs(), workers, limit=limits.run, lost=lost))


def one(key: Key, limit: float | None = None) -> TableRow | FailedEntry:
    """Run one entry on one world under one seed.

    A decision that takes longer than `limit` s ends this process, see `suite.run`.
    """
    name, digest, kind, world, seed = key
    try:
        here = next((one for one in suite.worlds() if one.name == world), None)
        run = scenarios.run(world, name, seed, limit) if here is None else suite.run(here, name, seed, limit=limit)
    except SchedulerError as error:
        return FailedEntry(name, world, seed, str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others may fail in any way
        return FailedEntry(name, world, seed, errors.error_line(error))
    return TableRow(name, digest, kind, world, seed, {k: float(v) for k, v in run._asdict().items()})


def score(row: TableRow, base: TableRow) -> float:
    """log of sqrt(energy x response) against the reference under the same seed.

    Which of two entries is ahead does not depend on the reference.
    """
    return 0.5 * sum(math.log(_ratio(row, base, name)) for name in ("energy", "response"))


def _ratio(row: TableRow, base: TableRow, name: str) -> float:
    """1 where the reference has nothing of it: no node of the world has a power."""
    return row.figures[name] / base.figures[name] if base.figures[name] else 1.0


def compared(rows: Sequence[TableRow], entries: Sequence[TableEntry]) -> dict[str, Any]:
    """The table as data: per world, figures and scores with 95 % intervals, and paired differences to the best.

    A score is the geometric mean of energy and response against `least-loaded`; `sum` the arithmetic one. An entry is
    `with_best` when the interval of its paired difference to the best reaches 0; one seed has no intervals (NaN), and
    only what is no worse than the best is with it. Without `least-loaded` among the rows, the others are compared with
    the first entry.
    """
    names = [one.name for one in entries]
    reference = REFERENCE if REFERENCE in names else names[0]
    by = {(row.entry, row.world, row.seed): row for row in rows}
    worlds = list(dict.fromkeys(row.world for row in rows))
    seeds = list(dict.fromkeys(row.seed for row in rows))
    table: dict[str, Any] = {}
    logs: dict[tuple[str, str], list[float]] = {}
    for world in worlds:
        for name in names:
            logs[name, world] = [score(by[name, world, seed], by[reference, world, seed]) for seed in seeds]
        best = min(names, key=lambda name: sum(logs[name, world]))
        table[world] = {
            name: _cell([by[name, world, s] for s in seeds], [by[reference, world, s] for s in seeds])
            | _against(logs[name, world], logs[best, world])
            for name in names
        }
    board = []
    for each in entries:
        means = [sum(logs[each.name, world][k] for world in worlds) / len(worlds) for k in range(len(seeds))]
        mean, half = student.interval(means)
        board.append(
            {
                "entry": each.name, "score": math.exp(mean),
                "low": math.exp(mean - half), "high": math.exp(mean + half),
                "with_best": sum(table[world][each.name]["with_best"] for world in worlds), "worlds": len(worlds),
                "sum": _mean([table[world][each.name]["sum"] for world in worlds]),
                "late": _mean([table[world][each.name]["late"] for world in worlds]),
                "cpu": _mean([table[world][each.name]["cpu"] for world in worlds]),
                "wall": _mean([table[world][each.name]["wall"] for world in worlds]),
                "licence": each.licence, "weights": each.weights,
            }
        )  # fmt: skip
    board.sort(key=lambda line: line["score"])
    suites = list(dict.fromkeys(row.suite for row in rows))
    return {"suite": ", ".join(suites), "reference": reference, "seeds": seeds, "board": board, "worlds": table}


def _plain(value: float, digits: int = 2) -> str:
    """So many digits, and no power of ten."""
    return f"{value:.{digits}g}" if value < 10**digits - 0.5 else f"{value:,.0f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cell(mine: Sequence[TableRow], base: Sequence[TableRow]) -> dict[str, float]:
    found = {name: _mean([row.figures[name] for row in mine]) for name in suite.FIGURES}
    halves = {f"{name}_half": student.interval([row.figures[name] for row in mine])[1] for name in suite.FIGURES[:2]}
    both = [0.5 * (_ratio(a, b, "energy") + _ratio(a, b, "response")) for a, b in zip(mine, base, strict=True)]
    return found | halves | {"sum": _mean(both)}


def _against(logs: Sequence[float], best: Sequence[float]) -> dict[str, Any]:
    """The score, and the paired difference to the best with its interval, in percent."""
    mean, half = student.interval([a - b for a, b in zip(logs, best, strict=True)])
    known = half if math.isfinite(half) else 0.0
    return {
        "score": math.exp(_mean(logs)), "behind": 100.0 * math.expm1(mean),
        "behind_low": 100.0 * math.expm1(mean - half), "behind_high": 100.0 * math.expm1(mean + half),
        "with_best": mean - known <= 0.0,
    }  # fmt: skip


def band(line: Mapping[str, Any]) -> str:
    """The interval of an entry's score; one seed gives none."""
    return f"{line['low']:.3f} - {line['high']:.3f}" if math.isfinite(line["low"]) else "-"


def markdown(found: Mapping[str, Any]) -> str:
    """The leaderboard and a table per world."""
    lines = [
        "# Schedulers", "",
        (
            f"Suite `{found['suite']}`, seeds {', '.join(map(str, found['seeds']))}. The score is the geometric mean "
            f"of energy and response time against `{found['reference']}` (1; less is better), over worlds; `sum` is "
            "the arithmetic one. *with best*: worlds in which the paired 95 % interval of the difference to the best "
            "entry there reaches 0."
        ), "",
        "| entry | score | 95 % | sum | with best | late | CPU ms | wall ms | weights kB | licence |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    lines.extend(
        (
            f"| `{line['entry']}` | {line['score']:.3f} | {band(line)} "
            f"| {line['sum']:.3f} | "
            f"{line['with_best']}/{line['worlds']} | {line['late']:.1%} | {line['cpu']:.2f} | {line['wall']:.2f} | "
            f"{line['weights'] / 1e3:.0f} | {line['licence']} |"
        )
        for line in found["board"]
    )
    if found.get("failed"):
        lines += ["", "In no table:", ""]
        lines.extend(f"- {one}" for one in found["failed"])
    for world, cells in found["worlds"].items():
        known = {one.name: one.summary for one in suite.worlds()}
        lines += ["", f"## {world}", "", f"{known.get(world) or scenarios.summary(world)}.", ""]
        lines += [
            "| entry | score | behind % | energy kWh | response s | late | cost USD | waiting s | moves | CPU ms |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        for name, cell in sorted(cells.items(), key=lambda item: float(item[1]["score"])):
            mark = " *" if cell["with_best"] else ""
            low, high, energy, response = (
                cell[name] for name in ("behind_low", "behind_high", "energy_half", "response_half")
            )
            several = math.isfinite(low)
            lines.append(
                f"| `{name}`{mark} | {cell['score']:.3f} | {cell['behind']:.1f}"
                f"{f' ({low:.1f} - {high:.1f})' if several else ''} | {_plain(cell['energy'], 3)}"
                f"{f' ± {_plain(energy)}' if several else ''} | {_plain(cell['response'], 4)}"
                f"{f' ± {_plain(response)}' if several else ''} | {cell['late']:.1%} | {_plain(cell['cost'], 3)} | "
                f"{_plain(cell['waiting'], 3)} | {cell['migrations']:.2f} | {cell['cpu']:.2f} |"
            )
    return "\n".join(lines) + "\n"
