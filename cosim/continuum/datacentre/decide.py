"""The decisions at the beginning of a period, put together from the policies of the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cosim.continuum.datacentre import govern
from cosim.continuum.datacentre.control import View
from cosim.continuum.datacentre.control import consolidate as moves_of
from cosim.continuum.datacentre.layout import DETECTORS, FLAGS, PLACERS, THR, Bools, Floats, Ints, Rules
from cosim.continuum.datacentre.own import Plain

if TYPE_CHECKING:
    from cosim.continuum.datacentre.model import Datacentres
    from cosim.continuum.datacentre.settings import State


def rules_of(model: Datacentres, detector: int, evacuate: bool = True) -> Rules:
    """The settings as the compiled procedure wants them."""
    s = model.settings
    return Rules(
        detector=detector,
        placer=PLACERS[s.placer] if isinstance(s.placer, str) else 0,
        threshold=s.threshold,
        safety=s.safety,
        evacuate=int(s.evacuate and evacuate),
        relocate=int(s.relocate and evacuate),
        horizon=s.horizon,
        interval=s.period,
        listed_twice=int(model.quirk("listed-twice")),
        fallback_divides=int(model.quirk("fallback-divides")),
        fixed_point=int(model.quirk("fixed-placement-point")),
        unweighted=int(model.quirk("unweighted-regression")),
    )


def view_of(model: Datacentres, state: State, score: Floats, flags: Bools, point: Ints) -> View:
    """What the compiled procedure may look at."""
    there = model.alive & ((model.at >= 0) | model.crashed)
    return View(
        at=model.at.copy(),
        order=np.ascontiguousarray(model.order[there[model.order]]),
        demand=state.demand,
        history=state.history,
        asked=model.history(asked=True) if model.quirk("slowed-history") else state.history,
        score=np.ascontiguousarray(score, np.float64),
        movable=model.alive & (model.arrival <= model.time),
        point=point,
        up=model.up.copy(),
        flags=np.ascontiguousarray(flags, np.bool_),
        price=state.price,
        correlated=int(model.settings.selector == "mc"),
    )


def admit(model: Datacentres, new: Ints) -> None:
    """Place machines that appear, one after another, by the capacity that they ask for."""
    mips = np.where(model.alive, model.machines.mips, 0.0)
    for machine in new:
        state = model.state(mips)
        view = view_of(model, state, mips, model.up, govern.top(model.hosts, model.kinds))
        view = view._replace(order=np.append(view.order, machine), history=np.zeros_like(state.history))
        view = view._replace(asked=view.history)
        who, where, _ = moves_of(model.hosts, model.kinds, model.machines, view, rules_of(model, THR, False), model.wan)
        for one, host in zip(who, where, strict=True):
            if one == machine:
                model.move(int(machine), int(host), fresh=True)
    waiting = new[model.at[new] < 0]
    model.crashed[waiting] = True


def demand_of(model: Datacentres) -> Floats:
    """(machines,) capacity wanted: as last seen, or what the predictor says."""
    mips = model.machines.mips
    if model.settings.predictor is not None and model.seen:
        past = np.array(model.seen).T / mips[:, None]
        age = np.full(len(mips), model.time)
        _, peak, _ = model.settings.predictor(past, np.stack([age, past.max(axis=1)], axis=1))
        return np.where(model.alive, np.clip(peak, 0.0, 1.0), 0.0) * mips
    if model.quirk("knows-coming-load"):
        return model.utilisation(model.period) * mips
    return model.seen[-1].copy() if model.seen else np.where(model.alive, mips, 0.0)


def score_of(model: Datacentres, state: State) -> Floats:
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


def point_of(model: Datacentres, state: State) -> Ints:
    """(hosts,) the operating points of the coming period."""
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
    stake = np.bincount(model.at[there], (model.machines.rate * model.machines.price)[there], len(highest))
    return govern.least_cost(load, watts, threshold, state.price[hosts.place], stake)


def consolidate(model: Datacentres) -> None:
    """Set operating points and send machines on their way."""
    settings = model.settings
    if not model.seen and not model.quirk("knows-coming-load"):
        return  # nothing is known yet but what machines asked for, by which they were placed
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
    for i in np.argsort(duration, kind="stable"):  # those that are copied fastest arrive first
        model.move(int(who[i]), int(where[i]))
    if not before:
        model.point = point_of(model, model.state(state.demand))


def _by_function(model: Datacentres, state: State, view: View, rules: Rules) -> tuple[Ints, Ints]:
    """The moves under a placement function of the user's, which is asked for hosts that are open and have room."""
    placer = model.settings.placer

    def choose(machine: int, load: Floats, free: Floats, closed: Bools) -> int:
        share = state.demand[machine] / model.hosts.mips
        fits = ~closed & (model.machines.ram[machine] <= free) & (load + share <= model.settings.threshold)
        host = int(placer(state, machine, np.where(fits, load, np.inf), free)) if callable(placer) else -1
        return host if 0 <= host < len(fits) and fits[host] else -1

    return Plain(model.hosts, model.kinds, model.machines, view, rules, model.wan, choose).moves()


def _judging_point(model: Datacentres) -> Ints:
    """The point at which load is judged: the highest that the governor may choose."""
    governor = model.settings.governor
    if governor == "powersave":
        return np.zeros_like(model.point)
    return model.point if callable(governor) else govern.top(model.hosts, model.kinds)
