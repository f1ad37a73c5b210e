"""EdgeCloudSim's files: what is taken from them, what is told, what is refused."""

import csv
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.extensions.edgecloudsim.importing import read, study_of
from cosim.extensions.edgecloudsim.offloading.quirks import compatible
from tests.unit.sources.importing.inputs import PROPERTIES, applications, edge_devices, written


def reported(notices):
    return {(notice.level, notice.key) for notice in notices}


def test_the_first_of_every_list_is_taken_and_units_are_converted(tmp_path):
    study, notices = study_of(*written(tmp_path))
    assert notices == ()
    assert (study.model, study.architecture, study.policy, study.devices) == ("app1", "single-tier", "next-fit", 10)
    assert (study.duration, study.warm_up, study.load_interval) == (120.0, 30.0, 6.0)
    assert (study.links.wlan, study.links.wan, study.links.man, study.links.wan_propagation) == (200e6, 15e6, 0.0, 0.1)
    assert study.dwell == (500.0, 300.0, 120.0)
    assert [len(host) for host in study.cloud] == [4]
    assert (study.cloud[0][0].cores, study.cloud[0][0].mips) == (4, 10000.0)
    assert study.device_vm is None
    assert [(place.x, place.wlan, place.attractiveness) for place in study.places] == [
        (0, 0, 1),
        (10, 1, 1),
        (20, 2, 1),
    ]
    assert [[(vm.cores, vm.mips) for vm in host] for host in study.places[0].hosts] == [[(2, 1000.0), (2, 1000.0)]]
    assert study.places[0].costs == (0.1, 3.0, 0.05, 0.1)
    video, health = study.applications
    assert (video.name, video.usage, health.usage, video.interarrival, video.active, video.idle) == (
        "VIDEO", 70.0, 30.0, 7.0, 45.0, 15.0,
    )  # fmt: skip
    assert (video.upload, video.download, video.length, video.load_edge, video.load_cloud) == (1500, 25, 2000, 20, 0.5)
    assert study.quirks == compatible("app1")


def test_values_may_be_chosen_from_the_lists(tmp_path):
    study, _ = study_of(
        *written(tmp_path), devices=77, scenario="two-tier-with-eo", policy="worst_fit", physics="corrected"
    )
    assert (study.devices, study.architecture, study.policy) == (77, "two-tier-with-eo", "worst-fit")
    assert study.quirks == frozenset()


@pytest.mark.parametrize(("argument", "value", "message"), [
    ("policy", "NEXT_FITT", "does not list NEXT_FITT; it lists NEXT_FIT, WORST_FIT .did you mean NEXT_FIT"),
    ("scenario", "TWO_TIER", "simulation_scenarios: does not list TWO_TIER; it lists SINGLE_TIER, TWO_TIER_WITH_EO"),
    ("devices", 0, "0 devices are asked for"),
])  # fmt: skip
def test_a_choice_that_the_files_do_not_offer_is_refused(tmp_path, argument, value, message):
    with pytest.raises(ScenarioError, match=message):
        study_of(*written(tmp_path), **{argument: value})


def with_line(text, key, value):
    return "".join(f"{key}={value}\n" if line.startswith(f"{key}=") else line for line in text.splitlines(True))


@pytest.mark.parametrize(("policies", "scenarios", "model"), [
    ("NEXT_FIT", "SINGLE_TIER", "app1"),
    ("HYBRID,NETWORK_BASED", "TWO_TIER_WITH_EO", "app2"),
    ("HYBRID", "MOBILE_PROCESSING_SCENARIO", "app3"),
    ("ONLY_EDGE", "SINGLE_TIER", "app3"),
    ("NETWORK_BASED,FUZZY_BASED", "TWO_TIER_WITH_EO", "app4"),
    ("RANDOM,MAB", "ITS_SCENARIO", "app5"),
    ("WORST_FIT", "MM2_QUEUE", "tutorial5"),
])  # fmt: skip
def test_the_model_is_told_from_policies_and_scenarios(tmp_path, policies, scenarios, model):
    text = with_line(with_line(PROPERTIES, "orchestrator_policies", policies), "simulation_scenarios", scenarios)
    text = with_line(text, "gsm_bandwidth", "20") + "man_bandwidth=1000\n"
    study, _ = study_of(*written(tmp_path, properties=text))
    assert study.model == model
    assert study.links.wlan_servers == (2 if model == "tutorial5" else 1)


