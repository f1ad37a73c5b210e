"""The codes of a connection's state, as the signal `ue` has them."""

from cosim.contract.signals import CONNECTION_STATES

DETACHED, CONNECTED, OUT_OF_SYNC, RE_ESTABLISHING = range(len(CONNECTION_STATES))
