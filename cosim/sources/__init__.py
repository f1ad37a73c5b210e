"""What others wrote: files of other simulators, traces and tables."""
