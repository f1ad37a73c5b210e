"""What the paper's tables are made of: fluid bounds, and sums that must close."""

import numpy as np
import pytest

from cosim.extensions.corais import claims


def test_the_prototype_comes_close_to_the_work_shared_by_speed():
    """No decision is done before the work at full speed of all edges, and the search is not far above it."""
    count, rng = 200, np.random.default_rng([3, 200])
    found = claims.prototype("200", 3, None, distribution="equal", instances=1)
    least = rng.choice(claims.MEGABYTES, count, p=claims.PARTS).sum() / (np.array(claims.REPLICAS) / claims.SLOPE).sum()
    times = {name: row["200 requests"] for name, row in found.items()}
    assert least < times["search"] < 1.15 * least
    assert times["search"] <= min(times.values()) * (1 + 1e-9)


@pytest.mark.parametrize("case", ["LB", "HA"])
def test_every_request_is_somewhere(case):
    found = claims.character(case, 1, None, instances=1, requests=100, backlog=2.0)
    assert sum(row[f"{case} EReqN"] for row in found.values()) == 100
    assert min(row[f"{case} LCost"] for row in found.values()) > 0.5  # s of the backlog


@pytest.mark.parametrize("backlog", [0.5, 2.0])
def test_the_best_shares_fill_edges_like_vessels(backlog):
    """Each request where the work would end soonest: 1/12 s at each edge, above backlogs that fall to 0."""
    found = claims.character("WP", 1, None, instances=1, requests=100, backlog=backlog)
    level = np.linspace(backlog, 0.0, 5)
    count = np.zeros(5)
    for _ in range(100):
        edge = (level + count / 12).argmin()
        count[edge] += 1
    best = np.array([row["WP best"] for row in found.values()])
    np.testing.assert_allclose(best, count, atol=1.5)  # ways between edges take time, too
    shares = np.array([row["WP EReqN"] for row in found.values()])
    np.testing.assert_allclose(shares, count, atol=7.0)  # of independent draws, the best of 1000


def test_scales_that_are_too_large_are_left_out():
    assert claims.costs("(2000,1000,10000)", 1, None, instances=1, requests=6000) == {}


def test_gaps_are_over_the_best_known_decision():
    found = claims.gaps("(10,5,50)", 2, None, instances=2, limit=0.0)
    values = {name: row["(10,5,50) Gap-M"] for name, row in found.items()}
    assert 1.0 <= values["CoRaiS(1k)"] <= values["CoRaiS(greedy)"] < values["Random(1)"]


@pytest.mark.slow
def test_moving_clients_get_answers_where_they_are_then():
    within, leaving = (" ".join(f"van-{k}" for k in numbers) for numbers in (range(1, 13), (10, 11, 12)))
    found = claims.mobility(
        "corais-search", 3, None, within=within, leaving=leaving, scenario="two-regions", duration="30 s"
    )
    row = found["corais-search"]
    assert 90.0 < row["within answered, %"] < 100.0
    assert 0.0 < row["within after a move, %"] < 10.0
    assert 0.2 < row["within response, s"] < 2.0
    assert row["leaving answered, %"] != row["within answered, %"]
