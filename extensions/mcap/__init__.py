"""Runs as MCAP files (mcap.dev), for Foxglove and other robotics tools."""
