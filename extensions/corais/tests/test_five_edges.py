"""The five real edges of `benchmarks.five_edges`."""

import os

import numpy as np
import pytest

from benchmarks import edge_nodes, five_edges


def test_requests_are_of_the_papers_sizes_and_shares():
    rng = np.random.default_rng(1)
    one = five_edges.instance(20_000, five_edges.DISTRIBUTIONS["shifted"], np.full(5, 0.1), np.zeros(5), rng)
    np.testing.assert_allclose(np.bincount(one.source) / 20_000, (0.5, 0.2, 0.2, 0.05, 0.05), atol=0.01)
    np.testing.assert_allclose(np.bincount(one.target) / 20_000, (0.1, 0.1, 0.4, 0.25, 0.15), atol=0.01)
    assert [float(np.mean(one.input == size)) for size in (2.6, 7.9, 18.6)] == pytest.approx([0.5, 0.3, 0.2], abs=0.01)
    areas = np.square(five_edges.SIDES) / five_edges.SIDES[0] ** 2
    np.testing.assert_allclose(areas, np.array(five_edges.MEGABYTES) / 2.6, rtol=0.01)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0 or not edge_nodes.GROUPS.is_dir(), reason="needs root and control groups")
def test_every_request_is_computed_where_it_was_decided():
    with edge_nodes.started(five_edges.nodes(), "process") as edges:
        slope, offset = five_edges.measured(edges, 1)
        one = five_edges.instance(
            120, five_edges.DISTRIBUTIONS["equal"], np.maximum(slope, 1e-4), offset, np.random.default_rng(2)
        )
        decision = np.array([0, 1, 2, 3] * 30)  # none at the fifth
        before = [edge.cpu() for edge in edges]
        found = five_edges.carried_out(edges, one, decision)
        used = np.array([edge.cpu() for edge in edges]) - before
    assert found > 0.0
    assert used[4] < 0.5 * used[:4].min(), used  # s; waiting costs a tick or two
