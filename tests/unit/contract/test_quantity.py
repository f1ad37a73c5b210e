"""A quantity of hosts, workloads and vehicles is one line: key, record, engine's column and what a batch may vary."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Annotated, NamedTuple

import pytest
from pydantic import BaseModel

from cosim.adapters.vehicle.keys import Pack, Vehicle
from cosim.contract import entities, equipment
from cosim.contract.block import Block, OnlyWith, no_effect
from cosim.contract.declared import keys_of
from cosim.contract.link import LinkQuantities, LinkState
from cosim.contract.quantity import DeclaredQuantity, carried, columns, quantities, those
from cosim.contract.signals import TASK
from cosim.engine.continuum import layout, parameters
from cosim.physics.vehicles import quantities as vehicles
from cosim.scenario import demand, hardware, model
from cosim.scenario.plan.scene import _states, power

TABLES = [  # what declares, the block, the key that the block stands under, the engine's row
    (entities.HostQuantities, model.KindBlock, "", layout.KIND),
    (entities.WorkloadQuantities, model.WorkloadBlock, "", layout.WORKLOAD),
    (equipment.PowerStates, hardware.SleepBlock, "sleep", layout.MACHINE),
    (equipment.PowerStates, hardware.BootBlock, "boot", layout.MACHINE),
    (equipment.ScalingQuantities, hardware.ScalingBlock, "", layout.MACHINE),
    (equipment.AcceleratorQuantities, hardware.AcceleratorBlock, "", layout.ACCELERATOR),
    (entities.AgreementQuantities, demand.SlaBlock, "", None),
    (entities.TariffQuantities, demand.TariffBlock, "", None),
    (entities.TariffWindow, demand.WindowBlock, "", None),
    (entities.GreenWindow, demand.GreenBlock, "", None),
    (entities.EventQuantities, model.EventBlock, "", None),
    (vehicles.CopterQuantities, Vehicle, "", None),
    (vehicles.RoverQuantities, Vehicle, "", None),
    (vehicles.PackQuantities, Pack, "", None),
]


@pytest.mark.parametrize(("record", "block", "inside", "row"), TABLES)
def test_every_quantity_is_a_key_and_a_column(record, block: type[BaseModel], inside, row) -> None:
    declared = quantities(record)
    assert not is_dataclass(record) or [one.name for one in fields(record)] == [*declared]
    places = {name: (one.key or name).rpartition(".")[::2] for name, one in declared.items()}
    keys = {key for outer, key in places.values() if outer == inside}
    assert keys
    assert keys <= {*block.model_fields}
    for name, dtype in columns(record) if row is not None else ():
        assert row.fields[name][0] == dtype


def test_what_a_batch_varies_and_what_results_show_is_declared() -> None:
    hosts = {"clock", "cores", "slots", "contention", "dispatch", "radio_energy_sent", "radio_energy_received"}
    assert hosts == {*those(entities.HostQuantities, "batched")}
    assert {*parameters.KIND} - hosts == {"price_cpu", "price_transfer", "price_energy"}
    assert {*those(LinkQuantities, "batched")} == {"energy"} <= {*parameters.LINK}
    assert {*those(entities.WorkloadQuantities, "batched")} <= {*parameters.WORKLOAD}
    assert those(LinkState, "batched") == ("rate", "delay", "loss")
    assert {*those(LinkState, "batched")} <= {*parameters.LINK}
    assert those(entities.WorkloadQuantities, "reported") == ("deadline", "value")
    assert [TASK.column(name).unit for name in ("deadline", "value")] == ["s", "1"]


class Oven(NamedTuple):
    """A record of the test."""

    shelves: Annotated[int, DeclaredQuantity("", "how many", least=1, most=9, optional=True)] = 3
    heat: Annotated[float, DeclaredQuantity("power", "of it", key="fire.heat")] = 2.0
    timer: Annotated[float, DeclaredQuantity("time", "until it is done", above=True), OnlyWith("shelves")] = float(
        "inf"
    )


@keys_of(Oven, "fire")
class FireBlock(Block):
    """What stands under `fire`."""


@keys_of(Oven)
class OvenBlock(Block):
    """A block of the test."""

    fire: FireBlock | None = None


def test_keys_stand_where_they_are_declared_and_an_infinite_default_must_be_given() -> None:
    block = OvenBlock.model_validate({"timer": "3 s", "fire": {"heat": "1 kW"}})
    assert carried(block, Oven) == {"heat": 1000.0, "timer": 3.0}
    assert Oven(**carried(OvenBlock.model_validate({"timer": "1 s", "shelves": 2}), Oven)) == Oven(2, 2.0, 1.0)
    for wrong in ({}, {"timer": "1 s", "shelves": 2.5}, {"timer": "1 s", "shelves": 10}, {"timer": "0 s"}):
        with pytest.raises(ValueError, match=r"timer|shelves"):
            OvenBlock.model_validate(wrong)
    assert [at for at, _ in no_effect(block)] == [("timer",)]


def test_a_host_without_powers_of_its_own_wakes_and_boots_at_full_load() -> None:
    keys = {"power": {"idle": "5 W", "max": "20 W"}, "sleep": {"after": "3 s", "wake": "1 s"}}
    block = model.NodeBlock.model_validate({"kind": "edge", "tier": "edge", **keys})
    assert power(block.power).table == (5.0, 20.0)
    assert _states(block) == equipment.PowerStates(3.0, 0.0, 1.0, 20.0, 0.0, 20.0, 0.0)
