"""Models that reproduce other simulators: what they ask and answer, their quirks as named switches.

`offloading` has the questions of EdgeCloudSim, `interval` those of COSCO, `datacentre` those of CloudSim. They
share random numbers, power, price and compiled parts with `cosim.engine.continuum`.
"""
