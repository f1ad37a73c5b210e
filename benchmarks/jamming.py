"""Detection of jamming on scenes that no detector has seen, and on a real gNB's log.

python -m benchmarks.jamming [--scenes 30] [--method boosting] [--false-alarms 0.01] [--data DIR] [--json]

Every scene has places, people, load, radio conditions and a jammer of its own (`benchmarks.jamming_scenes`).
Detectors are trained on some seeds, calibrated to a rate of false alarms on others, and judged on further ones.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.jamming_scenes import LAST, SETS, START, scene
from benchmarks.measure import Table, print_result
from cosim import api
from cosim.dataset import Recipe, build
from cosim.dataset.windows import features, names
from cosim.detect import METHODS, Verdict, judge, train
from cosim.detect.judge import figures
from cosim.detect.train import calibrated, fit

RULE = "jamming.loss >= 3"
SIGNALS = ("ue", "gnb")
KEEP = ("jamming.loss", "jamming.js_down", "jamming.js_up")
CAUSES = (
    "jam: jamming.loss >= 3", "fade: impairment.snr_down <= 3", "fade: impairment.snr_up <= 3",
    "interference: impairment.interference_down >= 10", "interference: impairment.interference_up >= 10",
    "overload: impairment.load >= 0.9",
)  # fmt: skip
HARD = "truth_jamming_loss >= 10"
UNSEEN = 70_000  # seeds from here on are judged on
JDD = Path("network/jamming_5g_jdd/gnb_metrics_runs_1_3.csv.gz")
_REAL = ("CQI", "MCS", "DL-BLER", "UL-BLER-CRC", "UL-MCS", "C2I", "RI", "Nack", "Alloc_RBs")
_BLOCKS = 5
_NAMES = ("jam", "fade", "interference", "overload")
_SHARE = {"normal": 0.5, "jammed": 1.0, "hole": 0.25, "overload": 0.25, "neighbour": 0.25}


def runs(folder: Path, kind: str, seeds: range, **keys: Any) -> list[Path]:
    """The run folders of the scenes `seeds` of one kind."""
    return [api.run(scene(kind, seed, **keys), out=folder / "runs").folder for seed in seeds]


def dataset(folder: Path, name: str, made: list[Path], shares: tuple[float, float, float]) -> Path:
    """The data set of runs."""
    return build(made, Recipe(SIGNALS, RULE, keep=KEEP, shares=shares, causes=CAUSES), folder / name, workers=2).folder


def simulated(folder: Path, count: int, methods: list[str], rate: float, save: Path) -> dict[str, Any]:
    """Figures of each method on unseen scenes, trained on `count` jammed scenes and as many others."""
    made = [one for kind in SETS for one in runs(folder, kind, range(1, 1 + max(2, round(_SHARE[kind] * count))))]
    learning = dataset(folder, "learning", made, (0.7, 0.3, 0.0))
    unseen = {}
    for kind in SETS:
        fresh = range(UNSEEN, UNSEEN + max(2, round(_SHARE[kind] * count * 0.75)))
        unseen[kind] = dataset(folder, f"unseen-{kind}", runs(folder, kind, fresh), (0.0, 0.0, 1.0))
    for load in (0.1, 0.5, 0.95):
        fresh = range(2 * UNSEEN, 2 * UNSEEN + max(2, count // 4))
        where = f"load-{load:.0%}"
        unseen[where] = dataset(folder, where, runs(folder, "jammed", fresh, load=load), (0.0, 0.0, 1.0))
    found: dict[str, Any] = {}
    for method in methods:
        detector = train(learning, method, false_alarms=rate)  # type: ignore[arg-type]
        if method == methods[0]:
            detector.save(save)
        verdicts = {kind: judge(detector, data) for kind, data in unseen.items()}
        hard = judge(detector, unseen["jammed"], only=HARD)
        found[method] = {
            "hard": hard.as_dict(),
            "all": verdicts["jammed"].as_dict(),
            "false_alarms": {kind: verdicts[kind].false_alarms for kind in SETS if kind != "jammed"},
            "load": {
                kind: judge(detector, data, only=HARD).f1 for kind, data in unseen.items() if kind.startswith("load")
            },
            "causes": _added([verdicts[kind].causes for kind in SETS]),
            "importance": dict(list(detector.facts["importance"].items())[:6]),
        }
    return found


def _added(counts: list[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The sum of confusions; true -> told -> rows."""
    found: dict[str, dict[str, int]] = {}
    for one in counts:
        for true, told in one.items():
            row = found.setdefault(true, {})
            for name, number in told.items():
                row[name] = row.get(name, 0) + number
    return found


