"""Datacentres whose virtual machines are consolidated: hosts, frequencies, prices, service levels, failures.

    from cosim.extensions.extcloudsim.datacentre.model import Datacentres
    from cosim.extensions.extcloudsim.datacentre.platforms import HostKind, kinds_of

`layout` describes hosts and machines, `settings` how a run decides and what a user's function may replace,
`model` how periods follow one another, `control` our decisions, `compatible` those of ExtCloudSim, `quirks` its rules
that can be turned on. The formulas and their sources are in `docs/datacentre.md`.
"""
