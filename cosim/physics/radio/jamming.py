"""Jammers: how strong they are at a moment, and which part of their power falls on which part of a channel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from cosim.contract.records import Floats, Ints

Pattern = Literal["continuous", "intermittent", "random", "sine", "ramp", "square", "reactive"]
OFF = -math.inf  # dB, of a jammer that sends nothing


@dataclass(frozen=True, slots=True)
class Timing:
    """What a pattern takes; each pattern uses some of it."""

    pattern: Pattern
    on: float = 2.0  # s, mean
    off: float = 5.0  # s, mean
    period: float = 10.0  # s
    depth: float = 20.0  # dB
    levels: int = 4
    hold: float = 1.0  # s


class Waveform:
    """The power of one jammer over time, in dB against its full power.

    `rng` is its own stream. Time must not go back. Patterns:

    - continuous: 0 dB;
    - intermittent: a two-state Markov process, on and off for exponential times of means `on` and `off`;
    - random: every `hold` s one of `levels` steps from -`depth` to 0 dB, or silence, all as likely;
    - sine: 0 dB at its crest and -`depth` in its trough, sinusoidal in dB with `period`;
    - ramp: from -`depth` to 0 dB in one period, then from the start;
    - square: half a period at 0 dB, half at -`depth`;
    - reactive: 0 dB while there is traffic on its band, else silence.
    """

    def __init__(self, timing: Timing, rng: np.random.Generator) -> None:
        self._timing, self._rng = timing, rng
        self._on, self._until = False, -math.inf  # state, and until when it holds
        self._level = OFF
        self._slice = -1

    def level(self, time: float, *, traffic: bool) -> float:
        """dB at `time` (s); `traffic`: whether anybody sends on its band."""
        timing = self._timing
        phase = math.fmod(time / timing.period, 1.0)
        match timing.pattern:
            case "intermittent":
                return 0.0 if self._switched(time) else OFF
            case "random":
                return self._drawn(time)
            case "sine":
                return 0.5 * timing.depth * (math.sin(2.0 * math.pi * phase) - 1.0)
            case "ramp":
                return timing.depth * (phase - 1.0)
            case "square":
                return 0.0 if phase < 0.5 else -timing.depth
            case "reactive":
                return 0.0 if traffic else OFF
            case _:
                return 0.0

    def _switched(self, time: float) -> bool:
        timing = self._timing
        if self._until == -math.inf:  # in the steady state from the start
            self._on = bool(self._rng.random() < timing.on / (timing.on + timing.off))
            self._until = time + self._rng.exponential(timing.on if self._on else timing.off)
        while self._until <= time:
            self._on = not self._on
            self._until += self._rng.exponential(timing.on if self._on else timing.off)
        return self._on

    def _drawn(self, time: float) -> float:
        timing = self._timing
        now = math.floor(time / timing.hold + 1e-9)
        while self._slice < now:
            k = int(self._rng.integers(timing.levels + 1))
            step = timing.depth / max(timing.levels - 1, 1)
            self._level = OFF if k == timing.levels else -step * k
            self._slice += 1
        return self._level


class ChannelGrid(NamedTuple):
    """Channels cut where a jammer's band or a block of equal fading begins or ends.

    Of the m cells, each has up to G pieces; pieces beyond a cell's own have the width 0.
    """

    width: Floats  # (m, G) part of the channel
    block: Ints  # (m, G) fading block
    spread: Floats  # (jammers, m, G) part of the jammer's power that falls on the piece

    @property
    def plain(self) -> bool:
        """Whether every channel is one piece."""
        return bool(self.width.shape[1] == 1)


def overlap(low: float, high: float, other_low: float, other_high: float) -> float:
    """Length that two intervals share."""
    return max(0.0, min(high, other_high) - max(low, other_low))


def grid(
    channels: Sequence[tuple[float, float]], bands: Sequence[tuple[float, float]], blocks: Sequence[int]
) -> ChannelGrid:
    """The pieces of `channels` (low and high edge, Hz) under jammers on `bands` (Hz).

    `blocks` is the number of parts of equal width in which each channel fades independently. A jammer's
    power is spread evenly over its band.
    """
    cuts = []
    for (low, high), count in zip(channels, blocks, strict=True):
        inner = {low + (high - low) * k / count for k in range(1, count)}
        inner |= {edge for band in bands for edge in band if low < edge < high}
        cuts.append([low, *sorted(inner), high])
    most = max((len(edges) - 1 for edges in cuts), default=1)
    width = np.zeros((len(channels), most))
    block = np.zeros((len(channels), most), np.int64)
    spread = np.zeros((len(bands), len(channels), most))
    for c, edges in enumerate(cuts):
        low, high = channels[c]
        for g, (left, right) in enumerate(pairwise(edges)):
            width[c, g] = (right - left) / (high - low)
            block[c, g] = min(int((0.5 * (left + right) - low) / (high - low) * blocks[c]), blocks[c] - 1)
            for j, (first, last) in enumerate(bands):
                spread[j, c, g] = overlap(left, right, first, last) / (last - first)
    return ChannelGrid(width, block, spread)
