"""Gateway and agent as pure objects: leases, back-off, repetition, eviction, tasks that are never lost."""

from __future__ import annotations

import ipaddress
import math
import random

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.testbed.live.lease import MESSAGES, STRIKES
from cosim.testbed.live.member import LONGEST
from cosim.testbed.live.protocol import FROM_AGENT, FROM_GATEWAY
from cosim.testbed.live.roster import Roster
from cosim.testbed.live.shaping import Impairment, Keeper
from tests.unit.testbed.live.pair import READING, Wire, bytes_of, joined, member, queued, slot


def state(roster, i=0):
    return roster.standings[i].state


def test_an_agent_gets_the_only_slot_of_its_key_and_reports():
    roster, agent, wire = joined()
    wire.pass_time(3.0)
    assert agent.node == "pi"
    standing = roster.standings[0]
    assert standing.report == {**READING, "running": 0, "waiting": 0}
    assert wire.now - standing.reported <= 1.0
    (row,) = roster.table(wire.now)
    assert (row["name"], row["state"], row["cpu"]) == ("pi", "attached", 0.5)


def test_with_several_slots_the_agent_names_one():
    roster = Roster([slot("a", key="lab"), slot("b", key="lab", number=1)], random=bytes_of(9))
    wire = Wire(roster, key="lab")
    nameless, named = member(1), member(2, node="b")
    wire.connect(nameless)
    assert nameless.said == "unknown-node: the slots of key 'lab': a, b"
    wire.connect(named)
    assert named.node == "b"


@pytest.mark.parametrize("node", ["pi", "", "other"])
def test_a_key_without_a_slot_gets_none(node):
    roster = Roster([slot("pi")], random=bytes_of(9))
    wire, stranger = Wire(roster, key="stranger"), member(3, node=node)
    wire.connect(stranger)
    assert stranger.state == "seeking"
    assert "no node of the scenario has live.key 'stranger'" in stranger.said
    assert state(roster) == "free"


def test_offset_and_round_trip_of_a_far_clock():
    roster = Roster([slot()], random=bytes_of(9))
    wire, agent = Wire(roster, ahead=5000.0, wall_ahead=-4990.0), member()
    wire.connect(agent)
    wire.pass_time(2.0)
    lease = roster.standings[0].lease
    assert lease.clock.offset == pytest.approx(5000.0, abs=1e-6)
    assert lease.wall.offset == pytest.approx(10.0, abs=1e-6)


def test_a_wall_clock_that_is_set_by_an_hour_is_followed_and_harms_nothing():
    roster, agent, wire = joined()
    wire.pass_time(5.0)
    assert roster.standings[0].lease.wall.offset == pytest.approx(0.0, abs=1e-6)
    session = roster.standings[0].lease.session
    for jump in (3600.0, -3600.0):
        wire.wall_ahead = jump
        wire.pass_time(12.0)
        lease = roster.standings[0].lease
        assert lease.session == session
        assert lease.wall.offset == pytest.approx(jump, abs=1e-6)
        assert lease.clock.offset == pytest.approx(0.0, abs=1e-6)
    assert lease.wall.steps == 2
    assert roster.standings[0].state == "attached"
    assert agent.state == "attached"


def test_silence_ends_the_lease_at_both_ends():
    roster, agent, wire = joined(slot(lease=4.0))
    task = queued(1)
    assert roster.offer("pi", task)
    wire.pass_time(1.0)
    silent, wire.connections = wire.connections, {}
    wire.pass_time(5.0)
    assert state(roster) == "lost"
    (result,) = roster.results
    assert (result.task, result.status, result.detail) == (1, "lost", "no sign of life for 4 s")
    agent.tick(wire.now)
    assert agent.state == "seeking"
    assert agent.said == "nothing heard for 4 s"
    wire.connections = silent
    wire.pass_time(5.0)
    assert state(roster) == agent.state == "attached"


def test_pauses_between_attempts_double_up_to_a_limit():
    agent, now, pauses = member(), 0.0, []
    for _ in range(12):
        began = now
        while not agent.hello_due(now):
            now += 0.05
        pauses.append(now - began)
        agent.hello(now)
        agent.lost("no route", now)
    assert pauses[1:6] == pytest.approx([0.375, 0.75, 1.5, 3.0, 6.0], abs=0.06)
    assert max(pauses) <= LONGEST


