"""Table 2, Fig. 4, 5, 7 and 8 of MLSysOps D4.3, made again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

from cosim.contract.errors import RunError
from cosim.extensions.detection.dataset import Recipe, build
from cosim.extensions.detection.detect import Detector, judge, train
from cosim.results.load import load
from cosim.results.session import run
from cosim.scenario.gallery import example

Rows = dict[str, dict[str, float]]
STATED = 0.9  # F1 "consistently above 90 %"
HARD = "truth_jamming_loss >= 10"
RECIPE = Recipe(("ue", "gnb"), "jamming.loss >= 3", keep=("jamming.loss",), shares=(0.0, 0.0, 1.0))
BANDS = (0.0, 250.0, 500.0, 1000.0, 3000.0)  # m
REACH = 1000.0  # m, "the range of one KM"
BOOKS = {  # columns of Table 2, and where a run's summary has them
    "energy, J": "energy.total", "energy of reliable hosts, J": "energy.by_place.solid",
    "energy in the north, J": "energy.by_place.north", "energy in the south, J": "energy.by_place.south",
    "cost": "cost.total", "cost of energy": "cost.energy", "cost of transfers": "cost.transfer",
    "penalty of overload": "cost.penalty.overload", "penalty of migration": "cost.penalty.migration",
    "penalty of crashes": "cost.penalty.crash", "migrations": "machines.migrations",
    "migrations between places": "machines.between_places", "restarts": "machines.restarts",
    "violating periods": "machines.violating_periods",
}  # fmt: skip
CLOCK = "SELECT avg(frequency) FROM server WHERE machines > 0"
SEEN = f"""SELECT avg(n.rsrp), 100 * avg(CAST(n.distance <= {REACH} AS DOUBLE)), count(DISTINCT node)
    FROM neighbour_cell AS n JOIN link AS l USING (time, node) WHERE l.cell IS NOT NULL AND """


@contextmanager
def _made(scenario: str, seed: int, words: list[str]) -> Iterator[Path]:
    """The folder of a run, in a place that goes with the block."""
    with TemporaryDirectory() as folder:
        made = run(example(scenario).folder, overrides=[f"run.seed={seed}", *words], out=Path(folder))
        if made.error is not None:
            raise RunError(f"{scenario}, seed {seed}: {made.error}")
        yield made.folder


def table2(case: str, seed: int, __: None) -> Rows:
    """Figures of a day of the scenario `case`; words after its name change its datacentres."""
    scenario, *changes = case.split()
    with _made(scenario, seed, [f"adapters.datacentre.{one}" for one in changes]) as made, closing(load(made)) as found:
        summary = found.manifest["adapters"][0]["summary"]
        row = {name: reduce(lambda at, key: at.get(key, {}), path.split("."), summary) for name, path in BOOKS.items()}
        row["clock, Hz"] = found.sql(CLOCK).fetchall()[0][0]
    return {case: {name: value for name, value in row.items() if value != {}}}


def figure4(_: str, seed: int, __: None, *, scenario: str, duration: str, neighbours: int) -> Rows:
    """Mean signal (dBm) of the station that vehicles are assigned to, of the nearest, and of all in sight."""
    words = [f"run.duration={duration}", f"adapters.radio.neighbours={neighbours}"]
    rows = {}
    with _made(scenario, seed, words) as made, closing(load(made)) as found:
        for name, where in (("assigned", "n.cell = l.cell"), ("nearest", "n.rank = 1"), ("in sight", "true")):
            (row,) = found.sql(SEEN + where).fetchall()
            rows[name] = dict(zip(("signal, dBm", "within 1 km, %", "vehicles"), row, strict=True))
    return rows


def figure5(_: str, seed: int, __: None, *, scenario: str, duration: str, neighbours: int) -> Rows:
    """Mean signal (dBm) and path loss (dB) between a vehicle and its nearest base stations, by bands of distance."""
    words = [f"run.duration={duration}", f"adapters.radio.neighbours={neighbours}"]
    with _made(scenario, seed, words) as made, closing(load(made)) as found:
        rows = {}
        for low, high in pairwise(BANDS):
            where = f"FROM neighbour_cell WHERE distance >= {low} AND distance < {high} AND isfinite(rsrp)"
            ((signal, loss),) = found.sql(f"SELECT avg(rsrp), avg(pathloss) {where}").fetchall()
            if signal is not None:
                rows[f"{low:g} to {high:g} m"] = {"signal, dBm": signal, "path loss, dB": loss}
    return rows


def detected(_: str, seed: int, __: None, *, scenario: str, background: str, scenes: int = 0) -> Rows:
    """Precision, recall, F1 and false alarms of a detector in a scenario without a response to alarms.

    It is the shipped one, in one run, or is trained on part of `scenes` runs and judged on others of them.
    """
    words = ["adapters.radio.response=null", f"adapters.radio.background={background}"]
    with ExitStack() as stack:
        made = [stack.enter_context(_made(scenario, seed + 1000 * k, words)) for k in range(scenes or 1)]
        data = made[0].parent / "data"
        build(made, replace(RECIPE, shares=(0.6, 0.2, 0.2)) if scenes else RECIPE, data)
        shipped = example(scenario).folder / "data" / "detector.npz"
        detector = train(data, importance=False, seed=seed) if scenes else Detector.load(shipped)
        hard, every = judge(detector, data, only=HARD), judge(detector, data)
    return {
        "detector": {
            "precision": hard.precision, "recall": hard.recall, "F1": hard.f1, "F1, 3 dB": every.f1,
            "false alarms": hard.false_alarms,
        },
        "stated": {"F1": STATED, "F1, 3 dB": STATED},
    }  # fmt: skip
