"""Runs as the logs that an srsRAN gNB and srsUE phones write, and those logs read back.

Three kinds of files, of which this module writes and reads the fields that the radio models:

- `gnb-NAME.log`, lines `TIME [METRICS ] [I] Scheduler UE pci=.. rnti=.. metrics: cqi=.. dl_ri=.. ...`, as a gNB of
  srsRAN Project logs its scheduler's metrics;
- `gnb-NAME.txt`, the console's trace: a table `pci rnti | cqi ri mcs brate ok nok (%) dl_bs | pusch rsrp ...`;
- `ue-NAME.csv`, the metrics of srsUE: columns apart by semicolons, `time` in ms.

Formats: docs.srsran.com, srsRAN Project "Outputs" and "Console Reference", srsRAN 4G "Command Line Reference". What
the radio does not model is `n/a`, and 0 where the format has no word for it (`dl_bs`). Counts are rounded to whole
blocks, rates to as many digits as the format has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from cosim.contract.delimited import StrPath, content, fault, records
from cosim.contract.errors import SetupError
from cosim.contract.node_keys import Cell
from cosim.contract.reading.logs import log_lines, understood, without_prefix
from cosim.contract.registry import adapter_kind
from cosim.extensions.radio_logs import EPOCH
from cosim.physics.radio import nr
from cosim.results.load import Run, load

Row = dict[str, Any]
_CELLS = "cells.csv"  # which node has which pci, and which phone had which rnti when
_LIGHT = 299_792_458.0  # m/s
_HEADER_EVERY = 10  # lines of the console's trace
_HEAD = (
    " " * 10 + "|" + "DL".center(43, "-") + "-|" + "UL".center(59, "-"),
    (
        " pci rnti | cqi  ri  mcs  brate   ok  nok  (%)  dl_bs | pusch  rsrp  ri  mcs  brate   ok  nok  (%)    bsr"
        "     ta  phr"
    ),
)
_CSV = (
    "time;cc;earfcn;pci;rsrp;pl;cfo;pci_neigh;rsrp_neigh;cfo_neigh;dl_mcs;dl_snr;dl_turbo;dl_brate;dl_bler;ul_ta;"
    "distance_km;speed_kmph;ul_mcs;ul_buff;ul_brate;ul_bler;rf_o;rf_u;rf_l;is_attached"
)
_LINE = re.compile(
    r"(?P<time>\d{4}-\S+) \[METRICS\s*\] \[I\].*? Scheduler UE (?:\w+=\S+ )*?pci=(?P<pci>\d+) "
    r"rnti=(?:0x)?(?P<rnti>[0-9a-f]+) metrics: (?P<rest>.*)"
)
_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9}
_AMOUNT = re.compile(r"(-?\d+(?:\.\d+)?)\s*([numkMG]?)(?:bps|s|%)?")


@dataclass(frozen=True, slots=True)
class LogFiles:
    """What was written."""

    folder: Path
    lines: Mapping[str, int]  # file -> lines of figures


def export(folder: Path, out: Path, *, epoch: datetime = EPOCH, force: bool = False) -> LogFiles:
    """Write the logs of the run in `folder` to the folder `out`; simulated time 0 is at `epoch`.

    Raises `SetupError` for a run that did not record `ue` and `gnb`, and for files that are there, unless `force`.
    """
    with closing(load(folder)) as run:
        rows = list(_rows(run))
    cells = sorted({row["cell"]: row["pci"] for row in rows if row["cell"]}.items(), key=lambda item: item[1])
    texts: dict[str, list[str]] = {}
    for cell, pci in cells:
        mine = [row for row in rows if row["pci"] == pci]
        texts[f"gnb-{cell}.log"] = [_line(row, epoch) for row in mine]
        texts[f"gnb-{cell}.txt"] = list(_trace(mine))
    for node in dict.fromkeys(row["node"] for row in rows):
        texts[f"ue-{node}.csv"] = [_CSV, *(_reported(row) for row in rows if row["node"] == node)]
    texts[_CELLS] = ["time;pci;rnti;cell;node", *_identities(rows)]
    take(out, texts, force=force)
    lines = {name: sum(line != "" and line not in _HEAD for line in text) for name, text in texts.items()}
    return LogFiles(out, lines)


def take(out: Path, texts: Mapping[str, list[str]], *, force: bool) -> None:
    """Write each text to a file of `out`. Raises `SetupError` where one is there already, unless `force`."""
    there = [str(out / name) for name in texts if (out / name).exists()]
    if there and not force:
        raise SetupError(f"{there[0]} is there already; name another folder with --out, or replace it with --force")
    if out.exists() and not out.is_dir():
        raise SetupError(f"{out} is a file; name a folder with --out")
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in texts.items():
        (out / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def logged(run: Run, *names: str) -> None:
    """Raise `SetupError` where the run has not recorded the signals `names`."""
    missing = [name for name in names if name not in run.signals]
    if missing:
        raise SetupError(
            f"the run {run.path} has not recorded '{missing[0]}', what phones and base stations log; "
            "write 'log: true' in the block of the adapter radio, and run it again"
        )


def read_log(path: StrPath) -> list[Row]:
    """The scheduler's metrics of UEs in a gNB's log: time, pci, rnti and the fields of each line; None for n/a.

    Raises `CellsError` where no line is understood.
    """
    found = []
    for line, match in enumerate(map(_LINE.search, log_lines(path)), 1):
        if match is None:
            continue
        fields = {name: _number(value) for name, value in re.findall(r"(\w+)=(\S+)", match["rest"])}
        with understood(path, line):
            head = {"time": datetime.fromisoformat(match["time"]), "pci": int(match["pci"])}
            found.append({**head, "rnti": int(match["rnti"], 16), **fields})
    if not found:
        raise fault(
            path, "has no line of the scheduler's metrics", hint="metrics: {enable_log: true} in the gNB's file"
        )
    return found


def read_trace(path: StrPath) -> list[Row]:
    """The lines of a gNB console's trace by the names of `read_log`, of any version that has a header of columns.

    Raises `CellsError` where no line is understood, and for rows that are not as long as their header.
    """
    found: list[Row] = []
    columns: list[str] = []
    for number, line in enumerate(log_lines(path), 1):
        words = without_prefix(line).replace("|", " ").split()
        if "pci" in words[:2] and "rnti" in words[:3]:
            columns = _columns(words)
        elif columns and len(words) > 2 and words[columns.index("pci")].isdigit():
            if len(words) != len(columns):
                raise fault(
                    path, f"has {len(words)} cells below {len(columns)} heads ({line.strip()[:60]})", line=number
                )
            row = dict(zip(columns, words, strict=True))
            with understood(path, number):
                identity = {"pci": int(row.pop("pci")), "rnti": int(row.pop("rnti"), 16)}
            found.append({name: _number(word) for name, word in row.items()} | identity)
    if not found:
        raise fault(path, "has no header 'pci rnti ...' with rows below it", hint="type t in the gNB's console")
    return found


def read_ue(path: StrPath) -> list[Row]:
    """The rows of srsUE's metrics, `time` in s; None for n/a."""
    lines = records(content(path), path, ";")
    _, names = next(lines, (1, []))
    whole = (zip_longest(names, cells[: len(names)], fillvalue="") for _, cells in lines if cells[0][:1] != "#")
    rows = [dict(cells) for cells in whole]
    return [{name: _number(v or "n/a") for name, v in row.items()} | {"time": float(row["time"]) / 1e3} for row in rows]


