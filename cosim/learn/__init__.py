"""Data sets of runs, and the detectors that are trained with them."""
