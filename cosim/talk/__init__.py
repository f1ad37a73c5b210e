"""The message layer: what every socket of ours speaks, and who may speak to it.

- `codec`       one way of declaring, checking and packing messages; `PROTOCOL`, `ProtocolError`
- `columns`     numpy columns and slot tables as raw buffers behind a message
- `memory`, `pipe`   the same between a run and a process that it started: shared memory, a pair of sockets
- `keys`        CURVE key files
- `doorkeeper`  stands before every socket that others can reach: connections, descriptors, memory, handshakes
- `sockets`     listening and dialling ZeroMQ sockets with keys, limits and heartbeats
- `control`     commands to a run under way, with a token
- `publish`     frames of a run for observers

A module that talks declares its messages as `MessageSet`s, one for each direction, and nothing else of its own.
"""
