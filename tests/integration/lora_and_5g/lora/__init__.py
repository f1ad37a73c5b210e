"""LoRa on the bus: probes far away reach a gateway slowly, and seldom."""

from cosim.contract.adapter import AdapterKind, Ports, Read
from cosim.contract.medium import Medium
from lora.airtime import LONGEST
from lora.config import LoraConfig


def _ports(config: LoraConfig) -> Ports:
    reads = [Read("mobility", required=False), Read("traffic", delayed=True, required=False)]
    reads += [Read("link_traffic", delayed=True, required=False)] if config.real else []
    return Ports(tuple(reads), ("link",))


ADAPTER = AdapterKind(
    name="lora",
    summary="LoRa links between devices and gateways: sensitivity, airtime by spreading factor, duty cycle",
    config="lora.config:LoraConfig",
    factory="lora.adapter:LoraAdapter",
    check="lora.check:problems",
    node={"lora": "lora.keys:Lora"},
    events={"jam": "lora.keys:Jam", "storm": "lora.keys:Storm"},
    media=("lora",),
    medium=Medium("lora0", "10.175.0.0/16", ("lora",), "link", served=True, mtu=LONGEST, compared=False),
    ports=_ports,
    example="lora:\n  exponent: 2.7\n",
)
