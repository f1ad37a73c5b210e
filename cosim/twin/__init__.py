"""The twin: parameters of the simulated continuum, moved until it agrees with what real nodes measured.

A `Problem` says what is free (`Space`), what was measured (`Observed`) and how to simulate it (`Case`);
`calibrate` screens, searches and answers with a `Calibration`: values with intervals, judged on data
that the search has not seen.
"""
