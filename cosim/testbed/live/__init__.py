"""Attach real machines to a run: protocol, keys, the run's gateway, and the agent on the machine.

The agent dials out, proves itself by its key, takes a slot of the scenario under a lease, reports what it
measures and runs tasks. `Roster` and `Member` are the two ends of the protocol as pure objects: messages and
times in, messages out. `Gateway` and `agent.run` put them on sockets.
"""
