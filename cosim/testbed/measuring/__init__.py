"""A service of this machine, measured under loads that are known."""
