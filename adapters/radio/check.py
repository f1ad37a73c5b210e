"""For what the radio refuses a scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cosim.adapters.radio.config import SPACING, RadioConfig, Response
from cosim.adapters.radio.keys import Sector
from cosim.contract.adapter import Context
from cosim.contract.entities import Node
from cosim.contract.errors import Problem
from cosim.contract.jammer import Jammer

LOWEST, HIGHEST = 0.5e9, 100e9  # Hz, of 3GPP TR 38.901


def problems(config: RadioConfig, context: Context) -> list[Problem]:
    """Base stations without a place or with a channel that there is none of, and a scene without any."""
    cells = [node for node in context.scene.nodes if node.cell is not None and context.serves(node.cell.by)]
    if not cells:
        return [
            Problem(
                "the radio has no base station: no node of the scenario has a 'cell'",
                path="nodes",
                hint="give at least one node a cell, for example bs-1: {tier: edge, at: [0 m, 0 m], cell: {}}",
            )
        ]
    from cosim.physics.radio import nr  # needs numpy

    found = [*_jammers(context, SPACING[config.spacing]), *_sectors(context)]
    if config.height_loss != 0.0 and config.model != "ci":
        hint = "3GPP's laws have the height in them; leave it out, or write model: ci"
        text = f"'height_loss' belongs to the model ci, not to {config.model}"
        found.append(Problem(text, f"adapters.{context.name}.height_loss", hint=hint))
    if config.modem_snr is not None and not config.log:
        text = "'modem_snr' is about the phones' log, which is not written"
        found.append(Problem(text, f"adapters.{context.name}.modem_snr", hint="write log: true as well"))
    found += _spare(config, context.name, {node.id: node for node in cells})
    found += _orders(config, context)
    if config.model not in ("ci", "free-space"):
        found += _beyond(config.model, {node.id: node.cell.carrier for node in cells if node.cell is not None})
    for node in cells:
        if node.position is None:
            hint = "write at: [0 m, 0 m, 0 m]"
            found.append(Problem(f"base station '{node.id}' has no position", path=f"nodes.{node.id}.at", hint=hint))
        try:
            nr.resource_blocks(node.cell.bandwidth if node.cell else 0.0, SPACING[config.spacing])
        except ValueError as error:
            found.append(Problem(str(error), path=f"nodes.{node.id}.cell.bandwidth"))
    return found


def _beyond(model: str, carriers: Mapping[str, float]) -> Iterator[Problem]:
    """Carriers that the law of a 3GPP model does not hold for, each once."""
    for carrier in sorted({carrier for carrier in carriers.values() if not LOWEST <= carrier <= HIGHEST}):
        names = [name for name, theirs in carriers.items() if theirs == carrier]
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        text = f"the law of {model} holds for carriers of 0.5 to 100 GHz, not for {carrier:g} Hz of '{names[0]}'{more}"
        yield Problem(text, f"nodes.{names[0]}.cell.carrier", hint="write model: ci or free-space", fatal=False)


def _spare(config: RadioConfig, name: str, cells: Mapping[str, Node]) -> list[Problem]:
    """Spare cells that are none, or that nothing wakes."""
    where, response = f"adapters.{name}.response", config.response
    if response is None:
        return []
    found = []
    for one in response.spare:
        if one not in cells:
            text = f"'{one}' is no base station of {name}"
            found.append(Problem(text, f"{where}.spare", hint=f"there are {', '.join(cells)}"))
    waking = response.do in ("spare-cell", "relay-drone") or response.own
    if waking and not response.spare and not response.own:
        found.append(Problem(f"'{response.do}' needs base stations to wake", f"{where}.spare", hint="spare: [bs-2]"))
    if response.spare and not waking:
        text = f"'spare' belongs to the responses spare-cell and relay-drone, not to {response.do}"
        found.append(Problem(text, f"{where}.spare", hint="write do: spare-cell, or take 'spare' away"))
    still = [one for one in response.spare if one in cells and "vehicle" not in dict(cells[one].keys)]
    if response.do == "relay-drone" and still:
        text = f"'{still[0]}' is a relay that cannot fly"
        hint = f"give {still[0]} a vehicle: {{frame: copter}}, and a mission with alarm: true"
        found.append(Problem(text, f"nodes.{still[0]}.vehicle", hint=hint))
    return [*found, *_beside(response, where)]


def _beside(response: Response, where: str) -> Iterator[Problem]:
    """Keys that belong to another response, and a policy of the user's own that there is not."""
    given = response.model_fields_set
    for key in ("hold", "settle", "to", "height"):
        if response.own and key in given:
            text = f"'{key}' belongs to the radio's own responses; a policy is asked at every step"
            yield Problem(text, f"{where}.{key}", hint="take it away")
        elif key == "to" and response.to == "alarms" and response.do != "relay-drone":
            yield Problem(f"'to' belongs to relay-drone, not to {response.do}", f"{where}.to", hint="take it away")
        elif key == "height" and key in given and response.to != "alarms":
            text = "'height' is that of relays that fly to alarms; a mission has its own heights"
            yield Problem(text, f"{where}.height", hint="write to: alarms as well, or take it away")
    if response.own:
        from cosim.schedulers import SchedulerError, scheduler  # imports what the scenario names

        try:
            scheduler(response.do).policy("radio")
        except SchedulerError as error:
            yield Problem(str(error), f"{where}.do", hint="docs/jamming.md has an example")


