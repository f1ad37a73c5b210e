"""For what the adapter refuses a scene."""

from __future__ import annotations

from cosim.contract.adapter import Context
from cosim.contract.errors import Problem
from lora.config import LoraConfig
from lora.keys import Lora


def problems(_config: LoraConfig, context: Context) -> list[Problem]:
    """Radios without a place, and devices without a gateway."""
    radios = [(node, lora) for node in context.scene.nodes if (lora := Lora.of(node)) is not None]
    found = [
        Problem("has a LoRa radio but no position", f"nodes.{node.id}", hint="write at: [0 m, 0 m]")
        for node, _ in radios
        if node.position is None
    ]
    if not any(lora.role == "gateway" for _, lora in radios):
        found.append(Problem("no node is a gateway", "nodes", hint="write  lora: {role: gateway}  at one"))
    return found
