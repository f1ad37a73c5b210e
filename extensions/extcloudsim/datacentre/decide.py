"""The decisions at the beginning of a period, put together from the policies of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cosim.extensions.extcloudsim.datacentre import govern
from cosim.extensions.extcloudsim.datacentre.control import consolidate as moves_of
from cosim.extensions.extcloudsim.datacentre.layout import (
    DETECTORS,
    FLAGS,
    LAN,
    PLACERS,
    THR,
    Bools,
    Floats,
    Ints,
    Rules,
)
from cosim.extensions.extcloudsim.datacentre.own import Plain
from cosim.extensions.extcloudsim.datacentre.tally import View

if TYPE_CHECKING:
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreState


def rules_of(model: Datacentres, detector: int, admission: bool = False) -> Rules:
    """The settings as the compiled procedure wants them; at admissions nothing else moves."""
    s = model.settings
    return Rules(
        detector=detector,
        placer=PLACERS[s.placer] if isinstance(s.placer, str) else 0,
        threshold=s.threshold,
        safety=s.safety,
        in_order=int(admission),
        evacuate=int(s.evacuate and not admission),
        relocate=int(s.relocate and not admission),
        horizon=s.horizon,
        interval=s.period,
        overcommit=s.overcommit,
        worst_case=int(s.capping == "worst-case"),
        listed_twice=int(model.quirk("listed-twice")),
        fallback_divides=int(model.quirk("fallback-divides")),
        fixed_point=int(model.quirk("fixed-placement-point")),
        unweighted=int(model.quirk("unweighted-regression")),
        gives_up=int(admission or model.quirk("one-choice")),
    )


def view_of(model: Datacentres, state: DatacentreState, score: Floats, flags: Bools, point: Ints) -> View:
    """What the compiled procedure may look at."""
    there = model.alive & ((model.at >= 0) | model.crashed)
    order = np.argsort(model.came)
    return View(
        at=model.at.copy(),
        order=order[there[order]],
        demand=state.demand,
        history=np.ascontiguousarray(state.history.T),
        score=np.ascontiguousarray(score, np.float64),
        movable=model.alive & (model.arrival <= model.time),
        point=point,
        past_point=_past_point(model, state),
        up=model.up.copy(),
        flags=np.ascontiguousarray(flags, np.bool_),
        price=state.price,
        cap=state.cap if model.settings.capping != "none" else np.full(model.places, np.inf),
        correlated=int(model.settings.selector == "mc"),
    )


def admit(model: Datacentres, new: Ints) -> None:
    """Place machines that appear, in their order, by the capacity that they ask for."""
    asked = np.zeros(len(model.machines.mips), np.bool_)
    asked[new] = True
    state = model.state(np.where(asked, model.machines.mips, demand_of(model)))
    view = view_of(model, state, state.demand, model.up, govern.top(model.hosts, model.kinds))
    nothing = np.zeros_like(view.history)
    view = view._replace(order=np.append(view.order, new), history=nothing, movable=np.zeros_like(asked))
    rules = rules_of(model, THR, admission=True)
    who, where, _ = moves_of(model.hosts, model.kinds, model.machines, view, rules, model.wan)
    for machine, host in zip(who, where, strict=True):
        model.move(int(machine), int(host), fresh=asked[machine])
    model.crashed[new[model.at[new] < 0]] = True  # they wait for room


def demand_of(model: Datacentres) -> Floats:
    """(machines,) capacity wanted: as last seen, or as the predictor forecasts."""
    mips = model.machines.mips
    if model.settings.predictor is not None and model.seen:
        past = np.array(model.seen).T / mips[:, None]
        age = np.full(len(mips), model.time)
        _, peak, _ = model.settings.predictor(past, np.stack([age, past.max(axis=1)], axis=1))
        return np.where(model.alive, np.clip(peak, 0.0, 1.0), 0.0) * mips
    if model.quirk("knows-coming-load"):
        return model.utilisation(model.period) * mips
    return model.seen[-1].copy() if model.seen else np.where(model.alive, mips, 0.0)


def score_of(model: Datacentres, state: DatacentreState) -> Floats:
    """(machines,) the lowest leaves first."""
    m, selector = model.machines, model.settings.selector
    if callable(selector):
        return selector(state)
    if selector == "mu":
        return state.demand
    if selector == "rs":
        return model.random.random(len(m.ram))
    if selector == "mct":
        lan = np.diagonal(model.wan.bandwidth)[model.hosts.place[model.at]]
        slot = model.settings.slot
        return m.rate * m.price * slot * (np.floor(np.floor(m.ram / lan) / slot) + 1.0)
    return m.ram  # mmt, and mc where there are too few machines to correlate


def point_of(model: Datacentres, state: DatacentreState) -> Ints:
    """(hosts,) the operating points of the coming period: the governor's, or lower where a cap asks for it."""
    chosen = _governed(model, state)
    capping = model.settings.capping
    if capping == "none" or not np.isfinite(state.cap).any():
        return chosen
    hosts, machines = model.hosts, model.machines
    load = govern.loads(hosts, model.kinds, machines, model.at, state.demand)
    awake = np.zeros(len(hosts.kind), np.bool_)
    for where in (model.at, model.source):  # a machine on its way runs where it comes from
        awake[where[where >= 0]] = True
    there = model.at >= 0
    stake = np.bincount(model.at[there], (machines.rate * machines.price)[there], len(awake))
    judged = np.where(np.isfinite(load), 1.0, np.inf) if capping == "worst-case" else load
    watts = np.where(
        awake[:, None], govern.powers(hosts, model.kinds, judged), model.kinds.resting[hosts.kind][:, None]
    )
    watts = np.where(model.up[:, None], watts, 0.0)
    return govern.within_caps(chosen, load, watts, stake.astype(np.float64), hosts.place, state.cap)


