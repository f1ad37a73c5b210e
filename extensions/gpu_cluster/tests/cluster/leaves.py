"""Resource files of equal leaves."""

from typing import Any

from cosim.extensions.gpu_cluster.cluster.resources import Resources


def regular(
    leaves: int,
    down: int = 32,
    up: int = 32,
    ocs: int = 8,
    spines: int | None = None,
    *,
    per_server: int = 8,
    **more: Any,
) -> Resources:
    """A cluster of equal leaves: uplink i of each goes to OCS (i mod ocs), or to spine (i mod spines)."""
    many, name, side = (spines, "spine", "ports") if spines else (ocs, "ocs", "radix")
    used = [0] * many
    cables = []
    for k in range(leaves):
        for i in range(up):
            x = i % many
            cables.append([f"leaf-{k}:up{i}", f"{name}-{x}:p{used[x]}"])
            used[x] += 1
    tops = [{"id": f"{name}-{x}", side: max(1, used[x])} for x in range(many)]
    return Resources.model_validate({
        "gpus": {"count": leaves * down, "per_server": per_server, **({"pcie_domains": 1} if per_server % 2 else {})},
        "leaves": [{"id": f"leaf-{k}", "down_ports": down, "up_ports": up} for k in range(leaves)],
        "spines": tops if spines else None, "ocs": [] if spines else tops, "cables": cables, **more,
    })  # fmt: skip
