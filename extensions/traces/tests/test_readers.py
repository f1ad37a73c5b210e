"""Each reader on small files whose answer is known."""

import gzip

import numpy as np
import pytest

from cosim.contract.errors import ScenarioError
from cosim.extensions.traces import alibaba, azure, bitbrains, google, planetlab, surf


def test_planetlab_folder_and_packed_table_agree(tmp_path):
    folder = tmp_path / "20110303"
    folder.mkdir()
    (folder / "b").write_text("0\n50\n100\n")
    (folder / "a.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    (tmp_path / "day.csv").write_text("vm,t000,t001,t002\na,1,2,3\nb,0,50,100\n")
    one, other = planetlab.read(str(folder)), planetlab.read(tmp_path / "day.csv")
    assert one.ids == other.ids == ("a", "b")
    assert np.array_equal(one.utilisation, other.utilisation)
    assert one.utilisation[1].tolist() == [0.0, 0.5, 1.0]
    assert planetlab.read(folder, vms=1).ids == ("a",)


def test_planetlab_says_where_a_value_is_wrong(tmp_path):
    (tmp_path / "vm").write_text("1\n\n101\n")
    with pytest.raises(ScenarioError, match=r"vm:3: a utilisation of 101 is not in 0\.\.100"):
        planetlab.read(tmp_path)
    (tmp_path / "vm").write_text("1\n0.5\n")
    with pytest.raises(ScenarioError, match=r"vm:1: .*not in 0\.\.0\.9"):
        planetlab.read(tmp_path, full=0.9)


def test_planetlab_machines_must_have_equally_many_values(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("1\n")
    with pytest.raises(ScenarioError, match="has 1 values, a has 2"):
        planetlab.read(tmp_path)


def test_bitbrains_spans_are_spread_over_the_periods_they_touch(tmp_path):
    (tmp_path / "x_vms.csv").write_text("id,start_time,stop_time,cpu_count,cpu_capacity,mem_capacity\n7,,,2,1000,1\n")
    (tmp_path / "x_usage.csv").write_text(
        "id,timestamp,duration,cpu_count,cpu_usage\n"
        "7,2013-08-12T00:05:00Z,300000,2,100\n"
        "7,2013-08-12T00:12:30Z,450000,2,400\n"
        "7,2013-08-13T00:12:30Z,86400000,2,400\n"
    )
    traces = bitbrains.read(tmp_path, longest=3600.0)
    assert traces.utilisation[0, :3] == pytest.approx([0.1, 0.4, 0.4])
    assert traces.periods == 3  # a day without change may be a gap
    assert traces.clock == pytest.approx([500e6])


def test_bitbrains_raw_file(tmp_path):
    names = list(bitbrains.RAW)
    rows = [[1376314846, 2, 2000, 500, 25, 1024, 512], [1376315146, 2, 2000, 2100, 105, 1024, 256]]
    text = ";\t".join(names) + "\n" + "\n".join(";\t".join(map(str, row)) for row in rows) + "\n"
    (tmp_path / "12.csv").write_text(text)
    traces = bitbrains.read(tmp_path / "12.csv")
    assert traces.ids == ("12",)
    assert traces.utilisation.tolist() == [[0.25, 1.0]]
    assert traces.memory_use is not None
    assert traces.memory_use.tolist() == [[0.5, 0.25]]
    assert (traces.cores, traces.clock, traces.memory) == (2.0, 1e9, 1024.0**2)


def event(time, job, task, kind, cpu="0.5", memory="0.25"):
    return f"{time},,{job},{task},5,{kind},user,0,9,{cpu},{memory},0.1,0\n"


def test_google_tasks_from_submission_to_their_last_end(tmp_path):
    lines = [
        event(1_000_000, 1, 0, google.SUBMIT),
        event(2_000_000, 1, 0, google.SCHEDULE),
        event(3_000_000, 2, 0, google.SUBMIT, cpu="", memory=""),
        event(5_000_000, 1, 0, google.EVICT),
        event(6_000_000, 1, 0, google.SCHEDULE),
        event(16_000_000, 1, 0, google.FINISH),
        event(17_000_000, 9, 9, google.FINISH),  # of a task that was never submitted
    ]
    (tmp_path / "part-00000-of-00500.csv.gz").write_bytes(gzip.compress("".join(lines[:3]).encode()))
    (tmp_path / "part-00001-of-00500.csv.gz").write_bytes(gzip.compress("".join(lines[3:]).encode()))
    tasks = google.read_tasks(tmp_path)
    assert tasks.ids == ("1-0", "2-0")
    assert tasks.arrival.tolist() == [0.0, 2.0]
    assert tasks.start == 1.0
    assert tasks.duration[0] == 13.0
    assert np.isnan(tasks.duration[1])
    assert tasks.unit == "machine"
    assert (tasks.cores[0], tasks.memory[0]) == (0.5, 0.25)


def test_google_usage_by_task_and_period(tmp_path):
    def row(begin, end, rate, peak):
        return f"{begin},{end},3,1,5,{rate},0.1,0.1,0,0,0.1,0,0,{peak},0,1,1,1,0,\n"

    path = tmp_path / "usage.csv"
    path.write_text(row(0, 150_000_000, 0.2, 0.4) + row(150_000_000, 300_000_000, 0.4, 0.5) + row(3e8, 6e8, 0.1, ""))
    traces = google.read_usage(path)
    assert traces.ids == ("3-1",)
    assert traces.utilisation[0] == pytest.approx([0.3, 0.1])
    assert traces.peak is not None
    assert traces.peak[0] == pytest.approx([0.5, 0.1])


def test_azure_readings_and_vmtable(tmp_path):
    (tmp_path / "readings.csv").write_text("0,a,1,30,10\n300,a,1,60,20\n300,b,1,5,5\n")
    (tmp_path / "vmtable.csv").write_text("a,s,d,0,600,60,15,50,Interactive,4,>64\nb,s,d,300,900,5,5,5,Unknown,>24,2\n")
    traces = azure.read_usage(tmp_path / "readings.csv", tmp_path / "vmtable.csv")
    assert traces.utilisation == pytest.approx(np.array([[0.1, 0.2], [np.nan, 0.05]]), nan_ok=True)
    assert traces.peak is not None
    assert traces.peak[0] == pytest.approx([0.3, 0.6])
    assert traces.cores is not None
    assert traces.cores.tolist() == [4.0, 24.0]
    tasks = azure.read_tasks(tmp_path / "vmtable.csv")
    assert tasks.duration.tolist() == [600.0, 600.0]
    assert tasks.memory.tolist() == [64e9, 2e9]


def test_azure_requests_may_be_given_work_by_token(tmp_path):
    (tmp_path / "code.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.5,10,2\n2023-11-16 18:17:03.9799600,100,1\n"
    )
    requests = azure.read_requests(tmp_path / "code.csv", work_per_context_token=1e6, work_per_generated_token=1e9)
    assert requests.arrival == pytest.approx([0.0, 0.52004])
    assert requests.work.tolist() == [1.1e9, 2.01e9]


def test_alibaba_averages_samples_by_period_and_leaves_out_failed_ones(tmp_path):
    (tmp_path / "machine_usage.csv").write_text(
        "m_1,0,10,50,,,1,1,1\nm_1,10,30,101,,,1,1,1\nm_2,300,100,-1,,,1,1,1\nm_1,310,101,20,,,1,1,1\n"
    )
    traces = alibaba.read_machines(tmp_path / "machine_usage.csv")
    assert traces.utilisation == pytest.approx(np.array([[0.2, np.nan], [np.nan, 1.0]]), nan_ok=True)
    assert traces.memory_use == pytest.approx(np.array([[0.5, 0.2], [np.nan, np.nan]]), nan_ok=True)
    (tmp_path / "container_usage.csv").write_text("c_1,m_1,0,120,50,1,1,1,1,1,1\n")
    containers = alibaba.read_containers(tmp_path / "container_usage.csv")
    assert (containers.ids, containers.utilisation.tolist()) == (("c_1",), [[1.0]])


def test_azure_invocations_arrive_before_they_end(tmp_path):
    (tmp_path / "functions.txt").write_text("app,func,end_timestamp,duration\na,f,10,2\na,g,9,3.5\nb,f,20,0\n")
    tasks = azure.read_invocations(tmp_path / "functions.txt")
    assert tasks.arrival.tolist() == [0.0, 2.5, 14.5]
    assert tasks.duration.tolist() == [3.5, 2.0, 0.0]
    assert tasks.start == 5.5
    assert len(azure.read_invocations(tmp_path / "functions.txt", tasks=2)) == 2


def test_alibaba_batch_tasks(tmp_path):
    (tmp_path / "batch_task.csv").write_text(
        "M1,10,j_1,1,Terminated,100,160,50,0.3\nR2,,j_1,1,Terminated,90,80,100,0.3\nM1,2,j_2,1,Running,120,,100,\n"
    )
    tasks = alibaba.read_tasks(tmp_path / "batch_task.csv")
    assert tasks.ids == ("j_1-R2", "j_1-M1", "j_2-M1")
    assert tasks.arrival.tolist() == [0.0, 10.0, 30.0]
    assert tasks.cores.tolist() == [1.0, 5.0, 2.0]
    assert np.isnan(tasks.duration).tolist() == [True, False, True]
    assert tasks.duration[1] == 60.0


def test_a_table_whose_samples_are_all_out_of_range_is_refused(tmp_path):
    (tmp_path / "container_usage.csv").write_text("c_1,m_1,0,-1,50,1,1,1,1,1,1\n")
    with pytest.raises(ScenarioError, match="holds no usage"):
        alibaba.read_containers(tmp_path / "container_usage.csv")


def test_surf_fragments_follow_one_another(tmp_path):
    tasks, fragments = tmp_path / "tasks.csv", tmp_path / "fragments.csv"
    tasks.write_text(
        "id,submission_time,duration,cpu_count,cpu_capacity,mem_capacity\n2,5000,600000,2,1000,1\n1,0,300000,1,500,1\n"
    )
    fragments.write_text("id,duration,cpu_usage\n2,300000,1000\n1,150000,500\n2,300000,250\n1,150000,0\n")
    usage = surf.read_usage(tasks, fragments)
    assert usage.utilisation == pytest.approx(np.array([[1.0, 0.25], [0.5, np.nan]]), nan_ok=True)
    trace = surf.read(tasks, fragments)
    assert trace.ids == ("1", "2")
    assert trace.arrival.tolist() == [0.0, 5.0]
    assert trace.work.tolist() == [150 * 500e6, 300 * 1.25e9]
    fragments.write_text("id,duration,cpu_usage\n2,300000,1000\n3,300000,1000\n")
    with pytest.raises(ScenarioError, match=r"fragments\.csv:3: task '3' is not in the table"):
        surf.read(tasks, fragments)
