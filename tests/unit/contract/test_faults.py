"""The last link event that names a pair of nodes holds, for all adapters alike."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.entities import Event, SlotRange
from cosim.contract.faults import Faults, LinkChanges

CAPACITY = 6
sides = st.lists(st.builds(SlotRange, st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=2).map(tuple)
events = st.builds(
    lambda do, link, delay, loss, rate: Event(0.0, do, (), link, delay=delay, loss=loss, rate=rate),
    st.sampled_from(("degrade", "restore")), st.tuples(sides, sides),
    st.sampled_from((0.0, 0.1, 0.3)), st.sampled_from((0.0, 0.2, 1.0)), st.sampled_from((0.0, 0.5, 1.0)),
)  # fmt: skip
pairs = [(x, y) for x in range(CAPACITY) for y in range(CAPACITY)]


def pair_by_pair(history):
    """What the last event of each pair says, looked up for each pair alone."""
    found = dict.fromkeys(pairs, (1.0, 0.0, 0.0))
    for event in history:
        a, b = ({k for r in side for k in range(r.first, r.first + r.count)} for side in event.link)
        for x, y in pairs:
            if (x in a and y in b) or (x in b and y in a):
                degraded = event.do == "degrade"
                found[x, y] = (event.rate, event.delay, event.loss) if degraded else (1.0, 0.0, 0.0)
    return found


@given(st.lists(events, max_size=8))
def test_the_last_event_that_names_a_pair_holds(history):
    changes = LinkChanges(CAPACITY)
    for event in history:
        changes.add(event)
    x, y = np.array(pairs, np.int32).T
    factor, delay, loss = changes.between(x, y)
    expected = pair_by_pair(history)
    assert list(zip(factor, delay, loss, strict=True)) == [expected[pair] for pair in pairs]
    assert bool(changes) or expected == pair_by_pair([])


@given(st.lists(events, max_size=8))
def test_links_of_all_adapters_change_by_the_same_rule(history):
    faults = Faults(CAPACITY)
    faults.take(history)
    x, y = np.array(pairs, np.int32).T
    rate, delay, loss = np.full(len(x), 8.0), np.full(len(x), 0.01), np.full(len(x), 0.1)
    faults.apply(x, y, (rate,), delay, loss)
    for k, pair in enumerate(pairs):
        factor, more, lost = pair_by_pair(history)[pair]
        assert rate[k] == 8.0 * factor
        assert delay[k] == 0.01 + more
        assert abs(loss[k] - (0.1 + 0.9 * lost)) < 1e-15


def test_no_pair_is_not_the_last_slot():
    changes = LinkChanges(2)
    changes.add(Event(0.0, "degrade", (), ((SlotRange(0, 1),), (SlotRange(1, 1),)), delay=0.1, loss=0.0, rate=0.5))
    assert changes.between(np.array([0, 0]), np.array([1, -1]))[0].tolist() == [0.5, 1.0]
