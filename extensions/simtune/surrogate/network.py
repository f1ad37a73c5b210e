"""A surrogate network: trained on simulations, asked for QoS vectors, and for gradients of its reality gap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import process_time

import numpy as np
from numpy.typing import ArrayLike

from cosim.contract.records import Floats, Ints
from cosim.extensions.simtune.surrogate import layers
from cosim.extensions.simtune.surrogate.layers import Architecture, Sizes, Torch, torch_module


@dataclass(frozen=True, slots=True)
class TrainingOptions:
    """How a network is trained; rate, decay and split are the paper's."""

    rate: float = 1e-4  # of Adam
    decay: float = 1e-5
    tested: float = 0.2  # share of the rows that decide when to stop
    epochs: int = 400  # at most
    patience: int = 20  # epochs without a better test loss
    batch: int = 16
    seconds: float = float("inf")  # of CPU


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How training went."""

    epochs: int
    loss: float  # of equation 11 per test row, at the best epoch
    r2: float  # of the test rows, all figures together
    stopped: str  # early stop, epochs, budget of time


class QosNetwork:
    """f^(W, phi, G; theta): QoS vectors in (0, 1) of parameter features under conditions.

    `workload` F, `hosts` C, `parameters` e and `qos` q are the widths of inputs and output. Everything
    random, dropout included, follows from `seed` and the order of the calls. Raises `SetupError` without torch.
    """

    def __init__(
        self, workload: int, hosts: int, parameters: int, qos: int, *, architecture: Architecture = "simtune",
        sizes: Sizes | None = None, seed: int = 1,
    ) -> None:  # fmt: skip
        self._torch = torch_module()
        self.architecture, self.sizes = architecture, sizes or Sizes()
        self._random = np.random.default_rng(np.random.SeedSequence([seed, 0x4E4E]))
        with self._seeded():
            self._layers = layers.modules(architecture, workload, hosts, parameters, qos, self.sizes)
        self._optimiser: Torch = None

    @contextmanager
    def _seeded(self) -> Iterator[None]:
        """torch's random numbers follow from this network's seed, whatever others draw."""
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(int(self._random.integers(2**31)))
            yield

    def _tensor(self, values: ArrayLike) -> Torch:
        return self._torch.from_numpy(np.array(values, np.float32))

    def _ask(self, series: Torch, graph: Torch, features: Torch) -> Torch:
        return layers.forward(self._torch, self.architecture, self._layers, series, graph, features, self.sizes.dropout)

    def fit(
        self,
        series: ArrayLike,
        graph: ArrayLike,
        features: ArrayLike,
        qos: ArrayLike,
        training: TrainingOptions | None = None,
    ) -> TrainingResult:
        """Minimise equation 11, the sum of ||Q - f^||, over rows; goes on from the present weights.

        `series` (n or 1, T, F), `graph` (n or 1, H, C), `features` (n, e), `qos` (n, q). The weights at
        the lowest test loss are kept.
        """
        how, torch = training or TrainingOptions(), self._torch
        w, g, x, y = map(self._tensor, (series, graph, features, qos))
        order = self._random.permutation(len(x))
        tested = max(1, round(how.tested * len(x)))
        test, train = order[:tested], order[tested:]
        if self._optimiser is None:
            self._optimiser = torch.optim.Adam(self._layers.parameters(), lr=how.rate, weight_decay=how.decay)

        def said(rows: Ints) -> Torch:
            return self._ask(w if len(w) == 1 else w[rows], g if len(g) == 1 else g[rows], x[rows])

        def test_loss() -> float:
            with torch.no_grad():
                return float(torch.linalg.vector_norm(said(test) - y[test], dim=1).mean())

        began, best, kept, waited, epoch, stopped = process_time(), np.inf, None, 0, 0, "epochs"
        with self._seeded():
            while epoch < how.epochs and stopped == "epochs":
                mixed = self._random.permutation(train)
                for first in range(0, len(mixed), how.batch):
                    rows = mixed[first : first + how.batch]
                    difference = said(rows) - y[rows]
                    loss = torch.sqrt((difference**2).sum(dim=1) + 1e-10).mean()
                    self._optimiser.zero_grad()
                    loss.backward()
                    self._optimiser.step()
                epoch += 1
                now = test_loss()
                waited += 1
                if now < best:
                    best, waited = now, 0
                    kept = {name: value.clone() for name, value in self._layers.state_dict().items()}
                if waited >= how.patience:
                    stopped = "early stop"
                elif process_time() - began > how.seconds:
                    stopped = "budget of time"
        if kept is not None:
            self._layers.load_state_dict(kept)
        some = [np.asarray(a)[test] if len(a) > 1 else a for a in (np.asarray(series), np.asarray(graph))]
        held = np.asarray(qos, np.float64)[test]
        rest = held - self.predict(some[0], some[1], np.asarray(features)[test]).mean(axis=0)
        around = held - held.mean(axis=0)
        return TrainingResult(epoch, best, 1.0 - float((rest**2).sum() / max((around**2).sum(), 1e-12)), stopped)

    def predict(self, series: ArrayLike, graph: ArrayLike, features: ArrayLike, *, draws: int = 8) -> Floats:
        """(draws, n, q) QoS vectors; the draws differ by Monte-Carlo dropout."""
        w, g, x = map(self._tensor, (series, graph, features))
        with self._torch.no_grad(), self._seeded():
            rows = [self._ask(w, g, x).numpy() for _ in range(draws)]
        return np.array(rows, np.float64)

    def slopes(
        self, series: ArrayLike, graph: ArrayLike, features: ArrayLike, measured: ArrayLike, weights: ArrayLike,
        *, draws: int = 8,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """(n,) surrogate reality gaps and (n, e) their gradients by the features, means over the draws.

        The gap is the L2 norm of the difference from `measured` (q,) under `weights` (q,).
        """
        torch = self._torch
        w, g, x, q, share = map(self._tensor, (series, graph, features, measured, weights))
        x.requires_grad_(True)
        with self._seeded():
            gaps = sum(
                torch.sqrt((share * (self._ask(w, g, x) - q) ** 2).sum(dim=1) + 1e-10) for _ in range(draws)
            ) / draws  # fmt: skip
            (slope,) = torch.autograd.grad(gaps.sum(), x)
        return gaps.detach().numpy().astype(np.float64), slope.numpy().astype(np.float64)
