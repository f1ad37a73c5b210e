"""What others wrote: files of other simulators, maps and tables."""
