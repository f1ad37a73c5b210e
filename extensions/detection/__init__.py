"""Detection of jamming: data sets of runs, detectors trained on them, and alarms."""
