"""Impose link states on real network interfaces: what the nodes' own software sends is delayed, lost and limited.

A leaf: it knows link states, descriptors and processes, and nothing of scenarios or the bus.
"""
