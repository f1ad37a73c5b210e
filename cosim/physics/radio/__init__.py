"""Radio link models as pure functions on arrays: from positions to rates, delays and losses.

Order of computation: `pathloss` (mean loss) + `shadowing` (correlated draw) -> `cells` (received
power of every device-cell pair, association, interference) -> `power` (noise, RSRP, SINR) ->
`nr` (CQI, MCS, BLER, rate) -> `sharing` (airtime, queueing, propagation).

Units: dB, dBm, m, Hz, bit/s, s. Arrays broadcast as in numpy unless a function states otherwise. The
package does not depend on buses or scenarios.
"""
