"""The MLSysOps framework: its descriptors as scenarios, and the figures of D4.3 that the core alone makes."""
