"""The bytes that go to the kernel, and what comes back for each."""

from __future__ import annotations

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cosim.contract.errors import RunError, SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import rtnetlink
from cosim.testbed.emulation.rtnetlink import CREATE, Netlink, Refusal, attribute, attributes, failure

HANDLE = 0x5E10000


def test_a_class_of_eight_megabit():
    # 1 MB/s; burst 4000 + 1514 B = 5.514 ms = 86156 ticks; quantum 60000 B
    message = rtnetlink.htb_class(3, HANDLE + 1, HANDLE, 8e6)
    assert message.hex() == (
        "6000000028000100000000000000000000000000030000000100e1050000e10500000000"  # length, type, interface, handles
        "080001006874620034000200"  # kind "htb", options
        "30000100"  # parameters
        "00010000ffff000040420f00"  # rate
        "00010000ffff000040420f00"  # ceil
        "8c5001008c50010060ea00000000000000000000"
    )


def test_a_netem_queue_of_twenty_milliseconds_and_half_lost():
    message = rtnetlink.netem(3, 0x10010000, HANDLE + 1, LinkState(1e6, 0.020, loss=0.5), 200, CREATE)
    assert (
        message.hex()
        == (
            "780000002400010400000000000000000000000003000000000001100100e10500000000"
            "0a0001006e6574656d000000" + "48000200"  # kind "netem", padded; options
            "b4c40400c8000000000000800000000000000000"  # 312,500 ticks, 200 packets, half of 2^32
            "00000000"
            "0c000a00002d310100000000"  # 20,000,000 ns
            "0c000b000000000000000000"
            "1400060000000000000000000000000000000000"  # no rate
        )
    )


def test_a_filter_looks_in_the_bucket_of_the_last_octet():
    message = rtnetlink.destination(3, HANDLE, "10.9.0.7", HANDLE + 5)
    assert (
        message.hex()
        == (
            "640000002c000106000000000000000000000000030000000000000000" + "00e105" + "08000100"
            "080001007533320038000200"
            "080001000500e105"
            "0800020000702000"  # table 2, bucket 7
            "24000500" + "01000100" + "0000000000000000" + "00000000" + "ffffffff0a0900071000000000000000"
        )
    )


def test_a_filter_by_mac_looks_at_the_frame_before_the_packet():
    message = rtnetlink.destination(3, HANDLE, "02:00:0a:09:00:07", HANDLE + 5)
    assert message.hex().endswith(
        "0800020000702000"  # table 2, bucket 7
        "34000500" + "01000200" + "0000000000000000" + "00000000"
        "ffffffff0a090007f4ffffff00000000"  # bytes 2 to 5 of the frame
        "0000ffff00000200f0ffffff00000000"  # bytes 0 and 1
    )
    table = b"".join(rtnetlink.table(3, HANDLE, mac=True))
    assert struct.pack("=h", -12) + bytes.fromhex("000000ff") in table


def test_a_tunnel_and_who_is_at_its_ends():
    message = rtnetlink.vxlan("eth1", 0x0AAD00, 3, "172.20.0.5", "02:00:0a:ad:00:01")
    assert (
        message.hex()
        == (
            "7c00000010000106" + "0000000000000000" + "00000000000000000000000000000000"
            "0900030065746831" + "00000000" + "0a00010002000a" + "ad00010000"
            "0800280001000000"  # one packet a frame
            "3c001200" + "0a00010076786c616e000000" + "2c000200"
            "0800010000ad0a00" + "0800030003000000" + "08000400ac140005" + "0500070000000000" + "06000f0012b50000"
        )
    )
    everybody = rtnetlink.forwarding(7, "00:00:00:00:00:00", 3, "172.20.0.6", also=True)
    assert everybody.hex() == (
        "380000001c00010c" + "0000000000000000" + "0700000007000000c0000200"
        "0a00020000000000" + "00000000" + "08000100ac140006" + "0800080003000000"
    )  # fmt: skip
    assert rtnetlink.forwarding(7, "02:00:0a:ad:00:02", 3, "172.20.0.6")[6:8] == b"\x01\x05"  # create or replace


@given(
    st.floats(1, 1e12),
    st.integers(0, 0xFFFF),
    st.sampled_from([0, CREATE]),
)
def test_the_one_pack_of_a_class_is_what_nested_attributes_give(rate, number, flags):
    message = rtnetlink.htb_class(7, HANDLE + number, HANDLE, rate, flags)
    options = attributes(attributes(message[36:])[2])
    speed, buffer = struct.unpack_from("=I", options[1], 8)[0], struct.unpack_from("=I", options[1], 24)[0]
    nested = rtnetlink.traffic(
        rtnetlink.NEWCLASS, flags, 7, HANDLE + number, HANDLE, name="htb", options=attribute(1, options[1])
    )
    assert message == nested
    burst = buffer * rtnetlink.TICK * speed
    assert burst >= speed / 250 + rtnetlink.FRAME - 1 - speed * rtnetlink.TICK or buffer == 0xFFFFFFFF


