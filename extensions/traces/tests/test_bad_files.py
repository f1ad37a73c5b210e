"""Whatever a file holds, it is read or refused with its name; nothing else."""

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cosim.contract.errors import ScenarioError
from cosim.extensions.traces import TaskTrace, UtilisationTraces, alibaba, azure, bitbrains, google, planetlab, surf
from cosim.extensions.traces.table import TraceColumn, blocks
from tests.examples import WITH_FIXTURES

READERS = {
    "planetlab": planetlab.read,
    "bitbrains": bitbrains.read,
    "google tasks": google.read_tasks,
    "google usage": google.read_usage,
    "google aggregate": google.read_aggregate,
    "azure usage": azure.read_usage,
    "azure tasks": azure.read_tasks,
    "azure aggregate": azure.read_aggregate,
    "azure requests": azure.read_requests,
    "alibaba machines": alibaba.read_machines,
    "alibaba containers": alibaba.read_containers,
    "alibaba aggregate": alibaba.read_aggregate,
    "surf": surf.read,
}
GOOD = {
    "planetlab": "vm,t000,t001\na,1,2\nb,3,4\n",
    "bitbrains": ";\t".join(bitbrains.RAW) + "\n1;\t1;\t1;\t1;\t1;\t1;\t1\n",
    "google tasks": "1,,1,0,5,0,user,0,9,0.5,0.5,0.1,0\n2,,1,0,5,1,user,0,9,0.5,0.5,0.1,0\n",
    "google usage": "0,1,3,1,5,0.1,0.1,0.1,0,0,0.1,0,0,0.2,0,1,1,1,0,0.1\n",
    "google aggregate": "avg_cpu,avg_mem\n0.1,0.2\n",
    "azure usage": "0,a,1,30,10\n300,a,1,60,20\n",
    "azure tasks": "a,s,d,0,600,60,15,50,Interactive,4,>64\n",
    "azure aggregate": "timestamp,cpu_usage,assigned_mem\n0,1,2\n",
    "azure requests": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04.5,10,2\n",
    "alibaba machines": "m_1,0,10,50,,,1,1,1\n",
    "alibaba containers": "c_1,m_1,0,10,50,1,1,1,1,1,1\n",
    "alibaba aggregate": "cpu_util_percent,mem_util_percent\n1,2\n",
    "surf": "id,submission_time,duration,cpu_count,cpu_capacity\n2,5000,600000,2,1000\n",
}
CELLS = st.sampled_from(["", "x", "-1", "nan", "inf", "1e999", "9" * 30, "é", '"', ",", ";", "\t", "\n", "\x00", "0x1"])
often = settings(WITH_FIXTURES, max_examples=40)


def refused_by_name_or_read(reader, path):
    problems = []
    try:
        reader(path)
    except ScenarioError as error:
        problems = error.problems
    assert all(problem.file is not None for problem in problems)


@pytest.mark.parametrize("name", GOOD)
def test_the_good_file_is_read(tmp_path, name):
    path = tmp_path / "file.csv"
    path.write_text(GOOD[name])
    READERS[name](path)


@often
@given(st.sampled_from(sorted(READERS)), st.binary(max_size=200), st.booleans())
def test_any_bytes(tmp_path, name, content, packed):
    path = tmp_path / "file.csv"
    path.write_bytes(gzip.compress(content)[: len(content) + 10] if packed else content)
    refused_by_name_or_read(READERS[name], path)


@settings(parent=often, max_examples=150)
@given(st.sampled_from(sorted(GOOD)), st.data())
def test_a_good_file_with_one_cell_changed(tmp_path, name, data):
    text = GOOD[name]
    at = data.draw(st.integers(0, len(text)))
    until = data.draw(st.integers(at, min(len(text), at + 4)))
    path = tmp_path / "file.csv"
    path.write_text(text[:at] + data.draw(CELLS) + text[until:], "utf-8")
    refused_by_name_or_read(READERS[name], path)


@pytest.mark.parametrize("name", READERS)
def test_no_file_and_a_cut_archive(tmp_path, name):
    with pytest.raises(ScenarioError, match="no such file"):
        READERS[name](tmp_path / "absent.csv")
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"1,2,3\n" * 1000)[:-20])
    with pytest.raises(ScenarioError, match=r"cut\.csv\.gz"):
        READERS[name](path)


def test_lines_are_counted_with_header_and_empty_lines(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("a,b\n1,2\n\n3,4\n5,x\n")
    with pytest.raises(ScenarioError, match=r"file\.csv:5: .*invalid value 'x'"):
        list(blocks(path, [TraceColumn("b")]))
    path.write_text("a,b\n1,2\n\n3,-4\n")
    with pytest.raises(ScenarioError, match=r"file\.csv:4: column 'b' is -4, not in 0\.\.inf"):
        list(blocks(path, [TraceColumn("b", at_least=0.0)]))
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(ScenarioError, match=r"file\.csv:3: .*Expected 2 columns, got 1"):
        list(blocks(path, [TraceColumn("b")]))
    with pytest.raises(ScenarioError, match=r"has no column 'c' \(columns found: a, b\)"):
        list(blocks(path, [TraceColumn("c")]))


def test_models_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match=r"'a' in period 1 is 1\.5"):
        UtilisationTraces(("a",), np.array([[0.5, 1.5]], np.float32), 300.0)
    with pytest.raises(ValueError, match="same id"):
        UtilisationTraces(("a", "a"), np.zeros((2, 1), np.float32), 300.0)
    one = np.ones(1)
    with pytest.raises(ValueError, match="not in order"):
        TaskTrace(np.array([1.0, 0.0]), np.ones(2), np.ones(2), np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="work has shape"):
        TaskTrace(one, one, one, one, np.ones(2))
