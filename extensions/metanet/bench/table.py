"""One table of schedulers: every entry on every world and seed of the suite, kept line by line, compared in pairs."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cosim.engine.interval
import cosim.schedulers
from cosim.contract import errors
from cosim.contract.children import as_they_come
from cosim.engine.interval.layout import POLICIES as COMPILED
from cosim.extensions.metanet import catalogue
from cosim.extensions.metanet.bench import suite
from cosim.extensions.metanet.catalogue import CATALOGUE
from cosim.results import student
from cosim.schedulers import POLICIES, SchedulerError, scheduler, target_of

REFERENCE = "least-loaded"
ENTRIES = (*COMPILED[1:], "edf", "priority", *CATALOGUE, "rollout", "search")
_OURS = frozenset((*COMPILED, *POLICIES, *ENTRIES))
FILE = "results.jsonl"
WEIGHTS = (".npy", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors")  # suffixes


@dataclass(frozen=True)
class Entry:
    """A scheduler in the table."""

    name: str  # one that has a name, in the product or by an installed package, or module:name
    licence: str
    weights: int  # B of the file, 0: none
    digest: str  # of its code and weights; results of another digest are run anew


@dataclass(frozen=True)
class Row:
    """One entry on one world under one seed."""

    entry: str
    digest: str  # of the entry
    suite: str  # its digest
    world: str
    seed: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Limits:
    """Wall time, s, after which an entry of others is ended."""

    decision: float = 60.0  # and to be made: an import of a large library and a first compilation take some 20 s
    run: float = 600.0  # one world under one seed, 80 decisions


@dataclass(frozen=True)
class Ended:
    """An entry that was ended since it took too long, and where."""

    entry: str
    world: str
    seed: int
    why: str

    def __str__(self) -> str:
        return f"entry '{self.entry}' was ended: {self.why} (world {self.world}, seed {self.seed})"


def entry(name: str, limits: Limits | None = None) -> Entry:
    """What an entry is made of; `licence` and `weights` (a path) are attributes of a policy of others.

    A relative path is beside its module, else in the working directory. To the entry's code belong the imported
    modules beside it, and files of weights there. Raises `SchedulerError` for a name that is none, of a policy that
    does not decide per interval or cannot be made, within `limits` if there are some, for weights that are no file, and
    for a licence that is no name.
    """
    roots = [Path(one.__file__ or "").parent for one in (cosim.schedulers, catalogue)]
    if name in COMPILED:
        return Entry(name, "Apache-2.0", 0, digest([*Path(cosim.engine.interval.__file__).parent.glob("*.py")]))
    with _within(limits.decision if limits else None):
        scheduler(name).policy("interval")
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
    return Entry(name, licence, size, digest([file, *known, *beside, *code]))


@contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    """Raise `TimeoutError` in what is done within after so many s; in the main thread, where signals are heard."""
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def late(*_: object) -> None:
        raise TimeoutError(f"not made within {seconds:g} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


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


def read(folder: Path) -> list[Row]:
    """The results that a folder holds; a last line that was cut short is left out."""
    file = folder / FILE
    rows = []
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else ():
        try:
            rows.append(Row(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return rows


def fill(
    folder: Path, entries: Sequence[Entry], worlds: Sequence[str], seeds: Sequence[int], *, workers: int = 1,
    told: Callable[[int, int, Row], None] | None = None, limits: Limits | None = None,
    ended: Callable[[Ended], None] | None = None,
) -> list[Row]:  # fmt: skip
    """Run what `folder` does not hold yet, write each result as it comes, and return the requested results.

    With `limits` entries of others run in processes of their own. One that takes longer is ended and reported to
    `ended`; nothing of that entry is run any more or returned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    have = {(row.entry, row.digest, row.suite, row.world, row.seed): row for row in read(folder)}
    wanted = [
        (each.name, each.digest, suite.DIGEST, world, seed) for world in worlds for seed in seeds for each in entries
    ]
    missing = [key for key in wanted if key not in have]
    out = dict[str, Ended]()
    with (folder / FILE).open("a", encoding="utf-8") as file:
        if file.tell() and (folder / FILE).read_bytes()[-1:] != b"\n":
            file.write("\n")  # a last line that was cut short swallows no other
        for done, found in enumerate(_run(missing, workers, limits, out), 1):
            if isinstance(found, Ended):
                if out.setdefault(found.entry, found) is found and ended is not None:
                    ended(found)
                continue
            file.write(json.dumps(vars(found)) + "\n")
            file.flush()
            have[found.entry, found.digest, found.suite, found.world, found.seed] = found
            if told is not None:
                told(done, len(missing), found)
    return [have[key] for key in wanted if key[0] not in out]