def test_the_slot_is_taken_until_the_lease_of_a_dead_agent_ends():
    _, _, wire = joined(slot(lease=4.0))
    wire.connections.clear()  # kill -9
    late = member(2)
    wire.connect(late)
    assert late.said == "taken: another agent holds the slot"
    wire.pass_time(3.0)
    assert late.state != "attached"
    wire.pass_time(4.0)
    assert late.state == "attached"


def test_the_same_agent_takes_its_slot_again_at_once():
    roster, agent, wire = joined()
    before = roster.standings[0].lease.session
    agent.lost("network", wire.now)
    wire.pass_time(1.0)
    assert agent.state == "attached"
    assert roster.standings[0].lease.session != before


def test_a_farewell_gives_the_slot_back():
    roster, agent, wire = joined()
    (peer,) = wire.connections
    wire.up(peer, agent.leave("asked to end"))
    assert state(roster) == "left"
    assert roster.standings[0].detail == "asked to end"
    assert wire.connect(member(2))
    assert state(roster) == "attached"


def test_the_end_of_the_run_is_told():
    roster, agent, wire = joined()
    wire.down(roster.end("the run has ended", wire.now))
    assert agent.state == "seeking"
    assert agent.said == "the run has ended"


def test_who_is_evicted_stays_out():
    roster, agent, wire = joined()
    roster.offer("pi", queued(1))
    wire.down(roster.evict("pi", wire.now))
    assert agent.state == state(roster) == "evicted"
    assert [result.status for result in roster.results] == ["lost"]
    again = member(2)
    wire.connect(again)
    assert again.state == "evicted"
    assert not roster.offer("pi", queued(2))
    with pytest.raises(KeyError):
        roster.evict("nobody", 0.0)


def test_repeated_messages_do_not_count():
    roster, _, wire = joined()
    wire.pass_time(3.0)
    lease = roster.standings[0].lease
    until, log = lease.until, list(wire.log)
    for peer, data in log:
        assert roster.receive(peer, "pi", data, wire.now + 0.1, wire.now) == []
    assert lease.until == until
    assert roster.counts["repeated"] == len(log)
    assert roster.standings[0].lease is lease


def test_messages_of_another_session_are_refused():
    roster, _, wire = joined()
    peer, data = wire.log[-1]
    ((to, answer),) = roster.receive(b"thief", "pi", data, wire.now, wire.now)
    assert to == b"thief"
    assert FROM_GATEWAY.unpack(answer).body["reason"] == "no-session"
    forged = FROM_AGENT.pack("goodbye", {"reason": ""}, session=b"x" * 16, number=10**6)
    roster.receive(peer, "pi", forged, wire.now, wire.now)
    assert state(roster) == "attached"


def test_a_restarted_gateway_is_joined_at_once():
    _, agent, wire = joined()
    wire.roster = Roster([slot()], random=bytes_of(55))
    wire.pass_time(3.0)
    assert agent.state == state(wire.roster) == "attached"


def test_a_flood_is_left_out_and_ends_the_session():
    roster, agent, wire = joined()
    (peer,) = wire.connections
    for _ in range(int(MESSAGES[1]) + STRIKES + 10):
        wire.up(peer, agent.report(READING, wire.now))
    assert roster.counts["flood"] >= STRIKES
    assert state(roster) == "lost"
    assert roster.standings[0].detail == "too many messages"


@pytest.mark.parametrize(("allowed", "ability"), [(True, "full"), (True, "rate"), (True, "none"), (False, "full")])
def test_shaping_needs_the_permission_of_both_ends(allowed, ability):
    roster, agent, wire = joined(slot(shaping=allowed), shaping=ability)
    roster.shape("pi", [Impairment("10.9.0.2", 1e6)])
    wire.pass_time(0.5)
    reported = [order["links"] for order in agent.shapes if order["links"]]
    assert reported == ([[["10.9.0.2", 1e6, None, None, None]]] if allowed and ability != "none" else [])


def kept(agent, keeper):
    """What the keeper has made of all that its member was told."""
    while agent.shapes:
        keeper.take(agent.shapes.popleft())
    return {address: link.rate for address, link in keeper._links.items()}


