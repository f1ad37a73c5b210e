"""Scenarios from traces: machines with their utilisation, tasks, and jobs whose tasks wait for one another."""
