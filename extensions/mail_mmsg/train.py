"""Train what is shipped: `python -m cosim.extensions.mail_mmsg.train` (extra `learn`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cosim.contract.records import Floats
from cosim.extensions.mail_mmsg.imitation import Weights, imitated, platform, reinforced
from cosim.extensions.mail_mmsg.population import features
from cosim.extensions.mail_mmsg.world import DAY, history, run
from cosim.extensions.metanet.catalogue.train import save

KEPT = 800  # windows of the log
ITERATIONS = 120, 80  # of MAIL, of the policy trained in its platform


def train(
    seed: int = 1, length: float = DAY, steps: int = 300, rounds: tuple[int, int] = ITERATIONS
) -> tuple[dict[str, Floats], dict[str, Any]]:
    """The platform of one day's log, with its clients' policy and an engine's; and the ratio that it promises."""
    log = run(0, seed, history(seed), length)
    base: Weights = platform(log, *features(log), seed, steps=steps)
    keep = np.random.Generator(np.random.PCG64(seed)).permutation(len(base["windows"]))[:KEPT]
    base["windows"], base["levels"] = base["windows"][keep], base["levels"][keep]
    whole = base | {name: value.astype(np.float64) for name, value in imitated(base, log, seed, rounds[0]).items()}
    found = whole | reinforced(whole, seed, rounds[1])
    return found, {"seed": seed, "requests": len(log.time), "mail": rounds[0], "ppo": rounds[1], "ratio": log.ratio}


if __name__ == "__main__":
    found, figures = train()
    found["windows"] = found["windows"].astype(np.float16)
    save(Path(__file__).parent, found, figures)
