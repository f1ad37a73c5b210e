"""The twin: parameters of the simulated continuum, adjusted until it agrees with measurements of real nodes.

A `Problem` states what is free (`Space`), what was measured (`Observed`) and how to simulate it (`Case`). `calibrate`
screens, searches and returns a `Calibration`: values with intervals, judged on data that the search has not seen.
"""
