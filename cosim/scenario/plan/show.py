"""A plan as text for people: what runs, in which order, who reads from whom, with which seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cosim.contract.entities import Event, Fleet, Link, Node, Scene, SlotRange, Workload
from cosim.contract.laws import Law
from cosim.scenario.plan.plan import AdapterPlan, Plan, Recording


def describe(plan: Plan) -> str:
    """The whole plan as plain text of at most some dozens of lines per adapter, kind or workload."""
    parts = [_head(plan), _adapters(plan), _nodes(plan.scene)]
    scene = plan.scene
    if scene.links:
        parts.append(_table("Links", ("between", "and", "rate", "delay", "loss"), [
            (_slots(scene, link.a), _slots(scene, link.b), _both(link), _late(link), _lost(link))
            for link in scene.links
        ]))  # fmt: skip
    if scene.workloads:
        header = ("name", "from", "arrivals", "input", "output", "work", "deadline")
        parts.append(_table("Workloads", header, [_workload(scene, workload) for workload in scene.workloads]))
    if plan.events:
        parts.append(_table("Events", ("at", "what", "where", "how"), [_event(scene, event) for event in plan.events]))
    parts.append(_table("Recorded", ("signal", "every", "columns", "nodes"), [
        (r.signal, _kept(r), ", ".join(r.columns) or "all",
         _slots(scene, [SlotRange(*part) for part in r.slots]) if r.slots else "all")
        for r in plan.recordings
    ]))  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _kept(recording: Recording) -> str:
    if not recording.keep:
        return "not kept"
    every = _seconds(recording.every) if recording.every else "step"
    return f"{every}, statistics over {_seconds(recording.summary)}" if recording.summary else every


def _head(plan: Plan) -> str:
    pacing = f"{plan.pacing:g} x real time" if plan.pacing else "as fast as possible"
    if plan.scene.real:
        pacing += f", real nodes in {plan.scene.real}"
    title = f"{plan.name}: {plan.title}" if plan.title else plan.name
    return (
        f"Plan of {title}\n"
        f"  hash      {plan.hash}\n"
        f"  duration  {_seconds(plan.duration)} in {plan.ticks:,} steps of {_seconds(plan.step)}, {pacing}\n"
        f"  seed      {plan.seed}\n"
        f"  lag       {plan.lag.policy}, warn {_seconds(plan.lag.warn)}, fail {_seconds(plan.lag.fail)}"
    )


def _adapters(plan: Plan) -> str:
    rows = []
    for number, adapter in enumerate(plan.adapters, 1):
        rows.append((str(number), adapter.name, adapter.use, _seconds(adapter.period * plan.step), _where(adapter),
                     adapter.origin, ", ".join(adapter.writes) or "-"))  # fmt: skip
    lines = [
        _table("Adapters, in the order of a step", ("", "name", "kind", "every", "runs", "origin", "writes"), rows)
    ]
    lines.append("")
    lines.append("Wiring")
    for adapter in plan.adapters:
        for wire in adapter.reads:
            sources = ", ".join(wire.sources) or "none"
            late = " (one step later)" if wire.delayed else ""
            lines.append(f"  {adapter.name} reads {wire.signal} from {sources}{late}")
    if lines[-1] == "Wiring":
        lines.append("  no adapter reads anything")
    width = max(len(adapter.name) for adapter in plan.adapters)
    if any(adapter.config for adapter in plan.adapters):
        lines += ["", "Settings, as written; `cosim adapters NAME` lists the others"]
        lines += [f"  {a.name:<{width}}  {_settings(a.config)}" for a in plan.adapters if a.config]
    lines.append("")
    lines.append("Seeds")
    lines += [f"  {a.name:<{width}}  {' '.join(f'{word:08x}' for word in a.seed)}" for a in plan.adapters]
    return "\n".join(lines)


def _settings(config: Mapping[str, Any]) -> str:
    """One line; a block or list inside is shown by its size."""
    parts = []
    for key, value in config.items():
        if isinstance(value, dict | list):
            parts.append(f"{key}: {len(value)} entr{'y' if len(value) == 1 else 'ies'}")
        else:
            parts.append(f"{key}: {str(value).lower() if isinstance(value, bool) else value}")
    return ", ".join(parts)


def _where(adapter: AdapterPlan) -> str:
    if adapter.connect:
        return f"at {adapter.connect}"
    return "own process" if adapter.isolated else "in process"


def _nodes(scene: Scene) -> str:
    counts: Counter[tuple[str, str]] = Counter((node.kind, node.tier) for node in scene.nodes)
    first: dict[tuple[str, str], Node] = {}
    for node in scene.nodes:
        first.setdefault((node.kind, node.tier), node)
    rows = [(kind, tier, str(n), first[kind, tier].id, _host(first[kind, tier])) for (kind, tier), n in counts.items()]
    rows += [
        (fleet.template.kind, fleet.template.tier, f"<= {fleet.capacity}",
         f"{fleet.name} (from {fleet.adapter}){_computers(fleet)}", _host(fleet.template))
        for fleet in scene.fleets
    ]  # fmt: skip
    return _table(f"Nodes, {scene.capacity} slots", ("kind", "tier", "count", "first", "host"), rows)


def _computers(fleet: Fleet) -> str:
    """The computers on board, where there are any."""
    found = [node.id for _, node in fleet.computers()]
    if len(found) < 2:
        return f", on board {found[0]}" if found else ""
    return f", on board {found[0]} .. {found[-1]}"


def _host(node: Node) -> str:
    return f"{node.cores} x {node.clock / 1e9:g} GHz" if node.cores else "-"


def _workload(scene: Scene, workload: Workload) -> tuple[str, ...]:
    rate = {"poisson": f"poisson {workload.rate:g} Hz", "trace": f"trace {workload.trace}"}.get(workload.arrivals, "")
    if not rate:
        bag = f"bag N({workload.bag[0]:g}, {workload.bag[1]:g}) " if workload.arrivals == "bag" else ""
        rate = f"{bag}every {_seconds(1 / workload.rate)}"
    work = _work(workload.work, workload.accelerator, workload.operations)
    if workload.graph:
        work = "; ".join(f"{stage.name} {_work(stage.work, stage.accelerator, stage.operations)}"
                         for stage in workload.graph)  # fmt: skip
    share = "" if workload.share == 1 else f" ({workload.share:.3g} of them)"
    deadline = "-" if workload.deadline == float("inf") else _seconds(workload.deadline)
    return (workload.name, _slots(scene, workload.sources) + share, rate, _law(workload.input, "B"),
            _law(workload.output, "B"), work, deadline)  # fmt: skip


def _work(work: Law, accelerator: str, operations: Law) -> str:
    return _law(work, "cycles") + (f" + {_law(operations, 'FLOP')} on {accelerator}" if accelerator else "")


def _event(scene: Scene, event: Event) -> tuple[str, ...]:
    where = _slots(scene, event.nodes) or "everywhere"
    if event.link is not None:
        where = f"{_slots(scene, event.link[0])} / {_slots(scene, event.link[1])}"
    return (_seconds(event.at), event.do, where, _worse(event) if event.do == "degrade" else "")


def _worse(event: Event) -> str:
    """What a degraded link loses; what stays as it was is left out."""
    parts = (
        f"delay +{_seconds(event.delay)}" if event.delay else "",
        f"loss +{event.loss * 100:.3g} %" if event.loss else "",
        f"rate {event.rate * 100:.3g} %" if event.rate != 1 else "",
    )
    return ", ".join(part for part in parts if part)


def _slots(scene: Scene, parts: Iterable[SlotRange]) -> str:
    """Names of the nodes and fleets in `parts`, the first of many."""
    names = [scene.template(part.first).id for part in parts]
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:2])}, ... {names[-1]} ({len(names)})"


def _law(law: Law, unit: str) -> str:
    if law.share > 0.0:
        usual = _law(replace(law, share=0.0), unit)
        return f"{usual}, {100.0 * law.share:g} % x {law.times:g}"
    if law.law == "uniform":
        return f"{_number(law.a, unit)}..{_number(law.b, unit)}"
    return ("" if law.law == "fixed" else "~ ") + _number(law.a, unit)


def _number(value: float, unit: str) -> str:
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g} {prefix}{unit}"
    return f"{value:g} {unit}"


def _rate(value: float) -> str:
    return _number(value, "bit/s")


def _both(link: Link) -> str:
    rate, back = link.state.rate, link.back.rate
    return _rate(rate) + (f" / {_rate(back)}" if back != rate else "")


def _late(link: Link) -> str:
    state = link.state
    reordered = f", {100 * state.reorder:.3g} % reordered" if state.reorder else ""
    return _seconds(state.delay) + (f" +- {_seconds(state.jitter)}" if state.jitter else "") + reordered


def _lost(link: Link) -> str:
    state = link.state
    burst = f", {state.burst:.3g} in a row" if state.burst else ""
    return f"{state.loss:.3g}{burst}" + (f", {100 * state.duplicate:.3g} % twice" if state.duplicate else "")


def _seconds(value: float) -> str:
    if value and value < 1:
        return f"{value * 1e3:.6g} ms" if value >= 1e-3 else f"{value * 1e6:.6g} us"
    return f"{value:.10g} s"


def _table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (header, *rows)]
    return "\n".join([title, *(f"  {line}".rstrip() for line in lines)])
