"""Task offloading between device, edge and cloud on the bus: the class of model of EdgeCloudSim."""

from cosim.contract.adapter import AdapterKind, Ports

ADAPTER = AdapterKind(
    name="offloading",
    summary="devices that dwell at places or drive by offload tasks over queueing links to edge and cloud machines",
    config="cosim.extensions.edgecloudsim.adapter.config:OffloadingConfig",
    factory="cosim.extensions.edgecloudsim.adapter.adapter:OffloadingAdapter",
    check="cosim.extensions.edgecloudsim.adapter.check:problems",
    acts_on=frozenset({"workloads"}),
    outside="",
    ports=Ports(writes=("mobility", "task", "host")),
    fleet=True,
    compiled="cosim.extensions.edgecloudsim.offloading.kernel:compiled",
    example="""\
offloading:
  model: app1
  architecture: two-tier-with-eo
  policy: next-fit
  devices: 5
  links: {wlan: 200 Mbit/s, wan: 15 Mbit/s, lan_delay: 5 ms, wan_propagation: 100 ms}
  dwell: [2 s, 1 s, 1 s]
  load_interval: 1 s
  applications:
    navigation: {load_edge: 20 %, load_cloud: 2 %, cloud_probability: 20 %}
  places:
    edge-1: {}
    edge-2: {attractiveness: 1}
""",
)
