"""Schedulers: who runs what, where."""
