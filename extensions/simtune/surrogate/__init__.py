"""Calibration through a surrogate: SimTune as its paper states it, and the methods it was compared with.

S. Tuli, G. Casale, N. R. Jennings, "SimTune: bridging the simulator reality gap for resource management
in edge-cloud computing", Scientific Reports 12, 19158, 2022. A surrogate (low fidelity) learns what the
simulator (high fidelity) answers; the search runs on the surrogate; what it proposes is simulated. Worth
its training only for simulators that are slow: `cosim.twin.fitting.calibrate` searches on the engine itself.

The networks need torch (extra `learn`).
"""
