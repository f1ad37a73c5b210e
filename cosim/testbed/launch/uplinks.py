"""The end of uplinks in namespaces of this machine: a namespace of its own, with a wire to the machine's network.

The wire goes with the namespace, and so does the rule by which packets leave the machine under its own address: the
kernel takes it back with the socket that has made it, however the run ends. No setting of the machine is changed.
"""

from __future__ import annotations

import ipaddress
import os
import subprocess
from collections.abc import Collection
from pathlib import Path

from cosim.contract.errors import SetupError
from cosim.testbed.emulation import nftables as nf
from cosim.testbed.emulation import taps
from cosim.testbed.emulation.netns import Namespaces
from cosim.testbed.emulation.nftables import Netfilter
from cosim.testbed.emulation.taps import Tap
from cosim.testbed.emulation.uplink import routes
from cosim.testbed.launch.programs import HOST, mac_of

POOL = ipaddress.IPv4Network("10.175.0.0/16")  # a part of it for each run
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
OUT = "out0"  # the wire's card in the namespace
OPEN = "with Docker:  iptables -I DOCKER-USER -i cosim-+ -j ACCEPT  and  iptables -I DOCKER-USER -o cosim-+ -j ACCEPT"


class UplinkWire:
    """The wire between the end of uplinks and this machine, until `close`."""

    def __init__(self, spaces: Namespaces, run: str) -> None:
        """Lay it. Raises `SetupError` when the kernel refuses."""
        network = free([known for known, _ in routes() if known.prefixlen], os.getpid())
        here, there = network[1], network[2]
        name = f"cosim-{os.getpid():x}"
        spaces.create(HOST)
        _ip(
            spaces,
            f"link add {OUT} type veth peer name {name} netns {os.getpid()}",
            f"addr add {there}/{network.prefixlen} dev {OUT}",
            f"link set {OUT} up",
            f"route add default via {here}",
        )
        taps.configure(Tap(name, mac_of(str(here)), f"{here}/{network.prefixlen}"))
        self.host = str(here)
        self.remark = self._beyond(network, name, run)

    def _beyond(self, network: ipaddress.IPv4Network, name: str, run: str) -> str:
        """Let packets leave this machine under its address; what is in the way of that, in words, or ""."""
        self._netfilter = Netfilter()
        table = f"cosim_{run}"
        leaving = (*nf.within(network, nf.SOURCE_ADDRESS), *nf.leaves_by(name, no=True))
        try:
            self._netfilter.send([
                nf.table(table, owned=True),
                nf.chain(table, "out", "nat", nf.POSTROUTING, nf.SOURCE),
                nf.rule(table, "out", *leaving, nf.masquerade()),
            ])  # fmt: skip
        except SetupError as error:
            return f"nothing beyond it ({error})"
        if FORWARDING.read_text(encoding="ascii").strip() == "0":
            return "nothing beyond it, since net.ipv4.ip_forward is 0 here"
        return "" if passing(_forward_rules()) else f"nothing beyond it, since its firewall forwards no packets; {OPEN}"

    def close(self) -> None:
        """Take the rule back; the wire goes with its namespace. May be called twice."""
        self._netfilter.close()


def free(taken: Collection[ipaddress.IPv4Network], first: int) -> ipaddress.IPv4Network:
    """A network of four addresses that none of `taken` is in or around, looked for from the `first` on."""
    size, count = 4, POOL.num_addresses // 4
    for k in range(count):
        network = ipaddress.IPv4Network((int(POOL[0]) + (first + k) % count * size, 30))
        if not any(network.overlaps(other) for other in taken):
            return network
    raise SetupError(f"no part of {POOL} is free on this machine, which the uplinks of nodes need")


def passing(rules: str) -> bool:
    """Whether these rules for forwarded packets, as `iptables -S` writes them, let those of a wire pass."""
    lines = rules.splitlines()
    return "-P FORWARD DROP" not in lines or any("cosim-+" in line and line.endswith("ACCEPT") for line in lines)


def _forward_rules() -> str:
    """The rules that `iptables` lists; "" where there is none, as other firewalls have their own ways."""
    try:
        done = subprocess.run(["iptables", "-S"], capture_output=True, text=True, timeout=10.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _ip(spaces: Namespaces, *lines: str) -> None:
    done = spaces.run(HOST, ["ip", "-batch", "-"], text="\n".join(lines) + "\n")
    if done.returncode:
        raise SetupError(f"cannot wire the uplinks: ip: {done.stderr.strip()[:400]}")
