"""What codes of the cluster stand for; without the machine code, so that it costs nothing to import."""

from __future__ import annotations

from typing import Final

PATTERNS: Final = ("local", "ring", "tree", "all-to-all", "pipeline", "experts")  # how ranks of a job talk
TOPOLOGIES: Final = ("fat-tree", "dragonfly", "rail", "torus", "rings")  # how leaves are joined