def _rows(run: Run) -> Iterator[Row]:
    """A row per phone and recorded moment, with the counts of the time since the moment before."""
    logged(run, "ue", "gnb", "link")
    spacing, share = _frame_of(run)
    slots = 1e3 * spacing / 15e3  # 1/s
    cells = [node for node in run.plan["scene"]["nodes"] if node["cell"] is not None]
    pci = {node["id"]: k for k, node in enumerate(cells, 1)}
    blocks = {node["id"]: nr.resource_blocks(Cell.model_validate(node["cell"]).bandwidth, spacing) for node in cells}
    times = [time for (time,) in run.sql("SELECT DISTINCT time FROM ue ORDER BY time").fetchall()]
    since = dict(zip(times[1:], (b - a for a, b in pairwise(times)), strict=True))
    first = next(iter(since.values()), 1.0)
    found = run.sql(
        "SELECT u.time, u.node, u.cell, u.rnti, u.rsrp, u.sinr, u.cqi, u.ri, u.mcs, u.bler, u.rate, u.prbs, "
        "g.sinr, g.mcs, g.bler, g.rate, g.prbs, g.buffer, l.distance, l.pathloss "
        "FROM ue u LEFT JOIN gnb g USING (time, node) LEFT JOIN link l USING (time, node) ORDER BY u.time, u.node"
    ).fetchall()
    for time, node, cell, rnti, rsrp, snr, cqi, ri, *ways, distance, loss in found:
        served = cell in pci
        down, up = ways[:4], ways[5:9]
        row: Row = {"time": time, "node": node, "cell": cell if served else "", "pci": pci.get(cell, 0), "rnti": rnti}
        row |= {"rsrp": rsrp, "snr": snr, "cqi": cqi, "ri": ri, "pathloss": loss, "sinr_up": ways[4]}
        row |= {"buffer": ways[9] or 0.0, "delay": distance / _LIGHT if served and distance is not None else None}
        for name, (mcs, bler, rate, prbs), part in (("dl", down, share), ("ul", up, 1.0 - share)):
            used = (prbs or 0.0) / blocks[cell] if served else 0.0
            sent = round(slots * part * used * since.get(time, first))
            lost = round(sent * (bler or 0.0))
            row |= {f"{name}_mcs": mcs or 0, f"{name}_rate": rate if used else 0.0}
            row |= {f"{name}_ok": sent - lost, f"{name}_nok": lost, f"{name}_prbs": round(sent * blocks.get(cell, 0))}
        yield row


