"""Readers of other simulators' files."""
