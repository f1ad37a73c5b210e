"""A scene and the adapter's block as the study that the model wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cosim.contract.entities import Fleet, Node, Scene, Workload
from cosim.contract.errors import Problem, ScenarioError
from cosim.extensions.edgecloudsim.adapter.config import (
    ApplicationBlock,
    EnergyBlock,
    Host,
    OffloadingConfig,
    PlaceBlock,
)
from cosim.extensions.edgecloudsim.offloading.quirks import compatible
from cosim.extensions.edgecloudsim.offloading.study import (
    Application,
    EdgePlace,
    Energy,
    OffloadingStudy,
    StudyLinks,
    Vm,
)

MEGA = 1e6
KILO = 1e3
HOUR = 3600.0  # s


@dataclass(frozen=True, slots=True)
class OffloadingWorld:
    """The study, and where its parts are in the scene."""

    study: OffloadingStudy
    fleet: Fleet  # the devices
    places: tuple[int, ...]  # slot of each place
    cloud: int  # slot, -1: none
    workloads: tuple[int, ...]  # index in the scene of each application


class _Reader:
    """Collects all mistakes, so that they are reported together."""

    def __init__(self, config: OffloadingConfig, scene: Scene, name: str) -> None:
        self.config, self.scene, self.name = config, scene, name
        self.problems: list[Problem] = []

    def wrong(self, path: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(message, path=path, hint=hint))

    def own(self, path: str) -> str:
        return f"adapters.{self.name}.{path}"

    def fleet(self) -> Fleet | None:
        fleets = [fleet for fleet in self.scene.fleets if fleet.adapter == self.name]
        if len(fleets) != 1:
            message = f"'{self.name}' needs exactly one fleet, the scenario has {len(fleets)}"
            self.wrong("nodes", message, f"write one node with  fleet: {self.name}")
            return None
        (fleet,) = fleets
        if fleet.capacity < self.config.devices:
            message = f"there are {self.config.devices} devices, the fleet holds {fleet.capacity}"
            self.wrong(f"nodes.{fleet.name}.capacity", message, f"set it to {self.config.devices}")
        if fleet.template.tier != "device":
            self.wrong(f"nodes.{fleet.name}.tier", f"the devices are of tier {fleet.template.tier}", "remove 'tier'")
        return fleet

    def places(self) -> list[tuple[int, EdgePlace]]:
        slots = {node.id: slot for slot, node in enumerate(self.scene.nodes)}
        found = []
        for number, (name, block) in enumerate(self.config.places.items()):
            path = self.own(f"places.{name}")
            slot = slots.get(name, -1)
            if slot < 0:
                self.wrong(path, f"there is no node '{name}'", f"write it under nodes: {name}: {{kind: edge, at: ...}}")
                continue
            node = self.scene.nodes[slot]
            if node.tier != "edge":
                self.wrong(path, f"node '{name}' is of tier {node.tier}, a place is of tier edge")
            found.append((slot, self._place(name, block, node, number)))
        return found

    def _place(self, name: str, block: PlaceBlock, node: Node, number: int) -> EdgePlace:
        position = node.position
        if position is None:
            self.wrong(
                f"nodes.{name}", "a place needs a position", "write 'at: [east, north]', for example [120 m, 40 m]"
            )
            position = (0.0, 0.0, 0.0)
        path = self.own(f"places.{name}.hosts")
        power = node.power.table if node.power else (0.0, 0.0)
        return EdgePlace(
            name=name,
            x=position[0],
            y=position[1],
            wlan=number if block.wlan is None else block.wlan,
            attractiveness=block.attractiveness,
            hosts=self._hosts(block.hosts, node, path),
            costs=(_exact(node.price_transfer * KILO), node.price_cpu, 0.0, 0.0),
            power=(power[0], power[-1]),
        )

    def _hosts(self, blocks: Sequence[Host] | None, node: Node, path: str) -> tuple[tuple[Vm, ...], ...]:
        if blocks is not None:
            return tuple(machines_of(block) for block in blocks)
        if node.cores == 0:
            self.wrong(path, f"node '{node.id}' has no cpu and no machines are given", "write 'cpu' or 'hosts'")
            return ()
        return ((Vm(node.cores, node.clock / MEGA),),)

    def cloud(self) -> tuple[int, tuple[tuple[Vm, ...], ...]]:
        slots = [slot for slot, node in enumerate(self.scene.nodes) if node.tier == "cloud"]
        if len(slots) > 1:
            names = ", ".join(self.scene.nodes[slot].id for slot in slots)
            self.wrong("nodes", f"the model has one cloud, the scenario has {names}")
        if not slots:
            if self.config.cloud:
                self.wrong(
                    self.own("cloud"), "there is no node of tier cloud", "write under nodes:  cloud: {kind: cloud}"
                )
            return -1, ()
        node = self.scene.nodes[slots[0]]
        if self.config.cloud is None and node.cores == 0:
            return slots[0], ()
        return slots[0], self._hosts(self.config.cloud, node, self.own("cloud"))

    def applications(self, fleet: Fleet | None) -> list[tuple[int, Application]]:
        indices = {workload.name: index for index, workload in enumerate(self.scene.workloads)}
        found = []
        for name, block in self.config.applications.items():
            index = indices.get(name, -1)
            if index < 0:
                known = ", ".join(indices) or "none"
                self.wrong(self.own(f"applications.{name}"), f"there is no workload '{name}'", f"workloads: {known}")
                continue
            workload = self.scene.workloads[index]
            self._fits(workload, fleet)
            found.append((index, _application(workload, block)))
        return found

    def _fits(self, workload: Workload, fleet: Fleet | None) -> None:
        path = f"workloads.{workload.name}"
        for key, words in workload.specialities().items():
            if key != "arrivals":
                self.wrong(f"{path}.{key}", f"the model knows no {words}", "remove it, or use the adapter 'continuum'")
        if workload.arrivals != "poisson":
            self.wrong(f"{path}.arrivals", "the model draws exponential intervals", "write 'poisson' and a rate")
        if fleet is not None and not any(part.first == fleet.first for part in workload.sources):
            self.wrong(f"{path}.from", f"the devices of '{fleet.name}' do not make it", f"write 'from: {fleet.name}'")
        if workload.start > 0.0 or workload.stop != float("inf"):
            self.wrong(path, "the model has no 'start' and 'stop'", "remove them")


def _exact(value: float) -> float:
    """`value` without the error in the last digits that a change of unit leaves."""
    return float(f"{value:.14g}")


def _application(workload: Workload, block: ApplicationBlock) -> Application:
    on_off = workload.active > 0.0
    return Application(
        name=workload.name,
        usage=_exact(100.0 * workload.share),
        interarrival=_exact(1.0 / workload.rate),
        active=workload.active if on_off else _exact(1.0 / workload.rate),  # with no idle time: any length will do
        idle=workload.idle if on_off else 0.0,
        upload=_exact(workload.input.mean / KILO),
        download=_exact(workload.output.mean / KILO),
        length=_exact(workload.work.mean / MEGA),
        cores=block.cores,
        cloud_probability=_exact(100.0 * block.cloud_probability),
        delay_sensitivity=block.delay_sensitivity,
        max_delay=workload.deadline if workload.deadline != float("inf") else 0.0,
        load_edge=_exact(100.0 * block.load_edge),
        load_cloud=_exact(100.0 * block.load_cloud),
        load_mobile=_exact(100.0 * block.load_mobile),
    )


def machines_of(host: Host) -> tuple[Vm, ...]:
    """The virtual machines of a host, one by one."""
    return tuple(Vm(block.cores, block.mips, _exact(block.image / MEGA)) for block in host for _ in range(block.count))


def _links(config: OffloadingConfig) -> StudyLinks:
    given = config.links
    return StudyLinks(
        wlan=given.wlan or 0.0,
        man=given.man or 0.0,
        wan=given.wan or 0.0,
        gsm=given.gsm or 0.0,
        lan_delay=given.lan_delay,
        wan_propagation=given.wan_propagation,
        gsm_propagation=given.gsm_propagation,
        wlan_servers=given.wlan_servers,
    )


def _energy(block: EnergyBlock) -> Energy:
    low, high = (_exact(100.0 * part) for part in block.initial)
    return Energy(
        device_idle=block.device_idle,
        device_max=block.device_max,
        cloud_idle=block.cloud_idle,
        cloud_max=block.cloud_max,
        battery=_exact(block.battery / HOUR),
        initial=(low, high),
        mortal=block.mortal,
        nanojoule_per_bit={name: _exact(value * 1e9) for name, value in block.per_bit.items()},
    )


def quirks_of(config: OffloadingConfig) -> frozenset[str]:
    """The quirks that are on: those of `physics`, with the switches of `quirks` applied."""
    found = compatible(config.model) if config.physics == "compatible" else frozenset[str]()
    on = {name for name, wanted in config.quirks.items() if wanted}
    off = {name for name, wanted in config.quirks.items() if not wanted}
    return (found | on) - off


def build(config: OffloadingConfig, scene: Scene, name: str, duration: float) -> OffloadingWorld:
    """The study of `scene` over `duration` (s). Raises `ScenarioError` with all that is wrong with it."""
    reader = _Reader(config, scene, name)
    fleet = reader.fleet()
    places = reader.places()
    cloud, machines = reader.cloud()
    applications = reader.applications(fleet)
    if reader.problems or fleet is None:
        raise ScenarioError(reader.problems)
    bounds = config.device_machine
    study = OffloadingStudy(
        model=config.model,
        architecture=config.architecture,
        policy=config.policy,
        devices=config.devices,
        duration=duration,
        warm_up=config.warm_up,
        applications=tuple(application for _, application in applications),
        places=tuple(place for _, place in places),
        links=_links(config),
        cloud=machines,
        device_vm=None if bounds is None else (machines_of([bounds[0]])[0], machines_of([bounds[1]])[0]),
        dwell=(config.dwell[0], config.dwell[1], config.dwell[2]),
        load_interval=config.load_interval,
        location_interval=config.location_interval,
        access_interval=config.access_interval,
        energy=None if config.energy is None else _energy(config.energy),
        quirks=quirks_of(config),
    )
    return OffloadingWorld(
        study, fleet, tuple(slot for slot, _ in places), cloud, tuple(index for index, _ in applications)
    )
