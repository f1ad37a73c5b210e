"""Small input files in EdgeCloudSim's formats, of our own making."""

from pathlib import Path

PROPERTIES = """\
# a small study
simulation_time=2
warm_up_period=0.5
vm_load_check_interval=0.1
location_check_interval=0.1
file_log_enabled=true
deep_file_log_enabled=false
min_number_of_mobile_devices=10
max_number_of_mobile_devices=30
mobile_device_counter_size=10
wan_propagation_delay=0.1
lan_internal_delay=0.005
wlan_bandwidth=200
wan_bandwidth=15
gsm_bandwidth=0
number_of_host_on_cloud_datacenter=1
number_of_vm_on_cloud_host=4
core_for_cloud_vm=4
mips_for_cloud_vm=10000
ram_for_cloud_vm=32000
storage_for_cloud_vm=1000000
core_for_mobile_vm=0
mips_for_mobile_vm=0
ram_for_mobile_vm=0
storage_for_mobile_vm=0
orchestrator_policies=NEXT_FIT,WORST_FIT
simulation_scenarios=SINGLE_TIER,TWO_TIER_WITH_EO
attractiveness_L1_mean_waiting_time=500
attractiveness_L2_mean_waiting_time=300
attractiveness_L3_mean_waiting_time=120
"""

APPLICATION = """\
  <application name="{name}">
    <usage_percentage>{usage}</usage_percentage>
    <prob_cloud_selection>20</prob_cloud_selection>
    <poisson_interarrival>7</poisson_interarrival>
    <delay_sensitivity>0.5</delay_sensitivity>
    <active_period>45</active_period>
    <idle_period>15</idle_period>
    <data_upload>1500</data_upload>
    <data_download>25</data_download>
    <task_length>2000</task_length>
    <required_core>1</required_core>
    <vm_utilization_on_edge>20</vm_utilization_on_edge>
    <vm_utilization_on_cloud>0.5</vm_utilization_on_cloud>
    <vm_utilization_on_mobile>0</vm_utilization_on_mobile>
  </application>
"""

DATACENTRE = """\
  <datacenter arch="x86" os="Linux" vmm="Xen">
    <costPerBw>0.1</costPerBw><costPerSec>3.0</costPerSec>
    <costPerMem>0.05</costPerMem><costPerStorage>0.1</costPerStorage>
    <location><x_pos>{x}</x_pos><y_pos>1</y_pos><wlan_id>{wlan}</wlan_id><attractiveness>1</attractiveness></location>
    <hosts><host>
      <core>8</core><mips>4000</mips><ram>8000</ram><storage>200000</storage>
      <VMs>
        <VM vmm="Xen"><core>2</core><mips>1000</mips><ram>2000</ram><storage>50000</storage></VM>
        <VM vmm="Xen"><core>2</core><mips>1000</mips><ram>2000</ram><storage>50000</storage></VM>
      </VMs>
    </host></hosts>
  </datacenter>
"""


def applications() -> str:
    both = APPLICATION.format(name="VIDEO", usage=70) + APPLICATION.format(name="HEALTH_APP", usage=30)
    return f'<?xml version="1.0"?>\n<applications>\n{both}</applications>\n'


def edge_devices() -> str:
    places = "".join(DATACENTRE.format(x=10 * place, wlan=place) for place in range(3))
    return f'<?xml version="1.0"?>\n<edge_devices>\n{places}</edge_devices>\n'


def written(folder: Path, **changes: str) -> tuple[Path, Path, Path]:
    """The three files in `folder`; `changes` replaces the text of properties, edge_devices or applications."""
    texts = {"properties": PROPERTIES, "edge_devices": edge_devices(), "applications": applications()} | changes
    names = {"properties": "default_config.properties"}
    paths = [folder / names.get(key, f"{key}.xml") for key in ("properties", "edge_devices", "applications")]
    for path, text in zip(paths, (texts["properties"], texts["edge_devices"], texts["applications"]), strict=True):
        path.write_text(text, encoding="latin-1", errors="xmlcharrefreplace", newline="")
    return paths[0], paths[1], paths[2]
