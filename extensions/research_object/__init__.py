"""Runs as research objects (RO-Crate) that anyone can repeat."""
