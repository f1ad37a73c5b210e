"""The compute-continuum simulator: a compiled event engine on flat arrays."""