@given(st.floats(0, 100), st.floats(0, 10), st.floats(0, 1), st.integers(1, 2**31))
def test_the_one_pack_of_netem_is_what_nested_attributes_give(delay, jitter, loss, limit):
    message = rtnetlink.netem(7, 0x10010000, HANDLE + 1, LinkState(1e6, delay, jitter, loss), limit)
    options = message[52:]
    nested = options[:24] + attribute(10, struct.pack("=q", round(delay * 1e9)))
    nested += attribute(11, struct.pack("=q", round(jitter * 1e9)))
    nested += attribute(6, struct.pack("=Iiii", 0xFFFFFFFF if jitter else 0, 0, 0, 0))  # with a rate the order is kept
    assert message == rtnetlink.traffic(rtnetlink.NEWQDISC, 0, 7, 0x10010000, HANDLE + 1, name="netem", options=nested)
    assert struct.unpack_from("=I", options, 8)[0] == round(loss * 0xFFFFFFFF)


def test_bursts_of_losses_and_reordering_are_attributes_of_their_own():
    state = LinkState(1e6, 0.02, loss=0.1, burst=4.0, reorder=0.25, duplicate=0.5)
    message = rtnetlink.netem(7, 0x10010000, HANDLE + 1, state, 200)
    options = message[52:]
    assert struct.unpack_from("=I", options, 8)[0] == 0  # not lost independently as well
    assert struct.unpack_from("=I", options, 16)[0] == round(0.5 * 0xFFFFFFFF)
    assert struct.unpack_from("=I", options, 12)[0] == 1  # the gap without which netem does not reorder
    enter, leave = 0.25 * 0.1 / 0.9, 0.25
    chances = struct.pack("=IIII", round(enter * 0xFFFFFFFF), round(leave * 0xFFFFFFFF), 0, 0)
    nested = options[: 24 + 12 + 12 + 20]
    nested += attribute(5, attribute(2, chances)) + attribute(3, struct.pack("=II", round(0.25 * 0xFFFFFFFF), 0))
    assert message == rtnetlink.traffic(rtnetlink.NEWQDISC, 0, 7, 0x10010000, HANDLE + 1, name="netem", options=nested)
    down = LinkState(1e6, 0.02, loss=1.0)
    assert rtnetlink.netem(7, 1, 2, down._replace(burst=4.0), 200) == rtnetlink.netem(7, 1, 2, down, 200)


def test_a_fifo_is_what_nested_attributes_give():
    options = struct.pack("=I", 1)
    nested = rtnetlink.traffic(rtnetlink.NEWQDISC, CREATE, 7, 1 << 16, HANDLE, name="bfifo", options=options)
    assert rtnetlink.fifo(7, 1 << 16, HANDLE, 1, CREATE) == nested


@given(st.lists(st.tuples(st.integers(1, 0x3FFF), st.binary(max_size=30)), unique_by=lambda pair: pair[0]))
def test_attributes_are_read_as_they_are_written(pairs):
    assert attributes(b"".join(attribute(kind, data) for kind, data in pairs)) == dict(pairs)


@given(st.binary(max_size=60))
def test_any_bytes_can_be_read(data):
    assert all(len(value) < len(data) for value in attributes(data).values())


def test_each_refusal_names_its_message():
    netlink = Netlink()
    absent = 2**30  # no such interface; without the privilege all are refused as well
    messages = [rtnetlink.htb_class(absent, HANDLE + 1, HANDLE, 1e6)] * 150
    refused = netlink.send(messages)
    assert [one.number for one in refused] == list(range(150))
    assert {one.errno for one in refused} <= {errno.ENODEV, errno.EPERM}
    assert netlink.send([]) == []
    netlink.close()
    netlink.close()


def test_an_interface_is_found_by_name():
    netlink = Netlink()
    assert netlink.index("lo") == socket.if_nametoindex("lo")
    assert netlink.index("absent0") == 0
    netlink.close()


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [
        (errno.EPERM, SetupError, "CAP_NET_ADMIN"),
        (errno.ENOENT, SetupError, "modprobe"),
        (errno.EEXIST, SetupError, "tc qdisc del"),
        (errno.ENODEV, RunError, "restarted"),
        (errno.EINVAL, RunError, "Invalid argument"),
    ],
)
def test_a_refusal_says_what_to_do(number, kind, words):
    error = failure(Refusal(0, number, "told so"), "shape wlan0 of uav-1")
    assert type(error) is kind
    assert words in str(error)
    assert "shape wlan0 of uav-1" in str(error)
    assert "told so" in str(error)