def test_quirks_with_which_the_peer_itself_fails_are_left_out(tmp_path):
    text = with_line(PROPERTIES, "orchestrator_policies", "HYBRID")
    host = edge_devices()[edge_devices().index("<host>") : edge_devices().index("</host>") + len("</host>")]
    devices = edge_devices().replace("<hosts>", f"<hosts>{host}", 1).replace("<wlan_id>2<", "<wlan_id>7<")
    files = written(tmp_path, properties=text, edge_devices=devices)
    study, notices = study_of(*files)
    assert compatible("app2") - study.quirks == {"one-host-per-place", "dwell-by-access-point-number"}
    assert sum("taken without quirk" in notice.text for notice in notices) == 2
    left_out = YAML(typ="safe").load(read(*files).text)["adapters"]["offloading"]["quirks"]
    assert left_out == {"one-host-per-place": False, "dwell-by-access-point-number": False}


def test_a_misspelt_propagation_is_not_applied_unless_corrected(tmp_path):
    text = PROPERTIES.replace("wan_propagation_delay=0.1", "wan_propogation_delay=0.15")
    files = written(tmp_path, properties=text)
    for physics, applied in (("compatible", 0.0), ("corrected", 0.15)):
        study, notices = study_of(*files, physics=physics)
        assert study.links.wan_propagation == applied
        (notice,) = notices
        assert (notice.level, notice.key, notice.line) == ("misspelt", "wan_propogation_delay", 11)
        assert "the peer never applies it" in notice.text


def test_ignored_misspelt_and_inverted_keys_are_told_with_their_lines(tmp_path):
    text = with_line(PROPERTIES, "max_number_of_mobile_devices", "5")
    text += "net_stability=90\nman_bandwith=1000\nnorthern_bound=4\nwarm_up_period=1\n"
    study, notices = study_of(*written(tmp_path, properties=text))
    assert reported(notices) == {
        ("inverted", "min_number_of_mobile_devices"), ("ignored", "net_stability"), ("misspelt", "man_bandwith"),
        ("ignored", "northern_bound"), ("ignored", "warm_up_period"),
    }  # fmt: skip
    lines = {notice.key: notice.line for notice in notices}
    assert (lines["net_stability"], lines["warm_up_period"]) == (len(PROPERTIES.splitlines()) + 1, 3)
    assert study.devices == 10
    assert study.warm_up == 60.0  # the later of the two holds


def test_keys_of_the_extension_make_it_app6_with_energy(tmp_path):
    text = PROPERTIES.replace("core_for_mobile_vm=0\n", "min_core_for_mobile_vm=2\nmax_core_for_mobile_vm=4\n")
    for key in ("mips", "ram", "storage"):
        text = text.replace(f"{key}_for_mobile_vm=0\n", f"min_{key}_for_mobile_vm=900\nmax_{key}_for_mobile_vm=800\n")
    text = with_line(text, "orchestrator_policies", "ONLY_EDGE,HYBRID")
    text += "batteryCapacity=20\nmin_percentage=50\nmax_percentage=10\nwan_nanojoules_per_bit = 46.7 \nbattery=true\n"
    devices = edge_devices().replace(
        "<location>", "<idleConsumption>100</idleConsumption><maxConsumption>150</maxConsumption><location>"
    )
    study, notices = study_of(*written(tmp_path, properties=text, edge_devices=devices), physics="corrected")
    assert study.model == "app6"
    low, high = study.device_vm
    assert ((low.cores, low.mips, low.image), (high.cores, high.mips, high.image)) == ((2, 800, 800), (4, 900, 900))
    assert (study.energy.battery, study.energy.initial, study.energy.mortal) == (20.0, (10.0, 50.0), True)
    assert study.energy.nanojoule_per_bit == {"wan": 46.7}
    assert study.places[0].power == (100.0, 150.0)
    inverted = {key for level, key in reported(notices) if level == "inverted"}
    assert inverted == {
        "min_mips_for_mobile_vm", "min_ram_for_mobile_vm", "min_storage_for_mobile_vm", "min_percentage"
    }  # fmt: skip


