"""What an autopilot answers: probes that go to our personas or to a real autopilot, and the differences.

    python -m tests.clients.probes                                  # our ArduCopter against the recorded one
    python -m tests.clients.probes --connect tcp:127.0.0.1:5760     # a real one against the recorded one

`arducopter.json` holds what an ArduCopter 4.6.0-dev answered in software in the loop: facts of its behaviour.
`differences.csv` lists the answers in which our persona differs, each with the reason; a test holds both together.
"""
