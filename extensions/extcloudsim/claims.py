"""Table 3 of MLSysOps D4.3, made again: what foresight saves; `claims.toml` has its numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import SetupError
from cosim.extensions.extcloudsim.datacentre.layout import Hosts, Machines
from cosim.extensions.extcloudsim.datacentre.model import Datacentres
from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of
from cosim.extensions.extcloudsim.datacentre.settings import DatacentreSettings
from cosim.extensions.extcloudsim.predict.foresight import policies
from cosim.extensions.traces import planetlab

DAYS = ("20110409", "20110412")  # of PlanetLab, on which nothing was trained
CAPACITY, RAM = 4.0, 32_000.0  # of a host: cores, MB
SIZES = ((0.5, 600.0), (1.0, 900.0), (2.0, 1700.0), (4.0, 1700.0))  # of machines: cores, MB
LIMIT = 0.9  # of load, for all
ROWS = {"LRMMT": "lrmmt", "PeakLife": "learned", "LSTM": "lstm", "Oracle": "oracle"}


def day(data: Path, name: str) -> NDArray[np.float64]:
    """Utilisation (machines, 288) of a day: a folder as CloudSim ships it, or the packed table.

    Raises `SetupError` where there is neither.
    """
    for place in (data / name, data / "planetlab" / name, data / "planetlab" / f"planetlab_{name}.csv.gz"):
        if place.exists():
            return planetlab.read(place).utilisation.astype(np.float64)
    raise SetupError(
        f"'{data}' has no folder {name}: give the folder of PlanetLab's days, as CloudSim ships it in"
        " modules/cloudsim-examples/src/main/resources/workload/planetlab, with --set data=FOLDER"
    )


def world(use: NDArray[np.float64], vms: int, seed: int) -> tuple[Any, ...]:
    """Hosts, kinds, machines, utilisation and first places; machines and their sizes drawn by seed."""
    random = np.random.default_rng(seed)
    chosen = use[random.permutation(len(use))[:vms]]
    count = len(chosen)
    cores, ram = np.array(SIZES)[random.integers(0, len(SIZES), count)].T
    hosts = max(1, count // 2)
    where = np.full(count, -1)
    load, full = np.zeros(hosts), np.zeros(hosts)
    for i in np.argsort(-chosen[:, 0] * cores, kind="stable"):  # first fit by the first value
        need = chosen[i, 0] * cores[i]
        free = (load + need <= 0.7 * CAPACITY) & (full + ram[i] <= RAM)
        where[i] = np.argmax(free) if free.any() else np.argmin(load)
        load[where[i]] += need
        full[where[i]] += ram[i]
    none = np.zeros(hosts, np.int64)
    return (
        Hosts(none, none, np.full(hosts, CAPACITY), np.full(hosts, RAM), np.zeros(hosts)),
        kinds_of([HostKind(idle=90.0, full=220.0)]),
        Machines(cores.copy(), ram.copy(), np.zeros(count, np.int64), np.ones(count), np.full(count, 1e-5)),
        chosen,
        where,
    )


def settings(policy: str, use: NDArray[np.float64]) -> DatacentreSettings:
    """How a policy decides."""
    if policy == "lrmmt":
        return DatacentreSettings(
            detector="lr", safety=1.2, threshold=LIMIT, selector="mmt", placer="power-aware", governor="performance"
        )
    return DatacentreSettings(governor="performance", **policies(policy, use, LIMIT))


def simulate(policy: str, use: NDArray[np.float64], vms: int, seed: int) -> dict[str, float]:
    """The figures of one day under one policy."""
    hosts, kinds, machines, chosen, where = world(use, vms, seed)
    model = Datacentres(hosts, kinds, machines, chosen, settings(policy, chosen), at=where)
    model.advance(chosen.shape[1] * 300.0)
    books = model.ledger()
    return {
        "migrations": float(books.migrations),
        "violating_share": books.violating / books.served,
        "overloaded_share": books.over_periods / books.active_periods,
        "energy_kwh": float(books.energy.sum()) / 3.6e6,
        "active_hosts": books.active_periods / chosen.shape[1],
    }


def table3(_: str, seed: int, __: None, *, data: str, vms: int) -> dict[str, dict[str, float]]:
    """Migrations saved against LRMMT and machine-periods with too little, %, of a day and machines by seed."""
    use = day(Path(data), DAYS[seed % len(DAYS)])
    found = {row: simulate(policy, use, vms, seed) for row, policy in ROWS.items()}
    moved = max(found["LRMMT"]["migrations"], 1.0)
    return {
        row: {
            **({} if row == "LRMMT" else {"migrations saved, %": 100.0 * (1.0 - one["migrations"] / moved)}),
            "violations, %": 100.0 * one["violating_share"],
        }
        for row, one in found.items()
    }