@pytest.mark.parametrize(("part", "old", "new", "message"), [
    ("properties", "simulation_time=2\n", "", "simulation_time: is missing"),
    ("properties", "simulation_time=2", "simulation_time=two", "properties:2: simulation_time: 'two' is not a number"),
    ("properties", "wlan_bandwidth=200", "wlan_bandwidth=nan", "'nan' is not a finite number"),
    ("properties", "wlan_bandwidth=200", "wlan_bandwidth=-1", "-1 is less than 0"),
    ("properties", "NEXT_FIT,WORST_FIT", "GREEDY", "no model knows the policies GREEDY"),
    ("properties", "NEXT_FIT,WORST_FIT", ",", "orchestrator_policies: names nothing"),
    ("properties", "SINGLE_TIER,TWO", "FOUR_TIER,TWO", "'FOUR_TIER' is no scenario"),
    ("properties", "wlan_bandwidth=200", "wlan_bandwidth=0", "properties:13: wlan_bandwidth: app1 needs it"),
    ("properties", "warm_up_period=0.5", "warm_up_period=2", "as long as the simulation"),
    ("applications", "<usage_percentage>70<", "<usage_percentage>71<", "sums up to 101 %"),
    ("applications", "<idle_period>15</idle_period>", "", r"xml:3: VIDEO.idle_period: is missing"),
    ("applications", 'name="HEALTH_APP"', 'name="VIDEO"', "a second application is called 'VIDEO'"),
    ("applications", 'name="VIDEO"', "", "has no name"),
    ("applications", "applications", "programs", "the first element is <programs>"),
    ("edge_devices", "<attractiveness>1<", "<attractiveness>3<", "attractiveness: 3 is more than 2"),
    ("edge_devices", "<core>8</core>", "<core>3</core>", "its machines need 4 cores, it has 3"),
    ("edge_devices", "<mips>4000</mips>", "<mips>10</mips>", "need 1000 MIPS per core, it has 10"),
    ("edge_devices", "<costPerSec>3.0</costPerSec>", "", r"datacenter\[0\].costPerSec: is missing"),
])  # fmt: skip
def test_mistakes_are_named_with_file_line_and_key(tmp_path, part, old, new, message):
    text = {"properties": PROPERTIES, "applications": applications(), "edge_devices": edge_devices()}[part]
    assert old in text
    with pytest.raises(ScenarioError, match=message):
        read(*written(tmp_path, **{part: text.replace(old, new)}))


def test_all_mistakes_are_told_at_once(tmp_path):
    text = PROPERTIES.replace("simulation_time=2\n", "").replace("wan_bandwidth=15", "wan_bandwidth=x")
    apps = applications().replace("<data_upload>1500</data_upload>", "")
    with pytest.raises(ScenarioError) as caught:
        study_of(*written(tmp_path, properties=text, applications=apps))
    assert len(caught.value.problems) == 4


def test_further_values_stand_in_the_sweep(tmp_path):
    data = YAML(typ="safe").load(read(*written(tmp_path)).text)
    assert data["sweep"] == {
        "adapters.offloading.devices": [10, 20, 30],
        "adapters.offloading.architecture": ["single-tier", "two-tier-with-eo"],
        "adapters.offloading.policy": ["next-fit", "worst-fit"],
    }
    assert data["nodes"]["devices"]["capacity"] == 30


@given(st.data())
def test_damaged_files_are_read_or_refused(tmp_path_factory, data):
    texts = {"properties": PROPERTIES, "applications": applications(), "edge_devices": edge_devices()}
    part = data.draw(st.sampled_from(sorted(texts)))
    text = texts[part]
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.sampled_from([0, 1, 5, 40]))
        put = data.draw(
            st.sampled_from(["", "9", "-", "e", "<", ">", "\\", "\n", "=", "\u00e9", "1e400", "<a>", "&x;"])
        )
        text = text[:at] + put + text[at + length :]
    files = written(tmp_path_factory.mktemp("damaged"), **{part: text})
    with suppress(ScenarioError):
        assert read(*files).text.startswith("apiVersion")


@pytest.mark.data
def test_every_published_configuration_is_imported_with_the_notices_it_deserves(data):
    folder = data / "edgecloudsim"
    with (folder / "index.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) >= 31
    for row in rows:
        name = row["config_id"]
        files = [folder / row[key] for key in ("properties", "edge_devices", "applications")]
        study, notices = study_of(*files)
        assert study.model == f"app{name[1]}"
        assert f"_{study.devices}" in name
        keys = {notice.key for notice in notices if notice.level == "misspelt"}
        assert keys == ({"wan_propogation_delay", "gsm_propogation_delay"} if study.model == "app5" else set())
        inverted = {notice.key for notice in notices if notice.level == "inverted"}
        assert inverted == ({"min_storage_for_mobile_vm"} if study.model == "app6" else set())
        corrected, _ = study_of(*files, physics="corrected")
        if study.model == "app5":
            assert (corrected.links.wan_propagation, corrected.links.gsm_propagation) == (0.15, 0.16)
        assert replace(corrected, links=study.links, quirks=study.quirks) == study


@pytest.mark.parametrize("key", ["gpu_required", "required_gpu", "GPU"])
def test_what_asks_for_gpus_is_refused_and_what_does_not_is_told(key, tmp_path):
    plain = applications()
    end = "</application>"
    assert end in plain
    files = written(tmp_path, applications=plain.replace(end, f"<{key}>0</{key}>{end}", 1))
    assert ("ignored", key) in {(one.level, one.key.rpartition(".")[2]) for one in study_of(*files)[1]}
    files = written(tmp_path, applications=plain.replace(end, f"<{key}>2</{key}>{end}", 1))
    with pytest.raises(ScenarioError, match=r"asks for GPUs.*'offloading' does not have"):
        study_of(*files)
    files = written(tmp_path, properties=f"{PROPERTIES}\ngpu_on_cloud_vm=1\n")
    with pytest.raises(ScenarioError, match="gpu_on_cloud_vm"):
        study_of(*files)
