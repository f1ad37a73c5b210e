"""What nobody in the scene knows: the truth about jammers. What phones and base stations log is in the catalogue."""

from __future__ import annotations

from cosim.contract.signals import Column, Signal

JAMMING = Signal("jamming", "truth, no input of a detector: what jammers do to a link", (
    Column("jn_down", "float64", "dB", "jammers over noise at the phone, -200 for none"),
    Column("js_down", "float64", "dB", "jammers over signal at the phone"),
    Column("loss_down", "float64", "dB", "SINR lost against the same moment without jammers", low=0.0),
    Column("jn_up", "float64", "dB", "jammers over noise at the base station"),
    Column("js_up", "float64", "dB", "jammers over signal at the base station"),
    Column("loss_up", "float64", "dB", "SINR lost in the uplink", low=0.0),
    Column("loss", "float64", "dB", "the greatest loss of either direction, control channels included", low=0.0),
))  # fmt: skip

JAMMER = Signal("jammer", "truth: what a jammer does", (
    Column("on", "bool", "", "it sends"),
    Column("power", "float64", "dBm", "that it sends with, -200 for none"),
))  # fmt: skip

TRUTH = (JAMMING, JAMMER)
LOGS = ("ue", "gnb", *(signal.name for signal in TRUTH))  # all that `log: true` adds, in the order of writing