def _orders(config: RadioConfig, context: Context) -> Iterator[Problem]:
    """Relays that are sent to alarms, while their vehicles do not fly there."""
    response = config.response
    if response is None or response.to != "alarms":
        return
    known = [name for given in context.offered.values() for name in given.get("ordered", ())]
    for one in response.spare:
        if any("ordered" in given for given in context.offered.values()) and one not in known:
            text = f"'{one}' is sent to alarms, but its vehicle does not fly there"
            hint = f"write missions: {{{one}: {{ordered: true}}}} in the block of the vehicles"
            yield Problem(text, f"adapters.{context.name}.response.to", hint=hint)


def _sectors(context: Context) -> list[Problem]:
    """Antenna patterns where this adapter has no base station, or with keys that do not fit one another."""
    found = []
    for node in context.scene.nodes:
        block = Sector.of(node)
        if block is None:
            continue
        if node.cell is None or not context.serves(node.cell.by):
            text = f"'{node.id}' has a sector and no cell of {context.name}"
            hint = "give the node a 'cell' that this adapter serves, or take 'sector' away"
            found.append(Problem(text, f"nodes.{node.id}.sector", hint=hint))
        found += [Problem(text, f"nodes.{node.id}.sector.{key}") for key, text in block.mistakes()]
    for fleet in context.scene.fleets:
        if Sector.of(fleet.template) is not None:
            text = f"the members of fleet '{fleet.name}' cannot have a sector"
            found.append(Problem(text, f"nodes.{fleet.name}.sector", hint="give the block to a node with a cell"))
    return found


def _jammers(context: Context, spacing: float) -> list[Problem]:
    """Jammers that are wrong, or have blocks that their band lacks."""
    from cosim.physics.radio import jammer_set, nr

    found = jammer_set.problems(context.scene)
    for node in context.scene.nodes:
        block = Jammer.of(node)
        if block is None or block.blocks is None:
            continue
        try:
            most = nr.resource_blocks(block.bandwidth, spacing)
        except ValueError as error:
            found.append(Problem(str(error), f"nodes.{node.id}.jammer.bandwidth"))
            continue
        if block.blocks[1] >= most:
            text = f"a band of {block.bandwidth * 1e-6:g} MHz has the blocks 0 to {most - 1}"
            found.append(Problem(text, f"nodes.{node.id}.jammer.blocks"))
    return found
