"""What `log: true` adds: what phones and base stations log, which is in the catalogue, and the truth."""

from __future__ import annotations

from cosim.contract import jammer
from cosim.contract.signals import SHARE, Column, Signal

IMPAIRMENT = Signal("impairment", "truth, no input of a detector: what else than jammers makes a link bad", (
    Column("snr_down", "float64", "dB", "signal with its fading over noise alone at the phone"),
    Column("snr_up", "float64", "dB", "signal with its fading over noise alone at the base station"),
    Column("interference_down", "float64", "dB", "SINR that other cells cost at the phone", low=0.0),
    Column("interference_up", "float64", "dB", "SINR that phones of other cells cost at the base station", low=0.0),
    Column("load", "float64", "1", "airtime of its cell in use, of the busier direction", low=0.0, high=SHARE),
))  # fmt: skip

TRUTH = (*jammer.TRUTH, IMPAIRMENT)
LOGS = ("ue", "gnb", *(signal.name for signal in TRUTH))  # in the order of writing