def _frame_of(run: Run) -> tuple[float, float]:
    """Subcarrier spacing in Hz and the downlink's part of the time, of the adapter that wrote the logs."""
    block = next(one for one in run.plan["adapters"] if "ue" in one["writes"])
    config: Any = adapter_kind(block["use"]).load_config().model_validate(block["config"])
    return {"15 kHz": 15e3, "30 kHz": 30e3}[config.spacing], float(config.downlink_share)


def _line(row: Row, epoch: datetime) -> str:
    fields = {
        "cqi": row["cqi"], "dl_ri": f"{row['ri']:.1f}", "dl_mcs": row["dl_mcs"],
        "dl_brate": f"{_engineering(row['dl_rate'], 2)}bps", **_counts(row, "dl"), "dl_bs": 0,
        "dl_nof_prbs": row["dl_prbs"], "pusch_snr_db": _decibels(row["sinr_up"]), "pusch_rsrp_db": "n/a",
        "ul_ri": f"{row['ri']:.1f}", "ul_mcs": row["ul_mcs"], "ul_brate": f"{_engineering(row['ul_rate'], 2)}bps",
        **_counts(row, "ul"), "ul_nof_prbs": row["ul_prbs"], "bsr": _engineering(row["buffer"], 2),
        "ta": "n/a" if row["delay"] is None else f"{_engineering(2.0 * row['delay'], 0)}s", "last_phr": "n/a",
    }  # fmt: skip
    at = (epoch + timedelta(seconds=row["time"])).isoformat(timespec="microseconds")
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{at} [METRICS ] [I] Scheduler UE pci={row['pci']} rnti=0x{row['rnti']:04x} metrics: {text}"


def _counts(row: Row, way: str) -> dict[str, Any]:
    ok, lost = row[f"{way}_ok"], row[f"{way}_nok"]
    rate = f"{_percent(ok, lost)}%"
    return {f"{way}_nof_ok": ok, f"{way}_nof_nok": lost, f"{way}_error_rate": rate}


def _percent(ok: int, lost: int) -> int:
    return 100 * lost // (ok + lost) if ok + lost else 0


