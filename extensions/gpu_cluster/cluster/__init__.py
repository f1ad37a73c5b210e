"""A GPU cluster with packet and optical circuit switches: placing, wiring and ordering of training jobs.

    resources  the file that describes GPUs, NICs, switches and cables; every port once
    fabric     the same as arrays, and the topologies that leaves can form
    traffic    bytes and times of collectives: what a job needs of the network
    jobs       a workload as columns; `generate` makes one
    layout     the state of the event kernel; `kernel`, `place`, `wire`, `flow` change it
    simulate   jobs on a fabric, event by event, with ledgers of GPU seconds
    order      which job comes next: windows and all their orders, beams, baselines
    rank       a trained model that ranks the orders of a window
    topology   which topology the optical switches form for the present jobs
    timeline   rows at events as means over equal periods
    feed       the state of a running cluster in, ranked configurations of its optical switches out

Times are in s, sizes in B, rates in bit/s, power in W. A *leaf* is a packet switch with GPUs below and
uplinks above; a *circuit* joins two uplinks of different leaves on one optical circuit switch (OCS).
"""
