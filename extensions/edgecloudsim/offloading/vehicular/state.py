"""The state of the vehicular model: that of all offloading models, and what is its own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cosim.contract.errors import Problem, ScenarioError
from cosim.contract.records import Records
from cosim.extensions.edgecloudsim.offloading import layout
from cosim.extensions.edgecloudsim.offloading.build import lay_out, weighted
from cosim.extensions.edgecloudsim.offloading.checks import check
from cosim.extensions.edgecloudsim.offloading.layout import OffloadingState
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy
from cosim.extensions.edgecloudsim.offloading.vehicular import kernel, learned, links, observed
from cosim.extensions.edgecloudsim.offloading.vehicular.choices import POLICIES
from cosim.extensions.edgecloudsim.offloading.vehicular.road import Road

ARRAYS: Final = ("links", "spans", "recent", "arms", "players", "features", "carried", "weights")

META = np.dtype(
    [
        ("segment", "f8"),  # m, length of each
        ("link_count", "i8"),
        ("edge_turn", "i8"), ("cloud_turn", "i8"),  # next machines
        ("edge_mips", "f8"),  # of a core of the first machine
        ("cloud_mips", "f8"),
        ("watching", "i8"),  # whether outcomes are noted for the policy
        ("window", "i8"),  # of outcomes, the present one
        ("rounds", "f8"),  # of the bandit, 0: not begun
        ("mean_length", "f8"),  # MI, of a task
        ("shortest_interval", "f8"),  # s, between tasks of the busiest application
        ("log_idle", "f8"),  # log of the probability that no player sends
        *((name, "i8") for name in ARRAYS),
        *layout.META.descr,  # behind: numba takes a record that begins with another for that other
    ],
    align=True,
)  # fmt: skip

# What the links of each kind are expected to carry of a device's tasks before any is measured.
_SHARES: Final = {"wlan": 0.40, "man": 0.35, "wan": 0.15, "gsm": 0.10}


def accept(study: OffloadingStudy, *, custom: bool) -> None:
    """Raise `ScenarioError` for a study that the vehicular kernel cannot simulate; compiles nothing."""
    check(study, POLICIES, custom=custom)
    _check_road(study, custom=custom)
    _links(study)


def prepare(study: OffloadingStudy, seed: int, *, trace: bool, custom: bool) -> OffloadingState:
    """The checked study as the vehicular kernel takes it, with everything due at time 0 done."""
    accept(study, custom=custom)
    common = lay_out(study, seed, trace=trace, custom=custom, devices=False)
    meta: Records = np.zeros(1, META)
    for name in layout.META.names or ():
        meta[name] = common.meta[name]
    road, apps = Road(study.places), study.applications
    state = OffloadingState(
        meta,
        common.arrays
        | _links(study)
        | {
            "spans": road.span,
            "recent": np.zeros(observed.KEPT * observed.OPTIONS, observed.RECENT),
            "arms": np.zeros(observed.OPTIONS, observed.ARM),
            "players": np.zeros(study.devices if study.policy == "game-theory" else 0, observed.PLAYER),
            "features": np.zeros((observed.OPTIONS, len(observed.FEATURES))),
            "weights": learned.load() if study.policy == "ai-based" and not custom else np.zeros(0),
        },
    )
    meta["policy"] = 0 if custom else POLICIES.index(study.policy)
    meta["watching"] = custom or study.policy != "random"
    meta["segment"], meta["link_count"] = road.length, len(state["links"])
    meta["edge_mips"], meta["cloud_mips"] = state["vms"]["rate"][0], state["vms"]["rate"][meta["edge_vms"][0]]
    meta["mean_length"] = weighted(study, "length")
    meta["shortest_interval"] = min(app.interarrival for app in apps)
    state.link_up()
    kernel.act(meta, 0.0, kernel.BEGIN)
    return state


def _check_road(study: OffloadingStudy, *, custom: bool) -> None:
    found = []
    for place in study.places:
        if place.attractiveness not in (0, 1, 2):
            path = f"places.{place.name}.attractiveness"
            found.append(Problem(f"class {place.attractiveness}", path=path, hint="0, 1 or 2"))
    if not study.places[0].x > 0.0:
        path = f"places.{study.places[0].name}.x"
        found.append(Problem(f"{study.places[0].x:g} m", path=path, hint="half the length of a segment, above 0"))
    if not any(group for place in study.places for group in place.hosts):
        found.append(Problem("no place has a machine", path="places", hint="give one of them a machine"))
    if not any(study.cloud):
        found.append(Problem("the cloud has no machine", path="cloud", hint="give it one"))
    for name in ("wlan", "man", "wan", "gsm"):
        if not 0.0 < getattr(study.links, name) < np.inf:
            rate = getattr(study.links, name)
            found.append(Problem(f"{rate:g} bit/s", path=f"links.{name}", hint="a rate above 0"))
    for app in study.applications:
        for name in ("upload", "download", "length"):
            if not getattr(app, name) > 0.0:
                path = f"applications.{app.name}.{name}"
                found.append(Problem(f"{getattr(app, name):g}", path=path, hint="more than 0"))
        if study.policy == "game-theory" and not custom and not app.max_delay > 0.0:
            path = f"applications.{app.name}.max_delay"
            found.append(Problem("none is stated", path=path, hint="the policy game-theory needs one above 0"))
    if found:
        raise ScenarioError(found)


def _links(study: OffloadingStudy) -> dict[str, NDArray[Any]]:
    """The links with the load that a share of all tasks would make of them, before any is measured."""
    given, count, apps = study.links, len(study.places), study.applications
    usage = np.array([app.usage / 100.0 for app in apps])
    intervals = np.array([app.interarrival for app in apps])
    sizes = [usage @ [app.upload for app in apps] / usage.sum(), usage @ [app.download for app in apps] / usage.sum()]
    per_device = float((usage / intervals).sum())
    strict = "links-begin-by-whole-devices" in study.quirks
    near = study.devices // count if strict else study.devices / count
    shared = [(given.man, given.lan_delay, "man"), (given.wan, given.wan_propagation, "wan"),
              (given.gsm, given.gsm_propagation, "gsm")]  # fmt: skip
    rates = [given.wlan] * (2 * count) + [rate for rate, _, _ in shared for _ in range(2)]
    lags = [0.0] * (2 * count) + [lag for _, lag, _ in shared for _ in range(2)]
    load = [per_device * near * _SHARES["wlan"]] * (2 * count)
    load += [per_device * study.devices * _SHARES[name] for _, _, name in shared for _ in range(2)]
    size = np.array([sizes[0]] * count + [sizes[1]] * count + sizes * 3)
    with np.errstate(divide="ignore"):
        rows = links.lay_out(rates, lags, 1.0 / np.array(load), size)
    if strict and np.any(rows["rate"] / (size * links.BITS) <= load):
        raise ScenarioError(
            Problem(
                f"a link is overloaded before the first task: {study.devices} devices expect more than it carries",
                path="devices",
                hint="fewer devices, faster links, or no quirk links-begin-by-whole-devices",
            )
        )
    man = slice(2 * count + int(links.MAN_UP), 2 * count + int(links.MAN_DOWN) + 1)
    rows["background"][man] = study.devices * links.MESSAGES * links.WINDOW
    rows["background_total"][man] = rows["background"][man] * links.MESSAGE
    largest = max(weighted(study, "upload"), weighted(study, "download")) * links.BITS
    carried = np.array([given.wlan * count, given.wan, given.gsm]) / largest  # tasks/s
    return {"links": rows, "carried": carried}