def test_changes_of_links_are_told_and_everything_in_a_new_session():
    roster, agent, wire = joined(slot(shaping=True))
    keeper = Keeper(None)
    roster.shape("pi", [Impairment("10.9.0.2", 1e6), Impairment("10.9.0.3", 2e6)])
    wire.pass_time(0.5)
    roster.shape("pi", [Impairment("10.9.0.3", 3e6)])
    roster.shape("pi", [Impairment("10.9.0.3", 4e6)])  # the latest wins
    wire.pass_time(0.5)
    assert [order["links"] for order in agent.shapes][-1] == [["10.9.0.3", 4e6, None, None, None]]
    assert kept(agent, keeper) == {"10.9.0.2": 1e6, "10.9.0.3": 4e6}
    agent.lost("cut", wire.there)
    wire.pass_time(2.0)
    assert agent.state == "attached"
    (order,) = agent.shapes
    assert (order["all"], len(order["links"])) == (True, 2)
    kept(agent, keeper)
    wire.reading = lambda: {**READING, **keeper.report(wire.now)}
    wire.pass_time(20.0)
    assert not agent.shapes  # nothing has changed


def test_links_that_were_lost_on_the_way_are_told_again():
    roster, agent, wire = joined(slot(shaping=True))
    keeper = Keeper(None)
    kept(agent, keeper)
    wire.reading = lambda: {**READING, **keeper.report(wire.now)}
    roster.shape("pi", [Impairment("10.9.0.2", 1e6)])
    roster.tick(wire.now, wire.now)  # and nothing of it arrives
    for k in range(40):  # changes over and over
        roster.shape("pi", [Impairment("10.9.0.3", 1e6 + k)])
        wire.pass_time(0.5)
        kept(agent, keeper)
    wire.pass_time(3.0)
    assert kept(agent, keeper) == {"10.9.0.2": 1e6, "10.9.0.3": 1e6 + 39}
    assert roster.standings[0].wishes.repeated == 1


def shaped(lease=4.0):
    """A machine that has one link shaped."""
    roster, agent, wire = joined(slot(shaping=True, lease=lease))
    roster.shape("pi", [Impairment("10.9.0.2", 1e6)])
    wire.pass_time(0.5)
    keeper = Keeper(None)
    assert kept(agent, keeper)
    return roster, agent, wire, keeper


@pytest.mark.parametrize("end", ["goodbye", "evict", "leave"])
def test_what_was_shaped_is_taken_back_at_once_when_a_session_ends(end):
    roster, agent, wire, keeper = shaped()
    if end == "leave":
        agent.leave("bye")
    else:
        wire.down(roster.end("over", wire.now) if end == "goodbye" else roster.evict("pi", wire.now))
    assert kept(agent, keeper) == {}


def test_what_was_shaped_stays_for_the_lease_when_the_way_breaks_off():
    _, agent, wire, keeper = shaped()
    wire.connections.clear()
    agent.lost("cut", wire.there)
    for seconds, links in ((3.0, 1), (4.5, 0)):
        agent.tick(wire.there + seconds)
        assert len(kept(agent, keeper)) == links


def test_a_silent_gateway_leaves_nothing_shaped():
    _, agent, wire, keeper = shaped()
    agent.tick(wire.there + 4.5)
    assert (agent.state, kept(agent, keeper)) == ("seeking", {})


def test_another_run_finds_nothing_shaped():
    _, agent, wire, keeper = shaped()
    wire.roster = Roster([slot(shaping=False)], random=bytes_of(77))
    agent.lost("restarted", wire.there)
    wire.pass_time(2.0)
    assert (agent.state, kept(agent, keeper)) == ("attached", {})


# -- tasks -----------------------------------------------------------------------------------


def run_one(agent, wire, status="done"):
    body = agent.starting.popleft()
    agent.started(body["task"])
    start = wire.there
    wire.now += 0.1
    (peer,) = [peer for peer, known in wire.connections.items() if known is agent] or [b"gone"]
    wire.up(peer, agent.finished(body["task"], status, wire.there, started=start, computed=wire.there, output=b"out"))
    return body["task"]


