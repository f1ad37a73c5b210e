"""continuum-cosim: co-simulation of the drone-edge-cloud continuum."""
