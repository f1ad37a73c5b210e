"""When a twin has stopped to agree with what it follows: a cumulative sum of its misfit.

E. S. Page, Biometrika 41 (1954). The sum grows by how far a misfit lies above its usual value, less a
slack, and never falls below zero; where it last stood at zero the change is taken to have begun.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(slots=True)
class Drift:
    """Watches misfits, one per window. `slack` and `threshold` are in standard deviations."""

    slack: float = 1.0
    threshold: float = 6.0
    spread: float = 0.15  # least standard deviation, as a part of the usual misfit
    floor: float = 1e-3  # least standard deviation at all
    usual: list[float] = field(default_factory=list)  # misfits of windows that were fitted, or were quiet
    statistic: float = 0.0
    begun: int = 0  # windows since the sum last stood at zero

    def restart(self, usual: list[float]) -> None:
        """Other values are in use; under them windows had these misfits."""
        self.usual, self.statistic, self.begun = [x for x in usual if math.isfinite(x)], 0.0, 0

    def look(self, misfit: float) -> bool:
        """Whether the sum has passed the threshold with the window of this misfit."""
        if not self.usual:
            self.usual.append(misfit)
            return False
        mean, deviation = self._usual()
        far = (misfit - mean) / deviation if math.isfinite(misfit) else self.threshold + self.slack
        self.statistic = max(0.0, self.statistic + far - self.slack)
        self.begun = self.begun + 1 if self.statistic > 0.0 else 0
        if self.statistic < self.threshold / 2:
            self.usual.append(misfit)
        return self.statistic > self.threshold

    def _usual(self) -> tuple[float, float]:
        """Mean and standard deviation of a further misfit; the fewer are known, the wider."""
        count = len(self.usual)
        mean = math.fsum(self.usual) / count
        deviation = max(self.spread * mean, self.floor)
        if count > 1:
            variance = math.fsum((x - mean) ** 2 for x in self.usual) / (count - 1)
            deviation = max(deviation, math.sqrt(variance))
        return mean, deviation * math.sqrt(1.0 + 1.0 / count) * (1.0 + 1.0 / count)