def test_a_task_goes_there_and_back_with_its_times():
    roster = Roster([slot(number=7)], random=bytes_of(9))
    wire, agent = Wire(roster, ahead=1e6), member()
    wire.connect(agent)
    wire.pass_time(1.0)
    assert roster.offer("pi", queued(5, created=wire.now))
    wire.down(roster.tick(wire.now, wire.now))
    sent = wire.now
    assert run_one(agent, wire) == 5
    (result,) = roster.results
    assert (result.task, result.slot, result.status, result.output) == (5, 7, "done", 3)
    times = [result.created, result.sent, result.uploaded, result.started, result.computed, result.ended]
    assert times == sorted(times)
    assert result.started == pytest.approx(sent, abs=1e-6)
    assert result.computed == pytest.approx(sent + 0.1, abs=1e-6)
    assert len(agent._held) == 0  # acknowledged


def test_a_machine_gets_no_more_than_its_window_and_the_queue_is_bounded():
    roster, agent, wire = joined(queue=3, window=2)
    assert [roster.offer("pi", queued(i)) for i in range(5)] == [True, True, True, False, False]
    wire.down(roster.tick(wire.now, wire.now))
    assert len(agent.starting) == 2
    assert roster.offer("pi", queued(9))
    while agent.starting:
        run_one(agent, wire)
        wire.down(roster.tick(wire.now, wire.now))
    assert [result.task for result in roster.results] == [0, 1, 2, 9]


def test_unknown_work_is_refused_not_lost():
    roster, _, wire = joined(works=["matrix"])
    roster.offer("pi", queued(1))
    wire.pass_time(1.0)
    assert [(r.task, r.status, r.detail) for r in roster.results] == [(1, "refused", "unknown work")]


def test_a_lost_result_comes_again_in_the_next_session():
    roster, agent, wire = joined()
    roster.offer("pi", queued(1))
    wire.pass_time(0.5)
    wire.connections.clear()  # the network is gone while it computes
    run_one(agent, wire)
    assert not roster.results
    agent.lost("network", wire.now)
    while not agent.hello_due(wire.now):
        wire.now += 0.1
    wire.connect(agent)
    wire.pass_time(2.0)
    assert [result.task for result in roster.results] == [1]
    assert agent.tasks_done == 1
    assert not agent._held


def test_tasks_of_an_ended_run_are_cancelled():
    roster, agent, wire = joined()
    roster.offer("pi", queued(1))
    wire.pass_time(0.5)
    wire.roster = Roster([slot()], random=bytes_of(55))
    wire.pass_time(3.0)
    assert list(agent.cancelled) == [1]
    assert not agent.starting


steps = st.lists(
    st.sampled_from(["offer", "run", "wait", "cut", "lose-up", "lose-down", "repeat", "leave", "kill"]), max_size=60
)


@pytest.mark.slow
@given(steps, st.integers(0, 1000))
def test_whatever_happens_every_task_has_one_result(actions, seed):
    """Connections break, messages are lost with them or repeated, agents die: the ledger closes."""
    chance = random.Random(seed)
    roster, agent, wire = joined(slot(lease=4.0), window=3)
    offered, ran = 0, []
    for action in actions:
        if action == "offer":
            offered += roster.offer("pi", queued(offered, wire.now))
        elif action == "run" and agent.starting:
            ran.append(run_one(agent, wire))
        elif action == "wait":
            wire.pass_time(chance.choice([0.5, 2.0, 7.0]))
        elif action == "cut":
            wire.connections.clear()
            agent.lost("cut", wire.now)
        elif action in ("lose-up", "lose-down"):  # what is sent within a broken connection never arrives
            known, wire.connections = dict(wire.connections), {}
            if action == "lose-up":
                agent.tick(wire.there)
            else:
                roster.tick(wire.now, wire.now)
            wire.connections = known
        elif action == "repeat" and wire.log:
            peer, data = chance.choice(wire.log)
            wire.down(roster.receive(peer, "pi", data, wire.now, wire.now))
        elif action == "leave":
            for peer in list(wire.connections):
                wire.up(peer, agent.leave("bye"))
        elif action == "kill":
            wire.connections.clear()
            agent = member(chance.randrange(2, 1000))
            wire.connect(agent)
    for _ in range(60):
        wire.pass_time(7.0)
        agent.tick(wire.there)
        if agent.hello_due(wire.there):
            wire.connect(agent)
        while agent.starting:
            ran.append(run_one(agent, wire))
    ended = [result.task for result in roster.results]
    assert sorted(ended) == list(range(offered))
    done = [result.task for result in roster.results if result.status == "done"]
    assert set(done) <= set(ran)
    assert agent.state == "attached"
    assert not agent._held


