"""What phones and base stations log, and what nobody in the scene knows: the truth about jammers."""

from __future__ import annotations

from adapters.radio.states import STATES
from cosim.contract.signals import SHARE, Column, Signal

_CELL = Column("cell", "int32", "", "slot of the serving base station, -1 for none", "slot")
_RNTI = Column("rnti", "int32", "", "its identity in the cell, another one after each access; 0 for none", low=0.0)
_BLER = Column("bler", "float64", "1", "block errors of first transmissions", low=0.0, high=SHARE)
_PDR = Column("pdr", "float64", "1", "packets delivered, after all retransmissions", low=0.0, high=SHARE)
_DROPS = Column("drops", "float64", "1/s", "packets dropped: lost on the air after all retransmissions", low=0.0)
_PRBS = Column("prbs", "float64", "1", "mean resource blocks in use for it", low=0.0)
_MCS = Column("mcs", "int8", "1", "modulation and coding scheme, TS 38.214 table 5.1.3.1-1", low=0.0, high=28.0)

UE = Signal("ue", "what a phone logs of its downlink", (
    _CELL,
    _RNTI,
    Column("state", "int8", "", "of its connection", "code", STATES),
    Column("rsrp", "float64", "dBm", "SS-RSRP of the serving or strongest cell"),
    Column("rssi", "float64", "dBm", "all power on the 20 blocks of its synchronisation block"),
    Column("rsrq", "float64", "dB", "SS-RSRQ: 10 log10 blocks + RSRP - RSSI on them"),
    Column("rssi_wide", "float64", "dBm", "all power on the whole channel"),
    Column("sinr", "float64", "dB", "effective over the channel"),
    Column("cqi", "int8", "1", "as reported, TS 38.214 table 5.2.2.1-2", low=0.0, high=15.0),
    Column("ri", "int8", "1", "layers, 0 without a connection", low=0.0, high=8.0),
    _MCS,
    _BLER,
    Column("rate", "float64", "bit/s", "that its downloads share", low=0.0),
    _PDR,
    _DROPS,
    _PRBS,
))  # fmt: skip

GNB = Signal("gnb", "what a base station logs of the uplink of a phone; no row for one that is not connected", (
    _CELL,
    _RNTI,
    Column("sinr", "float64", "dB", "effective over the channel"),
    Column("rssi", "float64", "dBm", "all power at its receiver on the whole channel, this phone's included"),
    _MCS,
    _BLER,
    Column("nack", "float64", "1/s", "blocks that were not received at first", low=0.0),
    Column("rate", "float64", "bit/s", "that its uploads share", low=0.0),
    _PDR,
    _DROPS,
    _PRBS,
    Column("buffer", "float64", "B", "mean backlog: rate x queueing delay, by Little's law", low=0.0),
))  # fmt: skip

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

LOGS = (UE, GNB, JAMMING, JAMMER)
