"""A GPU cluster with a switched optical fabric, and the traces of published ones."""
