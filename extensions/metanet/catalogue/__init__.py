"""Schedulers of the literature, a folder each: what they are, how they were trained, their weights and figures.

A folder holds `decide.py` (the policy: numpy alone), for those that learn `train.py` (torch, extra `learn`),
`weights.npz` and `training.json`, what training reached; `README.md`; and `expected.json`, figures of a short run
that a test repeats.
All minimise the cost of `objective`, so that they differ in how they search and in what they know, and take any
number of hosts and tasks.
"""

from __future__ import annotations

_HERE = "cosim.extensions.metanet.catalogue"

# name -> (where, one line)
CATALOGUE: dict[str, tuple[str, str]] = {
    "ga": (f"{_HERE}.ga.decide:Genetic", "genetic algorithm on GOBI's surrogate"),
    "pso": (f"{_HERE}.pso.decide:Swarm", "particle swarm on GOBI's surrogate"),
    "aco": (f"{_HERE}.aco.decide:Ants", "ant colony on demands forecast by ARIMA"),
    "aco-lstm": (f"{_HERE}.aco_lstm.decide:AntsLstm", "ant colony on demands forecast by an LSTM"),
    "gobi": (f"{_HERE}.gobi.decide:Gobi", "gradient of a surrogate on the decision"),
    "gosh": (f"{_HERE}.gosh.decide:Gosh", "second-order gradient of a surrogate with a spread"),
    "graf": (f"{_HERE}.graf.decide:Graf", "gradient of a graph network on the decision"),
    "decision-nn": (f"{_HERE}.decision_nn.decide:DecisionNetwork", "a network says the decision"),
    "semi-direct": (f"{_HERE}.semi_direct.decide:SemiDirect", "local search on predicted utilisation"),
    "dqn": (f"{_HERE}.dqn.decide:Dqn", "deep Q-learning, a host for one task after the other"),
    "a3c": (f"{_HERE}.a3c.decide:A3c", "asynchronous advantage actor-critic"),
    "pond": (f"{_HERE}.pond.decide:Pond", "confidence bounds less queues of violations"),
    "metanet": (f"{_HERE}.metanet.decide:MetaNet", "the policy whose predicted cost is least"),
    "ucb": (f"{_HERE}.ucb.decide:Ucb", "a bandit over policies"),
    "dqn-selector": (f"{_HERE}.dqn_selector.decide:DqnSelector", "Q-learning over policies"),
}
