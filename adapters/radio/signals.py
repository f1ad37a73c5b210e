"""What `log: true` adds. What phones and base stations log is in the catalogue, the truth belongs to all jammers."""

from __future__ import annotations

from cosim.contract.jammer import TRUTH

LOGS = ("ue", "gnb", *(signal.name for signal in TRUTH))  # in the order of writing
