"""Detection of jamming on scenes that no detector has seen, and on a real gNB's log.

python -m benchmarks.jamming [--part learning scenes response real phones turin melbourne] [--scenes 30]
                             [--method boosting] [--false-alarms 0.01] [--data DIR] [--json]

Every scene has places, people, load, radio conditions and a jammer of its own (`benchmarks.jamming_scenes`).
Detectors are trained on some seeds, calibrated to a rate of false alarms on others, and judged on further ones, and on
scenes of another generator, on real sites (`benchmarks.jamming_sites`).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.jamming_phones import UCC
from benchmarks.jamming_real import JDD, by_minute, real, with_simulated
from benchmarks.jamming_scenes import PATTERNS, SETS, pattern_of, scene
from benchmarks.jamming_sites import KINDS as ON_SITES
from benchmarks.jamming_sites import SITES, TURIN, on_sites

from benchmarks import jamming_phones, jamming_response
from benchmarks.measure import Table, child_seconds, mapped, print_result
from cosim import api
from cosim.extensions.detection.dataset import Recipe, build
from cosim.extensions.detection.detect import METHODS, Detector, Verdict, by_group, judge, train

PARTS = ("learning", "scenes", "response", "real", "phones", "turin", "melbourne")
LOADS = (0.1, 0.5, 0.95)
RULE = "jamming.loss >= 3"
SIGNALS = ("ue", "gnb")
KEEP = ("jamming.loss", "jamming.js_down", "jamming.js_up")
CAUSES = (
    "jam: jamming.loss >= 3", "fade: impairment.snr_down <= 3", "fade: impairment.snr_up <= 3",
    "interference: impairment.interference_down >= 10", "interference: impairment.interference_up >= 10",
    "overload: impairment.load >= 0.9",
)  # fmt: skip
HARD = "truth_jamming_loss >= 10"
WORKERS = int(os.environ.get("WORKERS", "1"))  # processes that run scenes; what comes out is the same
UNSEEN, LOADED, SITED = 70_000, 400_000, 9_000  # seeds from here on are judged on, by load, and about sites
SHIPPED = Path(__file__).resolve().parents[1] / "scenarios" / "jammed-city" / "data" / "detector.npz"
ABOUT_SITES = (  # scenes, their kind, carriers
    ("reuse 1, jammed", "jammed-sites", 1), ("reuse 3, jammed", "jammed-sites", 3),
    ("reuse 1, masts fail, no jammer", "failures", 1), ("reuse 3, masts fail, no jammer", "failures", 3),
    ("reuse 1, a crowd, no jammer", "crowd", 1), ("two masts on one carrier, no jammer", "reuse", 1),
)  # fmt: skip
_NAMES = ("jam", "fade", "interference", "overload")
_SHARE = {"normal": 0.5, "jammed": 1.0, "hole": 0.25, "overload": 0.25, "neighbour": 0.25}


def runs(folder: Path, kind: str, seeds: range, **keys: Any) -> list[Path]:
    """The run folders of the scenes `seeds` of one kind."""
    return mapped(partial(_run, folder / "runs", kind, keys), seeds, workers=WORKERS)


def _run(folder: Path, kind: str, keys: dict[str, Any], seed: int) -> Path:
    made = on_sites(kind, seed, **keys) if kind in ON_SITES else scene(kind, seed, **keys)
    return api.run(made, out=folder).folder


def dataset(folder: Path, name: str, kind: str, seeds: range, shares: tuple[float, float, float], **keys: Any) -> Path:
    """The data set of scenes of one kind; one that is there already is taken as it is."""
    made = folder / name
    if not (made / "croissant.json").is_file():
        recipe = Recipe(SIGNALS, RULE, keep=KEEP, shares=shares, causes=CAUSES)
        build(runs(folder, kind, seeds, **keys), recipe, made, workers=2)
    return made


def learning_set(folder: Path, count: int) -> Path:
    """The data set to learn from: `count` jammed scenes and more than as many others, 0.7 to fit and 0.3 for limits."""
    made = folder / "learning"
    if not (made / "croissant.json").is_file():
        of = [one for kind in SETS for one in runs(folder, kind, range(1, 1 + max(2, round(_SHARE[kind] * count))))]
        build(of, Recipe(SIGNALS, RULE, keep=KEEP, shares=(0.7, 0.3, 0.0), causes=CAUSES), made, workers=2)
    return made


def simulated(
    folder: Path, count: int, methods: list[str], rate: float, save: Path, data: Path
) -> dict[str, Any]:  # fmt: skip
    """Figures of each method on unseen scenes, trained on `count` jammed scenes and as many others."""
    learning = learning_set(folder, count)
    judged = (0.0, 0.0, 1.0)
    unseen = {}
    for kind in SETS:
        fresh = range(UNSEEN, UNSEEN + max(2, round(_SHARE[kind] * count * 0.75)))
        unseen[kind] = dataset(folder, f"unseen-{kind}", kind, fresh, judged)
    for load in LOADS:
        fresh = range(LOADED, LOADED + max(2, round(count * 0.6)))
        where = f"load-{load:.0%}"
        unseen[where] = dataset(folder, where, "jammed", fresh, judged, load=load, reuse=1)
    for kind in ON_SITES if (data / SITES).is_file() else ():
        unseen[kind] = dataset(folder, kind, kind, range(1, 1 + max(2, round(count * 0.3))), judged, data=data)
    found: dict[str, Any] = {}
    for method in methods:
        detector = train(learning, method, false_alarms=rate, only=HARD)  # type: ignore[arg-type]
        if method == methods[0]:
            detector.save(save)
        verdicts = {kind: judge(detector, data) for kind, data in unseen.items()}
        found[method] = {
            **_on_unseen(detector, unseen),
            "all": verdicts["jammed"].as_dict(),
            "patterns": _by_pattern(detector, unseen["jammed"]),
            "causes": _added([verdicts[kind].causes for kind in SETS]),
            "importance": dict(list(detector.facts["importance"].items())[:6]),
            "quantities": detector.facts["quantities"],
            "clusters": detector.facts["clusters"],
        }
        if method == methods[0]:
            at_rate = train(learning, method, false_alarms=rate, limit="rate", importance=False, only=HARD)  # type: ignore[arg-type]
            found[method]["limit rate"] = _on_unseen(at_rate, unseen)
    return found


def _on_unseen(detector: Detector, unseen: Mapping[str, Path]) -> dict[str, Any]:
    """Figures where 10 dB or more are lost, false alarms by kind of scene, and F1 by load."""
    loads = {kind: data for kind, data in unseen.items() if kind.startswith("load")}
    sites = unseen.get("jammed-sites")
    return {
        "hard": judge(detector, unseen["jammed"], only=HARD).as_dict(),
        **({"on sites": judge(detector, sites, only=HARD).as_dict()} if sites is not None else {}),
        "false_alarms": {
            kind: judge(detector, unseen[kind]).false_alarms
            for kind in (*SETS, *ON_SITES)
            if kind in unseen and "jammed" not in kind
        },
        "load": {kind: judge(detector, data, only=HARD).f1 for kind, data in loads.items()},
    }


def about_sites(detector: Detector, data: Path, seeds: int, *, turin: bool) -> dict[str, dict[str, float]]:
    """Figures where 10 dB or more are lost, on scenes about sites of a town that none has trained on.

    `seeds` scenes with a jammer, and an eighth as many of each other kind, are the same at every load but for the load.
    """
    found: dict[str, dict[str, float]] = {}
    recipe = Recipe(SIGNALS, RULE, keep=KEEP, shares=(0.0, 0.0, 1.0), causes=CAUSES)
    for name, kind, reuse in ABOUT_SITES:
        fresh = range(SITED, SITED + (seeds if kind == "jammed-sites" else max(2, seeds // 8)))
        with tempfile.TemporaryDirectory() as spare:
            made: dict[str, list[Path]] = {}
            for load in (0.1, 0.4, 0.7, 0.95):
                made[f", load {load:.0%}"] = runs(
                    Path(spare) / f"{load}", kind, fresh, data=data, turin=turin, load=load, reuse=reuse
                )
            made[""] = [folder for several in made.values() for folder in several]
            for part, folders in made.items():
                build(folders, recipe, Path(spare) / f"made{part}", workers=WORKERS)
                one = judge(detector, Path(spare) / f"made{part}", only=HARD)
                found[f"{name}{part}"] = {
                    "rows": one.rows, "positive": one.positive, "precision": one.precision, "recall": one.recall,
                    "f1": one.f1, "false_alarms": one.false_alarms, "delay 95 %": one.delay["95%"],
                    "missed": one.missed,
                }  # fmt: skip
    return found


def _by_pattern(detector: Detector, data: Path) -> dict[str, dict[str, float]]:
    """Recall, and false alarms, by the pattern of the jammer, of the rows that lose 10 dB or more."""
    found: dict[str, list[Verdict]] = {}
    for group, verdict in by_group(detector, data, only=HARD).items():
        keys = PATTERNS[pattern_of(int(group.rpartition(" ")[2]))]
        found.setdefault(f"{keys['pattern']}{' on blocks' if 'blocks' in keys else ''}", []).append(verdict)
    return {
        name: {
            "rows": sum(one.positive for one in several),
            "recall": _weighted([(one.recall, one.positive) for one in several]),
            "false_alarms": _weighted([(one.false_alarms, one.rows - one.positive) for one in several]),
        }
        for name, several in found.items()
    }


def _weighted(parts: list[tuple[float, int]]) -> float:
    rows = sum(number for _, number in parts)
    return sum(value * number for value, number in parts if number) / rows if rows else float("nan")


def _added(counts: list[Mapping[str, Mapping[str, int]]]) -> dict[str, dict[str, int]]:
    """The sum of confusions; true -> told -> rows."""
    found: dict[str, dict[str, int]] = {}
    for one in counts:
        for true, result in one.items():
            row = found.setdefault(true, {})
            for name, number in result.items():
                row[name] = row.get(name, 0) + number
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--part", nargs="+", default=list(PARTS), choices=PARTS, help="what is measured; default: all")
    parser.add_argument("--scenes", type=int, default=30, help="jammed scenes to train with")
    parser.add_argument("--method", nargs="+", default=list(reversed(METHODS)), choices=METHODS)
    parser.add_argument("--false-alarms", type=float, default=0.01, help="to which detectors are calibrated")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--save", type=Path, help="file for the detector of the first method")
    parser.add_argument("--detector", type=Path, help="file of a detector for the responses; default: the one saved")
    parser.add_argument("--folder", type=Path, help="where data sets are kept and taken from; default: nowhere")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    arguments = parser.parse_args()
    begun = time.process_time() + child_seconds()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as spare:
        folder = arguments.folder or Path(spare)
        save = arguments.save or folder / "detector.npz"
        if "learning" in arguments.part:
            learning_set(folder, arguments.scenes)
        if "scenes" in arguments.part:
            found["simulated"] = simulated(
                folder, arguments.scenes, arguments.method, arguments.false_alarms, save, arguments.data
            )
        if "response" in arguments.part:
            detector = arguments.detector or save
            if not detector.is_file():
                parser.error("the responses need a detector: --part scenes response, or --detector FILE")
            fresh = range(3 * UNSEEN, 3 * UNSEEN + max(1, arguments.scenes // 4))
            power = jamming_response.severity(folder, fresh)
            found["response"] = jamming_response.measure(folder, detector, fresh, power)
            found["power"] = power
        if "real" in arguments.part and (arguments.data / JDD).is_file():
            found["real"] = real(arguments.data / JDD)
            found["minute"] = by_minute(arguments.data / JDD)
            if (folder / "learning" / "croissant.json").is_file():
                found["few labels"] = with_simulated(arguments.data / JDD, folder / "learning")
        if "phones" in arguments.part and (arguments.data / UCC).is_dir():
            found["phones"] = jamming_phones.measure(arguments.data / UCC)
        for town, listed in (("turin", TURIN), ("melbourne", SITES)):
            if town in arguments.part and (arguments.data / listed).is_file():
                shown = Detector.load(arguments.detector or SHIPPED)
                found[town] = about_sites(shown, arguments.data, arguments.scenes, turin=town == "turin")
    figures_ = {**found, "cpu_seconds": time.process_time() + child_seconds() - begun}
    print_result("jamming", figures_, _tables(found), as_json=arguments.json)


def _tables(found: Mapping[str, Any]) -> list[Table]:
    tables = _simulated_tables(found["simulated"]) if "simulated" in found else []
    if "response" in found:
        answers = found["response"]
        heads = list(dict.fromkeys(name for row in answers.values() for name in row))
        title = f"tasks done in time under attack by {found['power']} dBm, by response to alarms"
        tasks = Table(title, ["response", *heads])
        for what, row in answers.items():
            tasks.add([what, *(f"{row[name]:.3f}" if name in row else "" for name in heads)])
        tables.append(tasks)
    for part, title in (
        ("real", "real gNB log (5G_JDD)"),
        ("minute", "the same, a recording left out, with a limit from a minute of the normal one"),
        ("few labels", "the same, a setting left out, mean over settings, with few labels and with simulated rows"),
        ("turin", "about sites in Turin, >= 10 dB"),
        ("melbourne", "about sites in Melbourne, >= 10 dB"),
        ("phones", "CQI given SNR, phones on 5G (UCC)"),
    ):
        if part in found:
            heads = list(dict.fromkeys(name for row in found[part].values() for name in row))
            table = Table(title, ["", *heads])
            for name, row in found[part].items():
                table.add([name, *(f"{row[head]:.3f}" if head in row else "" for head in heads)])
            tables.append(table)
    return tables


def _rows(method: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """A method, and beside it the same with the other limit."""
    other = {f"{method} --limit rate": found["limit rate"]} if "limit rate" in found else {}
    return {method: found, **other}


def _simulated_tables(found: Mapping[str, Any]) -> list[Table]:
    table = Table("unseen scenes", ["method", "P", "R", "F1 (>= 10 dB)", "F1 (all)", "delay 50 / 95 %", "missed"])
    first = next(iter(found.values()))
    alarms = Table("false alarms, unseen scenes", ["method", *first["false_alarms"]])
    sites = Table("on real sites (>= 10 dB)", ["method", "P", "R", "F1", "false alarms"])
    loads = Table("F1 (>= 10 dB) by load", ["method", *first["load"]])
    weights = Table("first by permutation importance", ["method", "columns", "quantities", "clusters"])
    rows = {method: one for name, row in found.items() for method, one in _rows(name, row).items()}
    for method, one in rows.items():
        hard, delay = one["hard"], one["hard"]["delay"]
        shown = [f"{hard[name]:.3f}" for name in ("precision", "recall", "f1")]
        late = f"{delay['50%']:.1f} / {delay['95%']:.1f} s"
        whole = f"{one['all']['f1']:.3f}" if "all" in one else ""
        table.add([method, *shown, whole, late, f"{hard['missed']:.1%}"])
        if there := one.get("on sites"):
            shown = [f"{there[name]:.3f}" for name in ("precision", "recall", "f1")]
            sites.add([method, *shown, f"{there['false_alarms']:.2%}"])
        alarms.add([method, *(f"{value:.2%}" for value in one["false_alarms"].values())])
        loads.add([method, *(f"{value:.3f}" for value in one["load"].values())])
        if "importance" not in one:
            continue
        first_of = (
            ", ".join(f"{name} {lost:.3f}" for name, lost in list(one[kind].items())[:4])
            for kind in ("importance", "quantities", "clusters")
        )
        weights.add([method, *first_of])
    patterns = Table("by pattern, first method, >= 10 dB", ["pattern", "rows", "recall", "false alarms"])
    for name, row in first["patterns"].items():
        patterns.add([name, f"{row['rows']:,}", f"{row['recall']:.3f}", f"{row['false_alarms']:.2%}"])
    result = Table("causes, first method: true, part reported", ["is", "rows", *_NAMES])
    for true, row in first["causes"].items():
        rows = max(sum(row.values()), 1)
        result.add([true, f"{rows:,}", *(f"{row.get(name, 0) / rows:.3f}" for name in _NAMES)])
    return [table, sites, alarms, loads, weights, patterns, result]


if __name__ == "__main__":
    main()
