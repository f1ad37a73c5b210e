"""The platform that MAIL-MMSG learned from a log, as an environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from cosim.contract.records import Floats
from cosim.extensions.mail_mmsg.model import VirtualPlatform, stored
from cosim.extensions.mail_mmsg.platform import ACTION, OWN, SCENES, SEEN

BOUND = 10.0  # of what is seen


class VirtualPlatformEnv(gymnasium.Env[NDArray[np.float32], NDArray[np.float32]]):
    """`cosim/VirtualPlatform-v1`: ten requests of a generated client, one after the other.

    Seen are the 52 figures of `cosim.extensions.mail_mmsg.platform`; an action is ten weights by which candidates are
    ranked, seven of broadband users and vehicles, three of sensors; those of the other kind count for nothing. The
    reward is 1 for a request that is offloaded and in time. `reset(options={"scene": "vehicles"})` draws clients of one
    sub-scenario only. `weights` are those of another platform than the one shipped. Raises `ValueError` for an unknown
    sub-scenario.
    """

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, weights: dict[str, Floats] | None = None) -> None:
        self._platform = VirtualPlatform(stored() if weights is None else weights, 1)
        self.observation_space = spaces.Box(-BOUND, BOUND, (SEEN,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (ACTION,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """A new client."""
        super().reset(seed=seed)
        asked = (options or {}).get("scene")
        if asked is not None and asked not in SCENES:
            raise ValueError(f"there is no sub-scenario {asked!r}; known are {', '.join(SCENES)}")
        seen = self._platform.reset(self.np_random, None if asked is None else SCENES.index(asked))
        return self._seen(seen), self._info(seen)

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Offer the ranking's first candidate; the client's last request ends the episode."""
        weights = np.clip(np.asarray(action, np.float64), -1.0, 1.0)[None]
        seen, done, over = self._platform.step(weights, self.np_random)
        return self._seen(seen), float(done[0]), over, False, self._info(seen)

    def _seen(self, seen: Floats) -> NDArray[np.float32]:
        found: NDArray[np.float32] = np.clip(seen[0], -BOUND, BOUND).astype(np.float32)
        return found

    def _info(self, seen: Floats) -> dict[str, Any]:
        return {"scene": SCENES[int(seen[0, OWN : OWN + len(SCENES)].argmax())]}
