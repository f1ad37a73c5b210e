"""Radio links between devices and base stations, from their positions and their traffic."""

from cosim.contract.adapter import AdapterKind, Ports, Read

EXAMPLE = """\
radio:
  model: ci
  exponent: 3.1
  shadowing: 8.1 dB
  hysteresis: 3 dB
  time_to_trigger: 160 ms
"""

ADAPTER = AdapterKind(
    name="radio",
    summary="5G link model: path loss, shadowing, interference, handover, shared airtime",
    config="adapters.radio.config:RadioConfig",
    factory="adapters.radio.adapter:RadioAdapter",
    check="adapters.radio.check:problems",
    ports=Ports(
        reads=(Read("mobility", required=False), Read("traffic", delayed=True, required=False)),
        writes=("link", "cell"),
    ),
    media=("nr",),
    compiled="cosim.radio.warm:compiled",
    example=EXAMPLE,
)
