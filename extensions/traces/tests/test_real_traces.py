"""The published traces give the published figures."""

import numpy as np
import pytest

from cosim.extensions.traces import alibaba, azure, bitbrains, google, planetlab, surf

pytestmark = pytest.mark.data

# VMs, mean, standard deviation and quartiles in percent: Beloglazov and Buyya 2012, table 1.
PUBLISHED = {
    "20110303": (1052, 12.31, 17.09, 2, 6, 15),
    "20110309": (1061, 10.70, 15.57, 2, 4, 13),
    "20110325": (1078, 10.56, 14.14, 2, 6, 14),
    "20110409": (1358, 11.12, 15.09, 2, 5, 15),
    "20110412": (1054, 11.54, 15.15, 2, 6, 16),
}


@pytest.mark.parametrize("day", PUBLISHED)
def test_planetlab_has_its_published_figures_to_the_digit(data, day):
    traces = planetlab.read(data / "cloud_traces" / "planetlab" / f"planetlab_{day}.csv.gz")
    percent = traces.utilisation.astype(np.float64) * 100
    quartiles = np.percentile(percent, [25, 50, 75]).round(3)
    assert (traces.vms, round(percent.mean(), 2), round(percent.std(), 2), *quartiles) == PUBLISHED[day]
    assert (traces.periods, traces.period) == (288, 300.0)


def test_bitbrains_packed_and_raw_agree_on_the_size_of_a_vm(data):
    packed = bitbrains.read(data / "cloud_traces" / "bitbrains")
    raw = bitbrains.read(data / "cloud_traces" / "bitbrains" / "gwa_t12_one_vm_raw.csv.gz")
    assert (packed.vms, packed.periods) == (25, 8641)
    row = packed.ids.index("915")
    assert packed.clock is not None
    assert raw.clock is not None
    assert packed.clock[row] == pytest.approx(raw.clock[0], rel=1e-6)
    assert raw.memory == pytest.approx([2 * 2**30])
    assert raw.utilisation.shape == (1, 8641)
    assert 0.0 < np.nanmean(raw.utilisation) < 0.01
    assert np.nanmean(packed.utilisation[packed.ids.index("997")]) == pytest.approx(9199 / 19200, rel=0.01)


def test_surf_tasks_and_fragments_tell_the_same_work(data):
    tasks = data / "cloud_traces" / "surf_lisa" / "surf_week_tasks.csv.gz"
    fragments = data / "cloud_traces" / "surf_lisa" / "surf_week_fragments.csv.gz"
    trace = surf.read(tasks, fragments)
    usage = surf.read_usage(tasks, fragments)
    assert len(trace) == usage.vms == 797
    assert usage.cores is not None
    assert usage.clock is not None
    rate = dict(zip(usage.ids, usage.cores * usage.clock, strict=True))
    assert trace.ids is not None
    capacity = np.array([rate[name] for name in trace.ids])
    assert np.all(trace.work <= capacity * trace.duration * 1.001)
    known = ~np.isnan(usage.utilisation)
    lasting = np.where(known.any(axis=1), (usage.periods - np.argmax(known[:, ::-1], axis=1)) * usage.period, 0.0)
    lasted = dict(zip(usage.ids, lasting, strict=True))
    found = np.array([lasted[name] for name in trace.ids])
    assert np.all((found >= trace.duration - 1e-6) & (found < trace.duration + 300.0))


def test_language_model_requests_have_the_medians_of_the_paper(data):
    requests = azure.read_requests(data / "cloud_traces" / "azure_llm_2023" / "code.csv.gz")
    assert len(requests) == 8819
    assert np.median(requests.extra["context_tokens"]) == 1469
    assert np.median(requests.extra["generated_tokens"]) == 13
    assert np.isnan(requests.work).all()


def test_aggregates_are_read(data):
    folder = data / "cloud_traces" / "dc_aggregate"
    cell = google.read_aggregate(folder / "google2019_week1_300s.csv.gz")
    assert (cell.vms, cell.periods) == (1, 2016)
    cluster = alibaba.read_aggregate(folder / "alibaba2018_day2_30s.csv.gz")
    assert cluster.utilisation.shape == (1, 2254)
    cpu, memory = azure.read_aggregate(folder / "azure_v2_week1_300s.csv.gz")
    assert cpu[0] == pytest.approx(61355.15877)
    assert len(memory) == 2016