def response(folder: Path, detector: Path, seeds: range) -> dict[str, float]:
    """Part of the tasks of the attack that are done in time: without the jammer, with it, and with responses to alarms.

    Two cells on one mast, the weaker one on another carrier; a jammer of 30 dBm on the carrier of the stronger.
    """
    done: dict[str, list[float]] = {"no jammer": [], "nothing": [], "other-carrier": [], "disconnect": []}
    back: list[float] = []
    for seed in seeds:
        for what, parts in done.items():
            made = scene("jammed", seed, load=0.2).data
            made["workloads"]["upload"] |= {"deadline": "3 s", "arrivals": "poisson 0.3 Hz", "input": "100 kB"}
            nodes = {name: keys for name, keys in made["nodes"].items() if not name.startswith("bs-")}
            mast = {"kind": "base-station", "at": ["200 m", "200 m"], "cpu": "8 x 3 GHz"}
            for k, (power, carrier) in enumerate((("33 dBm", "3.5 GHz"), ("27 dBm", "3.54 GHz"))):
                nodes[f"bs-{k}"] = {**mast, "cell": {"power": power, "carrier": carrier, "bandwidth": "20 MHz"}}
            nodes["jammer-0"]["jammer"] = {"power": "30 dBm", "active": False}
            made["nodes"] = nodes
            if what == "no jammer":
                made["nodes"].pop("jammer-0")
                made.pop("events")
            elif what != "nothing":
                made["adapters"]["detector"] = {"model": str(detector.resolve())}
                made["adapters"]["radio"]["response"] = {"do": what, "hold": "30 s"}
            run = api.run(made, out=folder / "runs").folder
            tasks = pq.read_table(run / "tasks.parquet").to_pydict()
            mine = [START <= at < START + LAST - 5 for at in tasks["created"]]
            good = [s == "completed" and not late for s, late in zip(tasks["status"], tasks["late"], strict=True)]
            parts.append(float(np.mean([ok for ok, one in zip(good, mine, strict=True) if one])))
            if what == "other-carrier":
                back += _recoveries(run)
    found = {what: float(np.mean(parts)) for what, parts in done.items()}
    late = {f"recovered {q:.0%}, s": float(np.quantile(back, q)) if back else float("nan") for q in (0.5, 0.95)}
    return {**found, **late}


def _recoveries(run: Path) -> list[float]:
    """For each phone that lost 10 dB: s from its first alarm until it has lost less than 3 dB; inf for never."""
    frames = run / "frames"
    alarms = pq.read_table(frames / "alarm" / "detector.parquet", columns=["node", "time", "on"]).to_pydict()
    truth = pq.read_table(frames / "jamming" / "radio.parquet", columns=["node", "time", "loss"]).to_pydict()
    first: dict[str, float] = {}
    for node, at, on in zip(alarms["node"], alarms["time"], alarms["on"], strict=True):
        if on and at >= START:
            first.setdefault(node, at)
    hit = {node for node, loss in zip(truth["node"], truth["loss"], strict=True) if loss >= 10.0}
    well: dict[str, float] = {}
    for node, at, loss in zip(truth["node"], truth["time"], truth["loss"], strict=True):
        if node in first and at > first[node] and loss < 3.0:
            well.setdefault(node, at - first[node])
    return [well.get(node, float("inf")) for node in sorted(hit & set(first))]


def real(path: Path) -> dict[str, Any]:
    """Figures on a real gNB's log: blocks of time left out, and whole jammer settings left out."""
    rows, label, who, setting = _log(path)
    kept = [f"{name}{end}" for name in _REAL for end in ("", "_mean", "_dev", "_diff")]
    blocks = np.zeros(len(rows), np.int64)
    for one in np.unique(setting):
        mine = np.flatnonzero(setting == one)
        blocks[mine] = np.arange(len(mine)) * _BLOCKS // len(mine)
    plain, score, limits = np.zeros((3, len(rows)))
    for block in range(_BLOCKS):
        out = blocks == block
        held = blocks == (block + 1) % _BLOCKS
        detector = fit(rows[~out & ~held], label[~out & ~held], kept, "boosting")
        plain[out] = detector.score(rows[out])
        detector = calibrated(detector, rows[held], label[held], 0.02)
        score[out] = detector.score(rows[out])
        limits[out] = detector.limit
    order = np.arange(len(rows), dtype=np.float64)
    result: dict[str, Any] = {"block, limit 0.5": _short(figures(label, plain, 0.5, who, order))}
    result["block, calibrated"] = _short(figures(label, score - limits, 0.0, who, order))
    for one in np.unique(setting[label]):
        out = (setting == one) | (~label & (blocks == 0))
        held = ~label & (blocks == 1)
        detector = calibrated(
            fit(rows[~out & ~held], label[~out & ~held], kept, "boosting"), rows[held], label[held], 0.02
        )
        result[f"without {one}"] = _short(
            figures(label[out], detector.score(rows[out]), detector.limit, who[out], order[out])
        )
    return result


