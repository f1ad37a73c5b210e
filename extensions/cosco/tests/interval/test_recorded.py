"""The compatible mode repeats runs that the peer's own program gave."""

import pytest
from benchmarks.cosco_runs import load, replay

pytestmark = pytest.mark.data


@pytest.mark.parametrize("name", ["azure13", "azure20", "azure20_transfers", "bitbrain21"])
def test_a_recorded_run_is_repeated(data, name):
    found = replay(load(data / f"cosco/{name}.json.gz"))
    assert found.equal, found
    assert found.completed > 90


def test_another_decision_is_seen(data):
    run = load(data / "cosco/azure13.json.gz")
    run["intervals"][4]["decision"][0][1] ^= 1
    assert not replay(run).equal
