"""Files of CloudSim Automation as scenarios: times by hand, VMs that fit, and a place for every mistake."""

from collections import Counter

import numpy as np
import pytest
from ruamel.yaml import YAML

from cosim.contract.errors import ScenarioError
from cosim.extensions.importers.cloudsim import read
from cosim.sources.importing.write import write_scenario
from tests.unit.sources.importing.running import ended

# of our own making, in the shape that CloudSim Automation reads
TEXT = """\
datacenters:
  - !datacenter
    name: north
    vmAllocationPolicy: Simple
    vmMigration: disable
    costPerSec: 0.1
    costPerBw: 0.5
    hosts:
      - !host
        amount: 2
        ram: 10000
        bw: 1000
        storage: 100000
        pes: 8
        mips: 2000
        vmScheduler: TimeShared
        ramProvisioner: Simple
customers:
  - !customer
    name: shop
    amount: 2
    vms:
      - !vm
        amount: 3
        size: 500
        pes: 4
        mips: 1000
        ram: 2000
        bw: 100
        vmm: Xen
        cloudletScheduler: TimeShared
    cloudlets:
      - !cloudlet
        amount: 7
        pes: 2
        length: 10000
        fileSize: 300
        outputSize: 100
        utilizationModelCpu: Full
"""
FIRST_VERSION = """\
datacenterRegistries:
  - !datacenter
    allocationPolicyAlias: Simple
    costPerSec: 0.1
    costPerBw: 0.5
    hostList:
      - !host
        {amount: 2, ram: 10000, bw: 1000, storage: 100000, numOfPes: 8, mipsPerPe: 2000,
         schedulingPolicyAlias: TimeShared, ramProvisionerAlias: Simple}
customerRegistries:
  - !customer
    name: shop
    amount: 2
    vmList:
      - !vm
        {amount: 3, size: 500, pesNumber: 4, mips: 1000, ram: 2000, bw: 100, schedulingPolicyAlias: TimeShared}
    utilizationProfile:
      - !profile
        {numOfCloudlets: 7, cloudletsPesNumber: 2, length: 10000, fileSize: 300, outputSize: 100,
         utilizationModelCpuAlias: Full}
"""


def written(folder, text=TEXT, *changes):
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = folder / "environment.yml"
    path.write_text(text)
    return path


def parsed(imported):
    return YAML(typ="safe").load(imported.text)


def said(imported, key):
    return [(notice.level, notice.text) for notice in imported.notices if notice.key.endswith(key)]


def test_vms_become_nodes_and_cloudlets_jobs(tmp_path):
    imported = read(written(tmp_path))
    data = parsed(imported)
    vm = {
        "kind": "time-shared", "cpu": "4 x 1000 MHz", "memory": "2000 MB",
        "cost": {"cpu": "0.1 /s", "transfer": "0.5 /B"},
    }  # fmt: skip
    assert data["nodes"] == {"shop-1-vm-[1..3]": vm, "shop-2-vm-[1..3]": vm}
    (load,) = data["workloads"].values()
    assert load["graph"] == {"pe-1": {"work": "10000 Mcycles", "output": "100 B"}, "pe-2": {"work": "10000 Mcycles"}}
    assert load["input"] == "150 B"
    assert imported.facts == {
        "hosts": 2, "hosts_used": 2, "customers": 2, "vms": 6, "vms_without_host": 0, "cloudlets": 14,
    }  # fmt: skip
    assert not [notice for notice in imported.notices if notice.level != "note"]