def _short(verdict: Verdict) -> dict[str, float]:
    return {name: float(getattr(verdict, name)) for name in ("precision", "recall", "f1", "false_alarms", "area")}


def _log(path: Path) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Features (n, k), label, connection and jammer setting of each row of the log."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    columns = {name: np.array([_number(row[name]) for row in table]) for name in _REAL}
    label = np.array([row["jammer_on"] == "1" for row in table])
    setting = np.array(
        [f"{r['jammer_power']} {r['jammer_centre_frequency']}" if r["jammer_on"] == "1" else "-" for r in table]
    )
    who = np.array([f"{row['run']} {row['RNTI']}" for row in table])
    _, code = np.unique(who, return_inverse=True)
    order = np.argsort(code, kind="stable")
    back = np.argsort(order)
    found = features(
        code[order], np.arange(len(table), dtype=np.float64)[order], {n: c[order] for n, c in columns.items()}, 10.0
    )
    assert len(names(list(columns))) == found.shape[1]
    return found[back, :-1], label, code, setting  # not how many rows there were: connections begin with their label


def _number(text: str) -> float:
    """The first code word of "13/0", the part of "5%", the rank of what a spreadsheet made a date."""
    text = text.split("/")[0].split(".")[0] if text.count(".") > 1 else text.split("/")[0].rstrip("%")
    try:
        return float(text)
    except ValueError:
        return float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--scenes", type=int, default=30, help="jammed scenes to train with")
    parser.add_argument("--method", nargs="+", default=list(reversed(METHODS)), choices=METHODS)
    parser.add_argument("--false-alarms", type=float, default=0.01, help="to which detectors are calibrated")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--save", type=Path, help="file for the detector of the first method")
    parser.add_argument("--folder", type=Path, help="where runs and data sets are kept; default: nowhere")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    arguments = parser.parse_args()
    begun = time.process_time()
    with tempfile.TemporaryDirectory() as spare:
        folder = arguments.folder or Path(spare)
        save = arguments.save or folder / "detector.npz"
        found = simulated(folder, arguments.scenes, arguments.method, arguments.false_alarms, save)
        fresh = range(3 * UNSEEN, 3 * UNSEEN + max(1, arguments.scenes // 4))
        answers = response(folder, save, fresh)
    log = arguments.data / JDD
    measured = real(log) if log.is_file() else {}
    table = Table("unseen scenes", ["method", "P", "R", "F1 (>= 10 dB)", "F1 (all)", "delay 50 / 95 %", "missed"])
    alarms = Table("false alarms, unseen scenes", ["method", *(kind for kind in SETS if kind != "jammed")])
    for method, one in found.items():
        hard, delay = one["hard"], one["hard"]["delay"]
        shown = [f"{hard[name]:.3f}" for name in ("precision", "recall", "f1")]
        late = f"{delay['50%']:.1f} / {delay['95%']:.1f} s"
        table.add([method, *shown, f"{one['all']['f1']:.3f}", late, f"{hard['missed']:.1%}"])
        alarms.add([method, *(f"{value:.2%}" for value in one["false_alarms"].values())])
    loads = Table("F1 (>= 10 dB) by load", ["method", *(next(iter(found.values()))["load"])])
    weights = Table("first by permutation importance", ["method", "columns"])
    for method, one in found.items():
        loads.add([method, *(f"{value:.3f}" for value in one["load"].values())])
        weights.add([method, ", ".join(f"{name} {lost:.3f}" for name, lost in list(one["importance"].items())[:4])])
    told = Table("causes, first method: true, part told", ["is", "rows", *_NAMES])
    for true, row in next(iter(found.values()))["causes"].items():
        rows = max(sum(row.values()), 1)
        told.add([true, f"{rows:,}", *(f"{row.get(name, 0) / rows:.3f}" for name in _NAMES)])
    truth = Table("real gNB log (5G_JDD)", ["split", "P", "R", "F1", "false alarms", "area"])
    for split, row in measured.items():
        truth.add([split, *(f"{row[n]:.3f}" for n in ("precision", "recall", "f1", "false_alarms", "area"))])
    tasks = Table("tasks done in time under attack, by response to alarms", list(answers))
    tasks.add([f"{value:.2f}" for value in answers.values()])
    figures_ = {"simulated": found, "response": answers, "real": measured, "cpu_seconds": time.process_time() - begun}
    print_result("jamming", figures_, [table, alarms, loads, weights, told, tasks, truth], as_json=arguments.json)


if __name__ == "__main__":
    main()
