"""The states of a device's connection, as logs name them."""

STATES = ("detached", "connected", "out-of-sync", "re-establishing")
DETACHED, CONNECTED, OUT_OF_SYNC, RE_ESTABLISHING = range(4)
