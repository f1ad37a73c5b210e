"""Adapters: one folder per outside simulator or system."""
