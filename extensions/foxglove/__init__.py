"""Runs for Foxglove and other robotics tools: as MCAP files (mcap.dev), and live.

topics   what is on which topic, in Foxglove's messages and in those of signals
signals  a protobuf message for each signal
writer   a finished run as a file
server   a run under way over the Foxglove WebSocket protocol
command  `cosim export mcap` and `cosim foxglove`
"""
