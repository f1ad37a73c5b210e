"""Text logs of 5G networks, as srsRAN and Open5GS write them: runs in their form, and their files read."""

from datetime import datetime

EPOCH = datetime(1970, 1, 1)  # simulated time 0 by default; logs have no zone
