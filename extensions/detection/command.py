"""`cosim detect`: train a detector on a data set, and judge it on scenes that it has not seen."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from cosim.cli.console import Json, emit, errors

app = typer.Typer(help="Detectors of jamming: train one on a data set, judge it on another.", no_args_is_help=True)
Method = Literal["thresholds", "logistic", "cnn", "forest", "boosting"]
Data = Annotated[Path, typer.Argument(help="Folder that 'cosim dataset' wrote.")]
Only = Annotated[str, typer.Option(help="Positive rows that count, as 'truth_jamming_loss >= 10'.")]


@app.command("train")
def train(
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the detector.")] = Path("detector.npz"),
    method: Annotated[Method, typer.Option(help="What is fitted.")] = "boosting",
    false_alarms: Annotated[
        float, typer.Option(help="Part of the negative rows of the split valid that may raise an alarm.")
    ] = 0.02,
    limit: Annotated[
        Literal["rate", "best"],
        typer.Option(help="At that rate, or where F1 is highest on valid of limits that keep to it."),
    ] = "best",
    only: Only = "",
    seed: Annotated[int, typer.Option(help="Seed of the fit.", min=0)] = 1,
    as_json: Json = False,
) -> None:
    """Fit a detector to the split train, and set its limit on the split valid."""
    with errors(as_json):
        from cosim.extensions.detection.detect import train as fit

        found = fit(data, method, false_alarms=false_alarms, limit=limit, seed=seed, only=only)
        path = found.save(out)
        facts = {"file": str(path), "method": found.method, "limit": found.limit, **found.facts}
        first = list(found.facts.get("importance", {}).items())[:8]
        most = "at most " if limit == "best" else "at "
        lines = [str(path), f"limit {found.limit:.4g} {most}{false_alarms:.1%} false alarms on held-out scenes"]
        emit(facts, as_json, "\n".join([*lines, *(f"{name:<24} {lost:+.4f}" for name, lost in first)]))


@app.command("calibrate")
def calibrate(
    detector: Annotated[Path, typer.Argument(help="File that 'cosim detect train' wrote.")],
    data: Data,
    out: Annotated[Path, typer.Option("--out", "-o", help="File of the calibrated detector.")] = Path("calibrated.npz"),
    false_alarms: Annotated[float, typer.Option(help="Part of the rows that may raise an alarm.")] = 0.001,
    as_json: Json = False,
) -> None:
    """Raise the limit of a detector until the network's own quiet period DATA has so few false alarms."""
    with errors(as_json):
        from cosim.extensions.detection.detect import Detector, quieted

        before = Detector.load(detector).limit
        found = quieted(Detector.load(detector), data, false_alarms)
        rows = found.facts["calibrated_on"]
        facts = {"file": str(found.save(out)), "limit": found.limit, "before": before, "rows": rows}
        emit(facts, as_json, f"{out}\nlimit {found.limit:.4g}, was {before:.4g}, on {rows:,} quiet rows")


@app.command("judge")
def judge(
    detector: Annotated[Path, typer.Argument(help="File that 'cosim detect train' wrote.")],
    data: Data,
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="Split to judge on.")] = "test",
    only: Only = "",
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Also write a page: confusion by setting, what the detector needs, the columns."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Say precision, recall, F1, false alarms and delays of a detector on a split."""
    with errors(as_json):
        from cosim.extensions.detection.detect import Detector, by_group, contrasts
        from cosim.extensions.detection.detect import judge as figures

        loaded = Detector.load(detector)
        found = figures(loaded, data, split, only=only)
        if html is not None:
            from cosim.extensions.detection.page import write_judgement

            groups = by_group(loaded, data, split, only=only)
            write_judgement(loaded, data.name, found, groups, contrasts(data, split), html, only=only)
        rows = {
            "rows": f"{found.rows:,}, {found.positive:,} positive", "precision": _shown(found.precision, ".3f"),
            "recall": _shown(found.recall, ".3f"), "F1": _shown(found.f1, ".3f"),
            "false alarms": _shown(found.false_alarms, ".2%"), "area": f"{found.area:.4f}",
            "attacks": f"{found.attacks}, {_shown(found.missed, '.1%')} missed",
            "delay": ", ".join(f"{name} {_shown(value, '.1f')} s" for name, value in found.delay.items()),
        }  # fmt: skip
        if found.positive in (0, found.rows):
            rows["note"] = f"the split {split} has one class only: choose another one, or make it with more groups"
        for true, reported in found.causes.items():
            rows[f"is {true}"] = "found " + ", ".join(f"{name} {number:,}" for name, number in reported.items())
        if html is not None:
            rows["page"] = str(html)
        emit(found.as_dict(), as_json, "\n".join(f"{name:<16} {text}" for name, text in rows.items()))


def _shown(value: float, form: str) -> str:
    """A figure, or - where there was nothing to count."""
    return "-" if math.isnan(value) else format(value, form)
