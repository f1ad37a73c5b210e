"""DQN: the host with the highest action value, one task after the other."""

from __future__ import annotations

from cosim.extensions.metanet.catalogue.networks import stored
from cosim.extensions.metanet.catalogue.sequential import Sequential
from cosim.schedulers.state import decides


@decides("interval")
class Dqn(Sequential):
    """Deep Q-learning with replay, a target network and falling exploration (Mnih et al. 2015); SimTune's DQL.

    An action is a host for one task; waiting tasks come in order of creation, each seeing those before. The action
    value is a network over the pair of task and host, so any number of hosts has one. Against the published code,
    which is an actor-critic under this name and sends all containers to one host.
    """

    def __init__(self) -> None:
        super().__init__(stored("dqn"))
