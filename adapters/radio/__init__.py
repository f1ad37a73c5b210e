"""Radio links between devices and base stations, from their positions and their traffic."""

from typing import Any

from cosim.adapters.radio.signals import LOGS, TRUTH
from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.signals import Signal

EXAMPLE = """\
radio:
  model: ci
  exponent: 3.1
  shadowing: 8.1 dB
  hysteresis: 3 dB
  time_to_trigger: 160 ms
"""

_READS = (
    Read("mobility", required=False),
    *(Read(signal, delayed=True, required=False) for signal in ("traffic", "battery")),
)


def _ports(config: Any) -> Ports:  # noqa: ANN401 - its configuration, which is not imported to list it
    alarms = (Read("alarm", delayed=True),) if config.response is not None else ()
    near = ("neighbour_cell",) if config.neighbours else ()
    sent = ("destination",) if config.response is not None and config.response.sends else ()
    return Ports(reads=(*_READS, *alarms), writes=("link", "cell", *(LOGS if config.log else ()), *near, *sent))


def _signals(config: Any) -> tuple[Signal, ...]:  # noqa: ANN401
    return TRUTH if config.log else ()


ADAPTER = AdapterKind(
    name="radio",
    summary="5G link model: path loss, shadowing, interference, handover, shared airtime",
    config="cosim.adapters.radio.config:RadioConfig",
    factory="cosim.adapters.radio.adapter:RadioAdapter",
    check="cosim.adapters.radio.check:problems",
    acts_on=frozenset({"degrade", "fail"}),
    outside="",
    ports=_ports,
    signals=_signals,
    node={"jammer": "cosim.contract.jammer:Jammer", "sector": "cosim.adapters.radio.keys:Sector"},
    events={"jammer-on": "cosim.contract.jammer:JammerOn", "jammer-off": "cosim.contract.jammer:JammerOff"},
    media=("nr",),
    compiled="cosim.physics.radio.warm:compiled",
    example=EXAMPLE,
)