# -- noise -----------------------------------------------------------------------------------


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Bits, bytes, lengths and fields changed at random."""
    kind = chance.randrange(5)
    raw = bytearray(data)
    if kind == 0 and raw:
        for _ in range(chance.randrange(1, 8)):
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del raw[chance.randrange(len(raw) + 1) :]
    elif kind == 2:
        at = chance.randrange(len(raw) + 1)
        raw[at:at] = chance.randbytes(chance.randrange(1, 20))
    elif kind == 3:
        raw = bytearray(chance.randbytes(chance.randrange(200)))
    else:
        item = msgpack.unpackb(data)
        odd = chance.choice([None, -1, 1 << 63, math.inf, "", "x" * 500, b"", [], {}, [[[]]], True, -0.0])
        if isinstance(item[4], dict) and item[4] and chance.random() < 0.8:
            item[4][chance.choice(list(item[4]))] = odd
        else:
            item[chance.randrange(5)] = odd
        return msgpack.packb(item)
    return bytes(raw)


def noise(count: int, seed: int) -> None:
    """`count` mutated messages both ways: nothing raises, no slot changes hands, what works goes on working."""
    chance = random.Random(seed)
    roster, agent, wire = joined(slot(lease=60.0, shaping=True), slot("other", number=1, key="other"))
    roster.shape("pi", [Impairment("10.9.0.2", 1e6)])
    wire.pass_time(3.0)
    keeper = Keeper(None)
    own = [data for _, data in wire.log]
    theirs = [data for _, data in roster.tick(wire.now + 9.0, wire.now)]
    theirs.append(FROM_GATEWAY.pack("task", queued(1).make(), session=agent._session, number=10**6))
    theirs.append(FROM_GATEWAY.pack("done", {"tasks": [1]}, session=agent._session, number=10**6))
    links = [["10.9.0.2", 1e6, 0.01, 0.0, 0.1], ["10.9.0.3", None, None, None, None]]
    theirs.append(
        FROM_GATEWAY.pack("shape", {"serial": 1, "all": True, "links": links}, session=agent._session, number=10**6)
    )
    for i in range(count):
        wire.now += 0.01
        peer = chance.choice([*wire.connections, b"stranger", b""])
        key = "stranger" if peer not in wire.connections else "pi"
        for to, data in roster.receive(peer, key, mutated(chance.choice(own), chance), wire.now, wire.now):
            assert to == peer or to in wire.connections
            assert len(data) < 2000
        for data in agent.receive(mutated(chance.choice(theirs), chance), wire.now, wire.now):
            assert len(data) < 2000
        assert all(ipaddress.IPv4Address(address) for address in kept(agent, keeper))
        if i % 100 == 0:
            wire.pass_time(1.0)
    assert roster.standings[1].state == "free"
    wire.pass_time(180.0)
    assert agent.state in ("attached", "evicted")
    assert len(roster._by_peer) <= 1


@pytest.mark.slow
def test_a_hundred_thousand_mutated_messages_get_nobody_in_and_bring_nothing_down():
    noise(100_000, 2)


@pytest.mark.parametrize(("boot", "started"), [("here", 5.25), ("elsewhere", 5.0), ("", 5.0)])
def test_times_of_our_own_machine_are_taken_as_they_are(boot, started):
    """Another machine's clock is put on ours by the measured offset, which half a round trip makes wrong here."""
    roster = Roster([slot()], random=bytes_of(1), boot="here")
    agent = member(boot=boot)
    ((peer, welcome),) = roster.receive(b"p", "pi", agent.hello(0.0), 0.0, 0.0)
    agent.receive(welcome, 0.0, 0.0)
    ((_, ping),) = roster.tick(0.0, 0.0)
    (pong,) = agent.receive(ping, 0.5, 0.5)  # half a second there, none back: an offset of 0.25 s
    roster.receive(peer, "pi", pong, 0.5, 0.5)
    assert roster.offer("pi", queued(1, 1.0))
    (task,) = [data for _, data in roster.tick(1.0, 1.0)][-1:]
    agent.receive(task, 2.0, 2.0)
    for data in agent.finished(1, "done", 6.0, started=5.25, computed=5.5):
        roster.receive(peer, "pi", data, 7.0, 7.0)
    assert roster.results[0].started == started
