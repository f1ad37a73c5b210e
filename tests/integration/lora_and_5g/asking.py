"""Ask the gateway four times a second and note which answer came after how long.

python asking.py FOLDER ADDRESS
"""

import contextlib
import json
import os
import pathlib
import socket
import sys
import time

out = pathlib.Path(sys.argv[1], os.environ["COSIM_NODE"])
asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
asking.setblocking(False)
sent: dict[int, float] = {}
came: dict[int, float] = {}
while True:
    number = len(sent)
    sent[number] = time.monotonic()
    with contextlib.suppress(OSError):
        asking.sendto(b"%08d" % number, (sys.argv[2], 4000))
    end = time.monotonic() + 0.25
    while time.monotonic() < end:
        try:
            which = int(asking.recv(100))
            came[which] = time.monotonic() - sent[which]
        except BlockingIOError:
            time.sleep(0.005)
    out.with_suffix(".part").write_text(json.dumps([len(sent), came]))
    out.with_suffix(".part").replace(out.with_suffix(".json"))  # it is ended at any time
