"""Speed figures, each printed by `python -m benchmarks.NAME`; ratios within one run, CPU seconds."""
