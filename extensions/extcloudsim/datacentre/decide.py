"""The decisions at the beginning of a period, put together from the policies of the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from cosim.contract.records import Floats, Ints
from cosim.extensions.extcloudsim.datacentre import govern
from cosim.extensions.extcloudsim.datacentre.control import consolidate as moves_of
from cosim.extensions.extcloudsim.datacentre.layout import DETECTORS, FLAGS, PLACERS, THR, Bools, PeriodRules
from cosim.extensions.extcloudsim.datacentre.tally import PeriodView

if TYPE_CHECKING:
    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.settings import DatacentreState


def rules_of(model: Datacentres, detector: int, admission: bool = False) -> PeriodRules:
    """The settings as the compiled procedure wants them; at admissions nothing else moves."""
    s = model.settings
    return PeriodRules(
        detector=detector, placer=PLACERS[s.placer] if isinstance(s.placer, str) else 0, threshold=s.threshold,
        safety=s.safety, in_order=int(admission), evacuate=int(s.evacuate and not admission),
        relocate=int(s.relocate and not admission), horizon=s.horizon, interval=s.period, overcommit=s.overcommit,
        worst_case=int(s.capping == "worst-case"),
    )  # fmt: skip


def view_of(model: Datacentres, state: DatacentreState, score: Floats, flags: Bools, point: Ints) -> PeriodView:
    """What the compiled procedure may look at."""
    there = model.alive & ((model.at >= 0) | model.crashed)
    order = np.argsort(model.came)
    return PeriodView(
        at=model.at.copy(), order=order[there[order]], demand=state.demand,
        history=np.ascontiguousarray(state.history.T), score=np.ascontiguousarray(score, np.float64),
        movable=model.alive & (model.arrival <= model.time), point=point, up=model.up.copy(),
        flags=np.ascontiguousarray(flags, np.bool_), price=state.price,
        cap=state.cap if model.settings.capping != "none" else np.full(model.places, np.inf),
        correlated=int(model.settings.selector == "mc"),
    )  # fmt: skip


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
    chosen = governed(model, state)
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


def governed(model: Datacentres, state: DatacentreState) -> Ints:
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


def consolidate(model: Datacentres, plainly: Callable[[Datacentres, Floats], list[tuple[int, int]]]) -> None:
    """Set operating points and send machines on their way; `plainly` makes the moves for a placer of the user's."""
    settings = model.settings
    if not model.seen:
        # nothing is known yet but what machines asked for, by which they were placed
        if model.settings.capping != "none" and np.isfinite(model.cap()).any():
            model.point = point_of(model, model.state(demand_of(model)))
        return
    state = model.state(demand_of(model))
    flags = settings.detector(state) if callable(settings.detector) else model.up
    if settings.predictor is not None and not callable(settings.detector):
        detector = THR
    else:
        detector = FLAGS if callable(settings.detector) else DETECTORS[str(settings.detector)]
    view = view_of(model, state, score_of(model, state), flags, judging_point(model))
    rules = rules_of(model, detector)
    if callable(settings.placer):
        who, where = np.array(plainly(model, state.demand), np.int64).reshape(-1, 2).T
    else:
        who, where, _ = moves_of(model.hosts, model.kinds, model.machines, view, rules, model.wan)
    for i in np.argsort(model.machines.ram[who], kind="stable"):  # those that are copied fastest arrive first
        model.move(int(who[i]), int(where[i]))
    model.point = point_of(model, model.state(state.demand))


def judging_point(model: Datacentres) -> Ints:
    """The point at which load is judged: the highest that the governor may choose."""
    governor = model.settings.governor
    if governor == "powersave":
        return np.zeros_like(model.point)
    return model.point if callable(governor) else govern.top(model.hosts, model.kinds)
