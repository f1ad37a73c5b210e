"""The networks of the surrogates, in torch: SimTune's equations 7 to 10, and the LSTM of the baselines.

torch is imported when a network is made; its modules and tensors are untyped here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Literal

from cosim.contract.errors import require

Torch = Any  # the module, its tensors and layers
Architecture = Literal["simtune", "lstm"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the paper leaves open."""

    width: int = 32  # of every encoding
    heads: int = 4
    rounds: int = 2  # r of equation 9
    dropout: float = 0.1  # Monte-Carlo dropout of W2


def torch_module() -> Torch:
    """torch on one thread, so that sums have one order. Raises `SetupError`, which explains how to get it."""
    require("learn", "torch")
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    return torch


def modules(architecture: Architecture, workload: int, hosts: int, parameters: int, qos: int, sizes: Sizes) -> Torch:
    """Layers for F workload columns, C features per host, e parameter features and q QoS figures."""
    nn, d = torch_module().nn, sizes.width
    if architecture == "lstm":
        return nn.ModuleDict(
            {
                "recurrent": nn.LSTM(workload + parameters, d, batch_first=True),
                "head": nn.Sequential(nn.Linear(d + hosts, d), nn.Tanh(), nn.Linear(d, qos)),
            }
        )
    encoder = nn.TransformerEncoderLayer(d, sizes.heads, 2 * d, dropout=0.0, batch_first=True)
    decoder = nn.TransformerDecoderLayer(d, sizes.heads, 2 * d, dropout=0.0, batch_first=True)
    return nn.ModuleDict(
        {
            "series": nn.Linear(workload, d),
            "encoder": nn.TransformerEncoder(encoder, 1, enable_nested_tensor=False),
            "workload": nn.Linear(d, d),
            "phi": nn.Linear(parameters, d),
            "again": nn.Linear(d, d),
            "norm": nn.LayerNorm(d),
            "hosts": nn.Linear(hosts, d),
            "neighbours": nn.ModuleList([nn.Linear(d, d, bias=False) for _ in range(sizes.rounds)]),
            "gate": nn.GRUCell(d, d),
            "decoder": nn.TransformerDecoder(decoder, 1),
            "head": nn.Linear(d, qos),
        }
    )


def positions(torch: Torch, steps: int, width: int) -> Torch:
    """(steps, width) sines and cosines that distinguish the steps of a series (Vaswani et al. 2017)."""
    at = torch.arange(steps)[:, None] / 10_000.0 ** (2.0 * torch.arange(width // 2)[None] / width)
    return torch.cat([torch.sin(at), torch.cos(at)], dim=1)


def workload(torch: Torch, layers: Torch, series: Torch, dropout: float, count: int) -> Torch:
    """Equation 7: W2 (count, T, d) of series (1 or count, T, F).

    The dropout stays active when the network answers, so that answers have a spread (Monte-Carlo dropout).
    """
    d = layers["workload"].in_features
    w1 = layers["encoder"](layers["series"](series) + positions(torch, series.shape[1], d))
    w2 = torch.relu(layers["workload"](w1.expand(count, -1, -1)))
    return torch.nn.functional.dropout(w2, dropout, training=True)


def parameters(torch: Torch, layers: Torch, features: Torch) -> Torch:
    """Equation 8: phi2 (n, d) of parameter features (n, e)."""
    once = torch.relu(layers["phi"](features))
    return torch.relu(layers["norm"](layers["again"](once) + once))


def hosts(torch: Torch, layers: Torch, graph: Torch) -> Torch:
    """Equation 9: G1 (n, H, d) of hosts (n, H, C), a fully connected graph.

    In every round a host sums what the others send, and a gated recurrent unit, the same for all rounds,
    takes it in. A host does not send to itself.
    """
    state = torch.tanh(layers["hosts"](graph))
    n, count, d = state.shape
    for neighbours in layers["neighbours"]:
        sent = neighbours(state)
        heard = sent.sum(dim=1, keepdim=True) - sent
        state = layers["gate"](heard.reshape(n * count, d), state.reshape(n * count, d)).reshape(n, count, d)
    return state


def forward(
    torch: Torch, kind: Architecture, layers: Torch, series: Torch, graph: Torch, features: Torch, dropout: float
) -> Torch:
    """(n, q) normalised QoS of n parameter vectors; `series` and `graph` have n rows, or one for all.

    simtune: equation 10. The three encodings are concatenated as the decoder's memory, and phi2 is what
    the decoder decodes. lstm: the parameters are appended to every step of the series (DiffTune).
    """
    n = len(features)
    if kind == "lstm":
        steps = torch.cat([series.expand(n, -1, -1), features[:, None].expand(-1, series.shape[1], -1)], dim=2)
        said, _ = layers["recurrent"](steps)
        return torch.sigmoid(layers["head"](torch.cat([said[:, -1], graph.mean(dim=1).expand(n, -1)], dim=1)))
    phi = parameters(torch, layers, features)[:, None]
    w2 = workload(torch, layers, series, dropout, n)
    g1 = hosts(torch, layers, graph).expand(n, -1, -1)
    decoded = layers["decoder"](phi, torch.cat([w2, phi, g1], dim=1))
    return torch.sigmoid(layers["head"](decoded[:, 0]))