Key = tuple[str, str, str, str, int]  # entry, its digest, that of the suite, world, seed


def _run(
    missing: Sequence[Key], workers: int, limits: Limits | None, out: Mapping[str, Ended]
) -> Iterator[Row | Ended]:
    """Rows as they come; with `limits` those of others after ours, without those of an entry that is `out` already."""
    ours = [(key,) for key in missing if limits is None or key[0] in _OURS]
    yield from (row for _, row in as_they_come(one, ours, workers))
    if limits is None:
        return
    begun = list[Key]()

    def theirs() -> Iterator[tuple[Key, float]]:
        for key in missing:
            if key[0] not in _OURS and key[0] not in out:
                begun.append(key)
                yield key, limits.decision

    def lost(number: int, status: int | None) -> Row | Ended:
        name, _, _, world, seed = begun[number]
        if status not in (None, -signal.SIGALRM):
            how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
            raise SchedulerError(f"entry '{name}' fails in world {world}, seed {seed}: its process ended {how}")
        what, most = ("a run", limits.run) if status is None else ("a decision", limits.decision)
        return Ended(name, world, seed, f"{what} took more than {most:g} s")

    yield from (found for _, found in as_they_come(one, theirs(), workers, limit=limits.run, lost=lost))


def one(key: Key, limit: float | None = None) -> Row:
    """Run one entry on one world under one seed. Raises `SchedulerError` where the entry fails.

    A decision that takes longer than `limit` s ends this process, see `suite.run`.
    """
    name, digest, frozen, world, seed = key
    try:
        found = suite.run(next(one for one in suite.worlds() if one.name == world), name, seed, limit=limit)
    except SchedulerError:
        raise
    except (Exception, SystemExit) as error:  # code of others may fail in any way
        raise SchedulerError(f"entry '{name}' fails in world {world}, seed {seed}: {errors.told(error)}") from error
    return Row(name, digest, frozen, world, seed, {k: float(v) for k, v in found._asdict().items()})


def score(row: Row, base: Row) -> float:
    """log of sqrt(energy x response) against the reference under the same seed.

    Which of two entries is ahead does not depend on the reference.
    """
    ratios = (row.figures[name] / base.figures[name] for name in ("energy", "response"))
    return 0.5 * sum(map(math.log, ratios))


def compared(rows: Sequence[Row], entries: Sequence[Entry]) -> dict[str, Any]:
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
    return {"suite": suite.DIGEST, "reference": reference, "seeds": seeds, "board": board, "worlds": table}


def _plain(value: float, digits: int = 2) -> str:
    """So many digits, and no power of ten."""
    return f"{value:.{digits}g}" if value < 10**digits - 0.5 else f"{value:,.0f}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _cell(mine: Sequence[Row], base: Sequence[Row]) -> dict[str, float]:
    found = {name: _mean([row.figures[name] for row in mine]) for name in suite.FIGURES}
    halves = {f"{name}_half": student.interval([row.figures[name] for row in mine])[1] for name in suite.FIGURES[:2]}
    both = [
        0.5 * (a.figures["energy"] / b.figures["energy"] + a.figures["response"] / b.figures["response"])
        for a, b in zip(mine, base, strict=True)
    ]
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
    if found.get("ended"):
        lines += ["", "Ended, and in no table:", ""]
        lines.extend(f"- {one}" for one in found["ended"])
    summaries = {world.name: world.summary for world in suite.worlds()}
    for world, cells in found["worlds"].items():
        lines += ["", f"## {world}", "", f"{summaries[world]}.", ""]
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
