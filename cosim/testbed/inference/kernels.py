"""The work that the service can do: real computations, chosen by name.

Each kernel is made once and then called with the bytes of its input, from several threads at once.
Inputs that are no picture of the wanted size still give one: their bytes are repeated or cut, since
what matters is the computation and the bytes that were sent for it.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cosim.testbed.inference import NETWORKS
from cosim.testbed.inference.plants import picture, weeds

Result = int | list[tuple[float, float]]
# (input, size) -> a small number that depends on all of the computation, or the pixels (column, line) of what was found
Run = Callable[[bytes, int], Result]
SMALLEST, LARGEST = 1, 4096  # of `size`


@dataclass(frozen=True, slots=True)
class Kernel:
    """Some work: what it is, the meaning and the usual value of its size, and how it is done."""

    name: str
    meaning: str
    size: int
    run: Run


def kernels(clock: float = 1e9) -> dict[str, Kernel]:
    """All kernels that can run here: the networks only where torch is installed; `clock` (Hz) is that of `hold`."""
    found = [
        Kernel("hold", "no computation: keeps a worker for size million cycles of the node's clock", 100, _hold(clock)),
        Kernel("matmul", "product of two size x size matrices of 32-bit numbers", 512, _matmul),
        Kernel("blur", "5 x 5 mean of a picture of size x size pixels, 3 channels", 512, _blur),
        Kernel("histogram", "equalisation of a picture of size x size pixels, 3 channels", 512, _histogram),
        Kernel(
            "weeds", "weeds in a portable pixmap (P6): green beside the crop rows; its own size counts", 256, _weeds
        ),
        Kernel(
            "vegetation", "excess green index and share of plants in a picture of size x size pixels", 1024, _plants
        ),
    ]
    if importlib.util.find_spec("torch") is not None:
        found += [Kernel(name, f"{name} on a picture of size x size pixels", 224, _network(name)) for name in NETWORKS]
    return {kernel.name: kernel for kernel in found}


def _hold(clock: float) -> Run:
    def run(_data: bytes, size: int) -> int:
        time.sleep(1e6 * size / clock)
        return size

    return run


def _picture(data: bytes, size: int) -> NDArray[np.float32]:
    """(3, size, size) between 0 and 1 from the bytes of any input; grey without one."""
    wanted = 3 * size * size
    raw = np.frombuffer(data, np.uint8) if data else np.full(1, 128, np.uint8)
    return (np.resize(raw, wanted).reshape(3, size, size).astype(np.float32)) / np.float32(255.0)


def _matmul(data: bytes, size: int) -> int:
    a = _picture(data, size)[0]
    return int(np.trace(a @ a.T))


def _blur(data: bytes, size: int) -> int:
    padded = np.pad(_picture(data, size), ((0, 0), (2, 2), (2, 2)), mode="edge")
    total = np.zeros((3, size, size), np.float32)
    for dy in range(5):
        for dx in range(5):
            total += padded[:, dy : dy + size, dx : dx + size]
    return round(1000.0 * float(total.mean()) / 25.0)


def _histogram(data: bytes, size: int) -> int:
    levels = (_picture(data, size) * 255.0).astype(np.uint8)
    for channel in levels:
        share = np.cumsum(np.bincount(channel.ravel(), minlength=256)) / channel.size
        channel[:] = (share * 255.0).astype(np.uint8)[channel]
    return int(levels.mean())


def _plants(data: bytes, size: int) -> int:
    """Excess green 2 g - r - b of chromatic coordinates (Woebbecke et al. 1995), above 0.1 taken as plant."""
    picture = _picture(data, size)
    chromatic = picture / np.maximum(picture.sum(axis=0), np.float32(1e-6))
    return int(1000.0 * float((2.0 * chromatic[1] - chromatic[0] - chromatic[2] > 0.1).mean()))


def _weeds(data: bytes, _size: int) -> Result:
    return [(round(column, 1), round(line, 1)) for column, line in weeds(picture(data))]


def _network(name: str) -> Run:
    def run(data: bytes, size: int) -> int:
        import torch

        with torch.inference_mode():
            answer = _model(name)(torch.from_numpy(_picture(data, max(size, 64)))[None])
        return int(answer.argmax())

    return run


@cache
def _model(name: str) -> Any:  # noqa: ANN401 - torch is not always there
    import torch  # takes seconds, which a node that runs no network need not spend

    from cosim.testbed.inference.networks import make

    torch.set_num_threads(1)  # the workers share the cores among requests, not within one
    made = make(name)
    file = weights_folder() / f"{name}.pt"
    if file.is_file():
        made.load_state_dict(torch.load(file, weights_only=True))
    return made


def weights_folder() -> Path:
    """Where the weights made at build time lie."""
    return Path(os.environ.get("COSIM_WEIGHTS", "/var/lib/cosim/weights"))


def make_weights(folder: Path) -> list[Path]:
    """Write seeded weights of all networks: an untrained network computes as long as a trained one."""
    import torch

    from cosim.testbed.inference.networks import make

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in NETWORKS:
        torch.save(make(name).state_dict(), folder / f"{name}.pt")
        files.append(folder / f"{name}.pt")
    return files