def test_time_shared_cloudlets_end_as_reckoned_by_hand(tmp_path):
    rows, books, names = ended(write_scenario(tmp_path / "out", read(written(tmp_path))))
    times = Counter((names[host], round(end, 6)) for host, end in zip(rows["host"], rows["ended"], strict=True))
    # in turn: 3, 2 and 2 cloudlets of each customer; k of 2 PEs on 4 PEs of 1000 MIPS take 10 s x max(1, 2 k / 4)
    assert times == Counter({(f"shop-{i}-vm-{j}", 15.0 if j == 1 else 10.0): n for i in (1, 2)
                             for j, n in ((1, 3), (2, 2), (3, 2))})  # fmt: skip
    assert books["tasks"]["completed"] == books["tasks"]["created"] == 14
    assert books["cost"]["transfer"] == pytest.approx(14 * (300 + 100) * 0.5)  # costPerBw of both files
    assert books["cost"]["cpu"] == pytest.approx(14 * 2 * 10 * 0.1)


def test_space_shared_cloudlets_wait_in_the_order_of_the_file(tmp_path):
    changes = [
        ("    amount: 2\n    vms", "    vms"),
        ("amount: 3\n", "amount: 1\n"),
        ("pes: 4", "pes: 2"),
        ("amount: 7", "amount: 2"),
        ("cloudletScheduler: TimeShared", "cloudletScheduler: SpaceShared"),
    ]
    second = "      - !cloudlet\n        {amount: 2, pes: 1, length: 4000, fileSize: 9}\n"
    rows, *_ = ended(write_scenario(tmp_path / "out", read(written(tmp_path, TEXT + second, *changes))))
    # one VM of 2 PEs: two cloudlets of 2 PEs one after another, then both of 1 PE side by side
    np.testing.assert_allclose(np.sort(rows["ended"]), [10.0, 20.0, 24.0, 24.0])


def test_both_versions_of_the_format_are_the_same(tmp_path):
    first, second = read(written(tmp_path)), read(written(tmp_path, FIRST_VERSION))
    assert first.text == second.text
    assert first.facts == second.facts


def test_vms_that_fit_nowhere_are_left_out(tmp_path):
    # two hosts with RAM for 4 VMs each: the first customer gets all of its 6, the second 2
    imported = read(written(tmp_path, TEXT, ("amount: 3\n", "amount: 6\n"), ("ram: 10000", "ram: 8000")))
    assert (imported.facts["vms"], imported.facts["vms_without_host"]) == (8, 4)
    assert list(parsed(imported)["nodes"]) == ["shop-1-vm-[1..6]", "shop-2-vm-[1..2]"]
    with pytest.raises(ScenarioError, match="no VM of customer 'shop-2' fits on a host"):
        read(written(tmp_path, TEXT, ("amount: 3\n", "amount: 6\n"), ("ram: 10000", "ram: 2000")))


@pytest.mark.parametrize(("policy", "used"), [("Simple", 2), ("FirstFit", 1), ("BestFit", 1)])
def test_the_policy_of_a_datacenter_chooses_hosts(tmp_path, policy, used):
    text = written(tmp_path, TEXT, ("Policy: Simple", f"Policy: {policy}"), ("amount: 3\n", "amount: 1\n")).read_text()
    assert read(written(tmp_path, text)).facts["hosts_used"] == used


def test_space_shared_hosts_give_pes_to_one_vm_each(tmp_path):
    imported = read(written(tmp_path, TEXT, ("vmScheduler: TimeShared", "vmScheduler: SpaceShared")))
    # 8 PEs hold two VMs of 4, whatever their MIPS; time-shared hosts hold four
    assert (imported.facts["vms"], imported.facts["vms_without_host"]) == (4, 2)
    assert said(imported, "vms[0].amount") == [("ignored", "2 of 6 fit on no host and are left out")]