def _trace(rows: list[Row]) -> Iterator[str]:
    for k, row in enumerate(rows):
        if k % _HEADER_EVERY == 0:
            yield ""
            yield from _HEAD
        down = f"{row['cqi']:>3} {row['ri']:>3.1f}   {row['dl_mcs']:>2} {_engineering(row['dl_rate'], 1):>6}"
        up = f"{_decibels(row['sinr_up']):>5} {'n/a':>5} {row['ri']:>3.1f}   {row['ul_mcs']:>2}"
        up += f" {_engineering(row['ul_rate'], 2):>6}"
        tail = f"{_engineering(row['buffer'], 2):>6}"
        ta = "n/a" if row["delay"] is None else _engineering(2.0 * row["delay"], 0)
        yield (
            f"{row['pci']:>4}{row['rnti']:>5x} | {down} {_counted(row, 'dl')} {'0':>6} | {up} {_counted(row, 'ul')}"
            f" {tail} {ta:>6}  n/a"
        )


def _counted(row: Row, way: str) -> str:
    ok, lost = row[f"{way}_ok"], row[f"{way}_nok"]
    return f"{ok:>4} {lost:>4} {_percent(ok, lost):>3}%"


def _columns(words: Sequence[str]) -> list[str]:
    """Names of `read_log` for the heads of a trace: the uplink begins with its measurements, or where heads recur."""
    plain = {"brate": "brate", "ok": "nof_ok", "nok": "nof_nok", "(%)": "error_rate", "mcs": "mcs", "ri": "ri"}
    fixed = {"pusch": "pusch_snr_db", "pucch": "pucch_snr_db", "rsrp": "pusch_rsrp_db", "phr": "last_phr"}
    found: list[str] = []
    way = "dl"
    for word in words:
        if word in fixed or f"dl_{plain.get(word)}" in found:
            way = "ul"
        found.append(f"{way}_{plain[word]}" if word in plain else fixed.get(word, word))
    return found


def _reported(row: Row) -> str:
    """A row of srsUE's metrics; rates in bit/s, errors in percent, the buffer in bytes."""
    served = row["cell"] != ""

    def bler(way: str) -> float:
        sent = row[f"{way}_ok"] + row[f"{way}_nok"]
        return 100.0 * row[f"{way}_nok"] / sent if sent else 0.0

    values = [
        round(row["time"] * 1e3), 0, "n/a", row["pci"], f"{row['rsrp']:.2f}",
        "n/a" if row["pathloss"] is None else f"{row['pathloss']:.2f}", "n/a", "n/a", "n/a", "n/a",
        row["dl_mcs"], f"{row['snr']:.2f}", "n/a", f"{row['dl_rate']:.0f}", f"{bler('dl'):.2f}",
        "n/a" if row["delay"] is None else f"{2e6 * row['delay']:.3f}", "n/a", "n/a",
        row["ul_mcs"], f"{row['buffer']:.0f}", f"{row['ul_rate']:.0f}", f"{bler('ul'):.2f}", 0, 0, 0, int(served),
    ]  # fmt: skip
    return ";".join(map(str, values))


def _identities(rows: list[Row]) -> Iterator[str]:
    """From when on which phone had which identity; "" for no cell."""
    held: dict[str, tuple[int, int]] = {}
    for row in rows:
        now = (row["pci"], row["rnti"])
        if held.get(row["node"]) != now:
            held[row["node"]] = now
            here = f"{row['pci']};{row['rnti']:04x}" if row["pci"] else ";"
            yield f"{row['time']:g};{here};{row['cell']};{row['node']}"


def _decibels(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "n/a"
    return f"{min(max(value, -99.9), 99.9):.1f}"


def _engineering(value: float, digits: int) -> str:
    """A number with a prefix, three figures and at most `digits` after the point: 17.25M, 850k, 0."""
    if value == 0.0 or math.isnan(value):
        return "0"
    for prefix, factor in reversed(_PREFIXES.items()):
        if abs(value) >= factor * 0.9995 and (prefix or abs(value) >= 1.0):
            scaled = value / factor
            figures = max(0, min(digits, 2 - int(math.log10(abs(scaled)))))
            return f"{scaled:.{figures}f}{prefix}"
    return "0"


def _number(text: str) -> float | None:
    """The value of "17.2Mbps", "3%", "97n", "0x4601"; None for n/a and for text without a number."""
    match = _AMOUNT.fullmatch(text)
    return float(match[1]) * _PREFIXES[match[2]] if match else None
