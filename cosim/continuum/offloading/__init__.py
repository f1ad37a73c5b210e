"""Task offloading between device, edge and cloud, with places, queueing links and admission by load.

The class of model of EdgeCloudSim: devices that dwell at places or drive along a road, delays by
queueing formulas instead of packets or flows, virtual machines that admit tasks by percentages.
"""
