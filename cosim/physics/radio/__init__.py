"""Radio link models as pure functions on arrays: from positions to rates, delays and losses.

The way of a value: `pathloss` (mean loss) + `shadowing` (correlated draw) -> `cells` (received
power of every device-cell pair, association, interference) -> `power` (noise, RSRP, SINR) ->
`nr` (CQI, MCS, BLER, rate) -> `sharing` (airtime, queueing, propagation).

Units: dB, dBm, m, Hz, bit/s, s. Arrays broadcast as in numpy unless a function says otherwise. The
package knows nothing of buses or scenarios.
"""
