"""Calibrations against published measurements."""
