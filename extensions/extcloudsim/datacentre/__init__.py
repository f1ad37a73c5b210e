"""Datacentres whose virtual machines are consolidated: hosts, frequencies, prices, service levels, failures.

    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of

`layout` says what is known of hosts and machines, `settings` how a run decides and what a function of
the user's may replace, `model` how periods follow one another, `quirks` which defects of the peer can
be turned on. The formulas and their sources stand in `docs/datacentre.md`.
"""