def _governed(model: Datacentres, state: DatacentreState) -> Ints:
    """(hosts,) the operating points that the governor wants."""
    governor = model.settings.governor
    if callable(governor):
        return np.ascontiguousarray(governor(state), np.int64)
    hosts, kinds = model.hosts, model.kinds
    highest = govern.top(hosts, kinds)
    if governor == "performance":
        return highest
    if governor == "powersave":
        return np.zeros_like(highest)
    load = govern.loads(hosts, kinds, model.machines, model.at, state.demand)
    threshold = model.settings.threshold
    if governor == "ondemand":
        return govern.lowest_below(load, highest, threshold)
    watts = govern.powers(hosts, kinds, load)
    there = model.at >= 0
    worth = (model.machines.rate * model.machines.price)[there]
    stake = np.bincount(model.at[there], worth, len(highest)).astype(np.float64)
    return govern.least_cost(load, watts, threshold, state.price[hosts.place], stake)


def consolidate(model: Datacentres) -> None:
    """Set operating points and send machines on their way."""
    settings = model.settings
    if not model.seen and not model.quirk("knows-coming-load"):
        # nothing is known yet but what machines asked for, by which they were placed
        if model.settings.capping != "none" and np.isfinite(model.cap()).any():
            model.point = point_of(model, model.state(demand_of(model)))
        return
    state = model.state(demand_of(model))
    before = model.quirk("point-before-moves")
    if before:
        model.point = point_of(model, state)
    judged = model.point if before else _judging_point(model)
    flags = settings.detector(state) if callable(settings.detector) else model.up
    if settings.predictor is not None and not callable(settings.detector):
        detector = THR
    else:
        detector = FLAGS if callable(settings.detector) else DETECTORS[str(settings.detector)]
    view = view_of(model, state, score_of(model, state), flags, judged)
    rules = rules_of(model, detector)
    if callable(settings.placer):
        who, where = _by_function(model, state, view, rules)
    else:
        who, where, _ = moves_of(model.hosts, model.kinds, model.machines, view, rules, model.wan)
    duration = model.machines.ram[who]
    if model.quirk("vanishing-migrants"):  # they are away for whole slots
        duration = np.floor(np.floor(duration / LAN) / settings.slot)
    for i in np.argsort(duration, kind="stable"):  # those that are copied fastest arrive first
        model.move(int(who[i]), int(where[i]))
    if not before:
        model.point = point_of(model, model.state(state.demand))


def _by_function(model: Datacentres, state: DatacentreState, view: View, rules: Rules) -> tuple[Ints, Ints]:
    """The moves under a placement function of the user's, which is asked for hosts that are open and have room."""
    placer = model.settings.placer

    def choose(machine: int, load: Floats, free: Floats, closed: Bools) -> int:
        share = state.demand[machine] / model.hosts.mips
        fits = ~closed & (model.machines.ram[machine] <= free) & (load + share <= model.settings.threshold)
        host = int(placer(state, machine, np.where(fits, load, np.inf), free)) if callable(placer) else -1
        return host if 0 <= host < len(fits) and fits[host] else -1

    return Plain(model.hosts, model.kinds, model.machines, view, rules, model.wan, choose).moves()


def _past_point(model: Datacentres, state: DatacentreState) -> Ints:
    """The point at which the past is judged to detect over-load."""
    if not model.quirk("efficient-point"):
        return govern.top(model.hosts, model.kinds)
    if model.settings.governor != "cost":
        return model.point.copy()
    load = govern.loads(model.hosts, model.kinds, model.machines, model.at, state.demand)
    return govern.most_efficient(model.hosts, model.kinds, load)


def _judging_point(model: Datacentres) -> Ints:
    """The point at which load is judged: the highest that the governor may choose."""
    governor = model.settings.governor
    if governor == "powersave":
        return np.zeros_like(model.point)
    return model.point if callable(governor) else govern.top(model.hosts, model.kinds)
