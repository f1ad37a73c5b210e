"""LoRa on the bus: probes far away reach a gateway slowly."""

from cosim.contract.adapter import AdapterKind, Ports, Read

ADAPTER = AdapterKind(
    name="lora",
    summary="LoRa links between devices and gateways: log-distance loss, spreading factors, airtime",
    config="lora.config:LoraConfig",
    factory="lora.adapter:LoraAdapter",
    check="lora.check:problems",
    node={"lora": "lora.keys:Lora"},
    events={"jam": "lora.keys:Jam"},
    media=("lora",),
    ports=Ports(reads=(Read("mobility", required=False),), writes=("link",)),
    example="lora:\n  exponent: 2.7\n",
)
