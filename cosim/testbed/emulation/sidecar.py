"""The sidecar of a node: owns its network namespace, makes its interfaces and hands them to the network service.

    python -m cosim.testbed.emulation.sidecar --node uav-1 --socket /run/cosim/links.sock \\
        --interface wlan0,02:00:00:00:00:01,10.9.0.1/24 --neighbour 10.9.0.2,02:00:00:00:00:02

It needs CAP_NET_ADMIN and /dev/net/tun, nothing else. Values that are not given by arguments are taken from the
environment: COSIM_NODE, COSIM_SOCKET, COSIM_INTERFACES and COSIM_NEIGHBOURS (several are separated by spaces). With
`--kernel netem` (COSIM_KERNEL) the sidecar shapes what leaves its node by traffic control, as the service orders: on
existing interfaces, or, with `--underlay HOST` (COSIM_UNDERLAY), on tunnels over the network of that host. Where this
kernel has no netem it makes TAPs instead, and reports that; `--kernel rates` works without netem and refuses to delay
or lose packets.
`--forwards` (COSIM_FORWARDS=1) lets the node forward packets for others. `--reach HOST` (COSIM_REACH) names the hosts
that the node's software may reach by the engine's own networks, in place of all hosts there. `--uplink HOST`
(COSIM_UPLINK) makes this the end of the nodes' uplinks (`cosim.testbed.emulation.uplink`): HOST is the address that
its own stands for, or `router`, the router of this namespace; COSIM_NETWORKS cannot be reached this way.
When the service goes away, so do the interfaces; the sidecar makes and hands over new ones as soon as a
service listens again. It ends with exit code 2 when it cannot work: missing rights, or wrong configuration.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import ipaddress
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cosim.contract.errors import CosimError, ProtocolError, RunError, SetupError
from cosim.testbed.emulation import handover, overlay, routing, taps, tc, uplink
from cosim.testbed.emulation.handover import Announcement
from cosim.testbed.emulation.management import Management
from cosim.testbed.emulation.orders import FROM_SIDECAR, PACKET, TO_SIDECAR
from cosim.testbed.emulation.probing import Inside
from cosim.testbed.emulation.shaping import PERIOD, Shaping
from cosim.testbed.emulation.taps import Tap

DEVICES = Path("/proc/self/net/dev")  # counters of the interfaces in this network namespace

log = logging.getLogger("cosim.sidecar")

KERNEL = ("", "netem", "rates")
FIRST_PAUSE = 0.05  # s before the next attempt, doubled each time
LONGEST_PAUSE = 1.0  # s
BUSY = 10.0  # s that an interface of ours may still be held by a service that is ending


@dataclass(frozen=True, slots=True)
class SidecarSettings:
    """The configuration of a sidecar."""

    node: str
    service: Path
    interfaces: tuple[Tap, ...]
    kernel: str = ""  # "netem", "rates": what leaves the node is shaped here; "": frames are handed over
    underlay: str = ""  # a host on the network that then carries frames, "": the interfaces are there already
    remark: str = ""  # why frames are handed over
    forwards: bool = False  # packets that are for others are passed on
    reach: tuple[str, ...] = ()  # hosts on the engine's own networks; none: those networks are left alone
    uplink: str = ""  # whom the first interface's address stands for, where uplinks end here
    closed: tuple[str, ...] = ()  # networks that cannot be reached by such an uplink


def settings(arguments: Sequence[str], environment: Mapping[str, str]) -> SidecarSettings:
    """Read arguments and environment; SetupError with the reason when they are invalid."""
    parser = argparse.ArgumentParser(prog="sidecar", description="hand a node's interfaces to the network service")
    parser.add_argument("--node", default=environment.get("COSIM_NODE", ""))
    parser.add_argument("--socket", default=environment.get("COSIM_SOCKET", "/run/cosim/links.sock"))
    parser.add_argument("--interface", action="append", metavar="NAME,MAC[,ADDRESS/PREFIX[,MTU]]")
    parser.add_argument("--neighbour", action="append", metavar="ADDRESS,MAC")
    parser.add_argument("--kernel", default=environment.get("COSIM_KERNEL", ""))
    parser.add_argument("--underlay", default=environment.get("COSIM_UNDERLAY", ""))
    parser.add_argument("--forwards", action="store_true", default=environment.get("COSIM_FORWARDS") == "1")
    parser.add_argument("--reach", action="append", metavar="HOST")
    parser.add_argument("--uplink", default=environment.get("COSIM_UPLINK", ""), metavar="ADDRESS")
    found = parser.parse_args(arguments)
    interfaces = found.interface or environment.get("COSIM_INTERFACES", "").split()
    neighbours = found.neighbour or environment.get("COSIM_NEIGHBOURS", "").split()
    if not found.node:
        raise SetupError("no node; name it by --node or COSIM_NODE")
    if not interfaces:
        raise SetupError("no interface; name them by --interface or COSIM_INTERFACES")
    if found.kernel not in KERNEL:
        raise SetupError(f"'{found.kernel}' is nothing that a kernel imposes; there are netem and rates (COSIM_KERNEL)")
    known = [_neighbour(text) for text in neighbours]
    made = tuple(_interface(text, known) for text in interfaces)
    try:
        for tap in made:
            Announcement(found.node, tap.name, tap.mac).packed()
    except ProtocolError as error:
        raise SetupError(f"node '{found.node}': {error}") from error
    reach = tuple(found.reach or environment.get("COSIM_REACH", "").split())
    how = {"kernel": found.kernel, "underlay": found.underlay, "forwards": found.forwards, "reach": reach}
    if found.uplink:
        if not made[0].address:
            raise SetupError(f"interface {made[0].name} of the end of uplinks has no address")
        how |= {"uplink": found.uplink, "closed": tuple(environment.get("COSIM_NETWORKS", "").split())}
    return SidecarSettings(found.node, Path(found.socket), made, **how)


def hand_over_all(settings: SidecarSettings, shaping: Shaping | None = None) -> socket.socket:
    """Make all interfaces anew and hand them over, or announce those that are shaped here; the connection for that."""
    link = handover.connect(settings.service)
    try:
        for tap in settings.interfaces:
            what = Announcement(settings.node, tap.name, tap.mac, remark=settings.remark)
            if shaping:
                handover.hand_over(link, replace(what, at=shaping.at))
            else:
                handover.hand_over(link, what, _make(tap))
    except BaseException:
        link.close()
        raise
    link.settimeout(None)
    return link


def run(settings: SidecarSettings) -> None:
    """Keep the interfaces attached, for ever; SetupError when they cannot be made."""
    if settings.forwards:
        routing.forward()
    if settings.uplink:
        end = settings.interfaces[0]
        uplink.translate(end.name, end.address, settings.uplink, settings.closed)
    management = Management(settings.reach, [tap.name for tap in settings.interfaces])
    try:
        management.open()
        _attach(possible(settings))
    finally:
        management.close()


def _attach(settings: SidecarSettings) -> None:
    pause = FIRST_PAUSE
    shaping: Shaping | None = None
    while True:
        try:
            if settings.kernel and shaping is None:
                netem = settings.kernel == "netem"
                shaping = Shaping(settings.interfaces, netem=netem, underlay=settings.underlay)
            with hand_over_all(settings, shaping) as link:
                log.info("handed over %s of %s", ", ".join(tap.name for tap in settings.interfaces), settings.node)
                pause = FIRST_PAUSE
                _listen(link, settings, shaping)
            log.info("the service is gone")
        except OSError as error:
            log.debug("no service at %s: %s", settings.service, error)
        except SetupError:
            raise
        except RunError as error:  # another service may say something else, and a busy kernel answers the next time
            log.error("%s", error)
            pause = LONGEST_PAUSE
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def possible(settings: SidecarSettings) -> SidecarSettings:
    """Settings that this kernel supports: shape what leaves the node, or hand frames over and report why."""
    reason = tc.probe_netem() if settings.kernel == "netem" else ""
    if settings.kernel and settings.underlay:
        reason = reason or overlay.missing()
    if not reason:
        return settings
    log.warning("frames are handed over: %s", reason)
    return replace(settings, kernel="", remark=reason.partition(";")[0])


class Unread:
    """Frames that the kernel dropped at TAPs because the service had not read those before them."""

    def __init__(self, interfaces: Sequence[str], table: Path = DEVICES) -> None:
        self._table, self._last = table, dict.fromkeys(interfaces, 0)

    def new(self) -> int:
        """Those since the last call; the counter of an interface that was made anew starts at 0."""
        found = 0
        with contextlib.suppress(OSError):
            for line in self._table.read_text(encoding="ascii").splitlines()[2:]:
                name, _, counters = line.partition(":")
                if name.strip() in self._last:
                    count, last = int(counters.split()[11]), self._last[name.strip()]  # tx drop
                    found += count - last if count >= last else count
                    self._last[name.strip()] = count
        return found


def _listen(link: socket.socket, settings: SidecarSettings, shaping: Shaping | None) -> None:
    """Make the probes, routes and links that the service orders, until it is gone."""
    inside = Inside(link, {tap.name: tap.address.partition("/")[0] for tap in settings.interfaces})
    kernel = routing.KernelRoutes()
    due, refusal = time.monotonic(), ""
    unread = Unread([tap.name for tap in settings.interfaces])
    try:
        if shaping:
            shaping.greet()
        link.send(FROM_SIDECAR.pack("listening"))
        while True:
            if time.monotonic() >= due:
                due = time.monotonic() + PERIOD
                for report in shaping.report() if shaping else ():
                    link.send(FROM_SIDECAR.pack("shaped", report))
                if not shaping and (count := unread.new()):
                    link.send(FROM_SIDECAR.pack("unread", {"frames": count}))
                if refusal:
                    link.send(FROM_SIDECAR.pack("unshaped", {"error": refusal}))
            if not select.select([link], [], [], max(0.0, due - time.monotonic()))[0]:
                continue
            data = link.recv(PACKET)
            if not data:
                return
            order = TO_SIDECAR.unpack(data)
            inside.take(order)
            kernel.take(order)
            if shaping and ((error := shaping.take(order)) or order.kind == "links"):
                refusal = error  # it is said at once, and again each second: who has asked may not have heard it
                due = 0.0 if refusal else due
    finally:
        inside.close()
        kernel.close()


def main() -> int:
    """Run until stopped: exit code 0, and 2 when the sidecar cannot work."""
    logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # as process 1 of a container there is no default
    try:
        with contextlib.suppress(KeyboardInterrupt):
            run(settings(sys.argv[1:], os.environ))
    except CosimError as error:
        log.error("%s", error)
        return error.exit_code
    return 0


def _make(tap: Tap) -> int:
    """Make an interface, waiting a while for a service that is ending to let go of the last one."""
    end = time.monotonic() + BUSY
    while True:
        try:
            return taps.make(tap)
        except SetupError as error:
            if getattr(error.__cause__, "errno", 0) != errno.EBUSY or time.monotonic() >= end:
                raise
            time.sleep(FIRST_PAUSE)


def _neighbour(text: str) -> tuple[str, str]:
    address, comma, mac = text.partition(",")
    if not comma:
        raise SetupError(f"'{text}' is no neighbour; expected ADDRESS,MAC like 10.9.0.2,02:00:00:00:00:02")
    return address, mac


def _interface(text: str, neighbours: Sequence[tuple[str, str]]) -> Tap:
    """An interface with those of the neighbours that are in its network."""
    parts = text.split(",")
    if not 2 <= len(parts) <= 4 or (len(parts) == 4 and not parts[3].isdigit()):
        like = "wlan0,02:00:00:00:00:01,10.9.0.1/24"
        raise SetupError(f"'{text}' is no interface; expected NAME,MAC[,ADDRESS/PREFIX[,MTU]] like {like}")
    name, mac, *rest = parts
    tap = Tap(name, mac, rest[0] if rest else "", int(rest[1]) if len(rest) > 1 else 1500)
    if not tap.address:
        return tap
    own = ipaddress.IPv4Interface(tap.address)
    try:
        near = tuple(
            (address, mac)
            for address, mac in neighbours
            if ipaddress.IPv4Address(address) in own.network and address != str(own.ip)
        )
    except ValueError as error:
        raise SetupError(f"neighbour: {error}") from error
    return replace(tap, neighbours=near)


if __name__ == "__main__":
    sys.exit(main())