@pytest.mark.parametrize(("old", "new", "key", "level"), [
    ("vmMigration: disable", "vmMigration: enabled", "vmMigration", "ignored"),
    ("vmMigration: disable", "upperUtilizationThreshold: 0.8", "upperUtilizationThreshold", "ignored"),
    ("costPerSec: 0.1", "costPerStorage: 0.1", "costPerStorage", "ignored"),
    ("Policy: Simple", "Policy: Random", "vmAllocationPolicy", "ignored"),
    ("ramProvisioner: Simple", "ramProvisioner: Mine", "ramProvisioner", "ignored"),
    ("ramProvisioner: Simple", "maxPower: 250", "maxPower", "ignored"),
    ("Cpu: Full", "Cpu: Stochastic", "utilizationModelCpu", "ignored"),
    ("fileSize: 300", "submissionDelay: 5", "submissionDelay", "ignored"),
    ("outputSize: 100", "outptuSize: 100", "outptuSize", "misspelt"),
    ("outputSize: 100", "colour: 1", "colour", "ignored"),
    ("pes: 2\n", "pes: 2\n        pes: 2\n", "pes", "ignored"),
])  # fmt: skip
def test_what_does_not_count_is_told(tmp_path, old, new, key, level):
    path = written(tmp_path, TEXT, (old, new))
    found = [notice for notice in read(path).notices if notice.key.endswith(f".{key}")]
    assert [notice.level for notice in found] == [level]
    assert key in path.read_text().splitlines()[found[0].line - 1]


@pytest.mark.parametrize(("old", "new", "key", "message"), [
    ("mips: 2000", "mops: 2000", "hosts[0].mips", "is missing"),
    ("mips: 2000", "mips: -2", "hosts[0].mips", "-2 is less than 0"),
    ("mips: 1000", "mips: 0", "vms[0].mips", "is 0"),
    ("pes: 4", "pes: 0", "vms[0].pes", "0 is less than 1"),
    ("amount: 7", "amount: 1.5", "cloudlets[0].amount", "is not a whole number"),
    ("length: 10000", "length: long", "cloudlets[0].length", "'long' is not a number"),
    ("length: 10000", "length: [1]", "cloudlets[0].length", "is a list or a mapping"),
    ("cloudletScheduler: TimeShared", "cloudletScheduler: Timeshard", "cloudletScheduler", "is none of the"),
    ("size: 500", "interArrivalTimeMean: 9.6", "interArrivalTimeMean", "not supported"),
    ("    hosts:\n      - !host\n        amount: 2", "    hosts: []\n    x:\n      - amount: 2", "hosts", "is empty"),
    ("amount: 7", "amount: 0", "customers", "make no cloudlets"),
    ("amount: 7", "amount: 9000000", "customers", "at most 1,000,000 are read"),
    ("    amount: 2\n    vms", "    amount: 2\n    ramCpuFactor: 4\n    vms", "ramCpuFactor", "is not supported"),
])  # fmt: skip
def test_mistakes_are_found_with_their_place(tmp_path, old, new, key, message):
    path = written(tmp_path, TEXT, (old, new))
    with pytest.raises(ScenarioError) as caught:
        read(path)
    hits = [one for one in caught.value.problems if one.path.endswith(key) and message in one.message]
    assert hits, [str(one) for one in caught.value.problems]
    assert (hits[0].file, hits[0].line is None) == (path, False)


@pytest.mark.parametrize(("text", "message"), [
    ("", "holds nothing"),
    ("- 1", "is no scenario of CloudSim Automation"),
    ("a: [", "is not YAML"),
    ("a: 1", "is missing"),
    ("a: &a [*a]", "nested deeper"),
])  # fmt: skip
def test_what_is_no_scenario_is_refused(tmp_path, text, message):
    with pytest.raises(ScenarioError, match=message):
        read(written(tmp_path, text))


def test_one_document_is_chosen(tmp_path):
    path = written(tmp_path, f"---\n{TEXT}---\n{TEXT.replace('amount: 7', 'amount: 1')}")
    assert read(path).facts["cloudlets"] == 14
    assert any("document 1 of 2 is taken" in notice.text for notice in read(path).notices)
    assert read(path, environment=2).facts["cloudlets"] == 2
    with pytest.raises(ScenarioError, match="has no document 3"):
        read(path, environment=3)
    with pytest.raises(ScenarioError, match="--duration"):
        read(path, duration="soon")
