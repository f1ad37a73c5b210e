"""What phones report: CQI given SNR in their logs, against the radio's law and against `modem_snr`.

The setting is fitted to every other file of the UCC's 5G logs and judged on the files in between.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.stats import norm

from cosim.adapters.radio.config import ModemSnr
from cosim.physics.radio import nr
from cosim.physics.radio.reporting import HIGHEST, LOWEST, modem_snr

UCC = Path("network/ucc_5g")
_STEPS = 9  # SINR between the thresholds of two CQIs, at so many points
_WIDTH, _LEAST = 2.0, 100  # dB of a bin of SNR, and rows that it must have
_COPIES = 20  # reports drawn for each row

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reports:
    """Rows (n,) of phones on 5G: number of the file, SNR in dB and CQI as reported."""

    file: Ints
    snr: Floats
    cqi: Ints

    def of(self, some: NDArray[np.bool_]) -> Reports:
        return Reports(self.file[some], self.snr[some], self.cqi[some])


def read(folder: Path) -> Reports:
    """All rows on 5G with both figures; files in the order of their names."""
    rows: list[tuple[str, float, int]] = []
    for path in sorted(folder.glob("*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            rows += [
                (f"{path.name} {row['source_file']}", float(row["SNR"]), int(row["CQI"]))
                for row in csv.DictReader(file)
                if row["NetworkMode"] == "5G" and row["SNR"] not in ("-", "") and row["CQI"] not in ("-", "")
            ]
    _, number = np.unique([name for name, _, _ in rows], return_inverse=True)
    found = Reports(number, np.array([snr for _, snr, _ in rows]), np.array([cqi for _, _, cqi in rows]))
    return found.of((found.cqi >= 1) & (found.cqi <= 15))


def channels(tail: float) -> Floats:
    """SINR (16, k) in dB at which the radio's law reports each CQI: even between thresholds, exponential above 15."""
    need, part = nr.thresholds(nr.CQI_EFFICIENCY), (np.arange(_STEPS) + 0.5) / _STEPS
    found = np.empty((16, _STEPS))
    found[0] = need[0] - 3.0 * part
    found[1:15] = need[:-1, None] + part * np.diff(need)[:, None]
    found[15] = need[-1] - tail * np.log(1.0 - part)
    return found


def fit(rows: Reports) -> tuple[float, float, float, float]:
    """Offset, slope, spread of `modem_snr`, and the mean in dB by which the SINR at CQI 15 is above its threshold."""

    def wrong(x: Floats) -> float:
        spread, mean = np.exp(x[2]), x[0] + x[1] * channels(float(np.exp(x[3])))[rows.cqi]
        part = norm.cdf((rows.snr[:, None] + 0.5 - mean) / spread) - norm.cdf((rows.snr[:, None] - 0.5 - mean) / spread)
        return float(-np.log(part.mean(axis=1) + 1e-12).mean())

    best = minimize(wrong, [-3.0, 0.5, np.log(5.0), np.log(5.0)], method="Nelder-Mead").x
    return float(best[0]), float(best[1]), float(np.exp(best[2])), float(np.exp(best[3]))


def distances(rows: Reports, snr: Floats, cqi: Ints) -> Floats:
    """Bins of SNR (k, 3): lowest dB, rows, Kolmogorov-Smirnov distance of CQI there between `rows` and (snr, cqi)."""
    found = []
    for low in np.arange(LOWEST, HIGHEST, _WIDTH):
        mine, other = ((s >= low) & (s < low + _WIDTH) for s in (rows.snr, snr))
        if mine.sum() >= _LEAST:
            parts = [np.bincount(c, minlength=16) / max(len(c), 1) for c in (rows.cqi[mine], cqi[other])]
            found.append((low, mine.sum(), np.abs(np.cumsum(parts[0] - parts[1])).max()))
    return np.array(found)


def reported(rows: Reports, setting: ModemSnr, tail: float, seed: int = 1) -> tuple[Floats, Ints]:
    """SNR and CQI that the radio's phones report in channels which have the CQI of `rows`, some copies of each."""
    rng = np.random.default_rng(seed)
    cqi = np.repeat(rows.cqi, _COPIES)
    sinr = channels(tail)[cqi, rng.integers(0, _STEPS, len(cqi))]
    key = rng.integers(0, 2**63, len(cqi)).astype(np.uint64)
    return modem_snr(sinr, key, 0, setting.offset, setting.slope, setting.spread), cqi


def measure(folder: Path) -> dict[str, dict[str, float]]:
    """Distances on the files that the setting was not fitted to, means over rows and the worst bin."""
    rows = read(folder)
    found: dict[str, dict[str, float]] = {}
    for name, fitted in (("fitted to even files", rows.file % 2 == 0), ("fitted to odd files", rows.file % 2 == 1)):
        offset, slope, spread, tail = fit(rows.of(fitted))
        judged = rows.of(~fitted)
        setting = ModemSnr.model_construct(offset=offset, slope=slope, spread=spread)
        laws = {name: reported(judged, setting, tail)}
        if not found:
            laws = {
                "the radio's law": (judged.snr, nr.cqi(judged.snr)), **laws,
                "default setting": reported(judged, ModemSnr(), tail),
            }  # fmt: skip
        for law, (snr, cqi) in laws.items():
            bins = distances(judged, snr, cqi)
            mean = float((bins[:, 1] * bins[:, 2]).sum() / bins[:, 1].sum())
            near = float(bins[bins[:, 2] <= 0.15, 1].sum() / bins[:, 1].sum())
            found[law] = {"distance": mean, "worst": float(bins[:, 2].max()), "rows within 0.15": near}
            if law != "the radio's law":
                used = ModemSnr() if law == "default setting" else setting
                found[law] |= {"offset": used.offset, "slope": used.slope, "spread": used.spread}
    return found
