"""Schedulers of the literature, a folder each: what they are, how they were trained, their weights and figures.

A folder holds `decide.py` (the policy: numpy alone), for those that learn `train.py` (torch, extra `learn`; GOBI, GOSH
and GRAF share one), `weights.npz` and `training.json`, what training reached; `README.md`; and `expected.json`, figures
of a short run that a test repeats.
All minimise the cost of `objective`, so that they differ in how they search and in what they know, and take any
number of hosts and tasks.
"""

CATALOGUE = (
    "ga", "pso", "aco", "aco-lstm", "gobi", "gosh", "graf", "decision-nn", "semi-direct", "dqn", "a3c", "pond",
    "metanet", "ucb", "dqn-selector",
)  # fmt: skip
