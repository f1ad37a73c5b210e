"""Vehicles that MAVLink tools can fly, without a scenario.

python -m cosim.autopilot --persona ardupilot --frame copter --home 38.2466,21.7346,60 --udp 127.0.0.1:14550 --tcp 5760
"""

from __future__ import annotations

import argparse
import signal
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType

from cosim.autopilot.aeroloop import Positions
from cosim.autopilot.core import Autopilot
from cosim.autopilot.geodesy import Place
from cosim.autopilot.links import Endpoint, LinkEndpoints
from cosim.autopilot.log import FlightLogWriter, read, replay
from cosim.autopilot.serve import serve
from cosim.autopilot.table import Address, VehicleSlot, address, plan, render
from cosim.contract.errors import Problem, ScenarioError
from cosim.physics.vehicles import Copter, Rover, VehicleFleet

SPACING = 5.0  # m between the homes of two vehicles, eastwards


def _home(text: str) -> tuple[float, float, float]:
    try:
        latitude, longitude, altitude = (float(part) for part in text.split(","))
    except ValueError:
        raise ScenarioError(
            Problem(f"'{text}' is not a place", "--home", hint="write latitude,longitude,altitude in deg, deg, m")
        ) from None
    if not Place(latitude, longitude, altitude).possible:
        raise ScenarioError(
            Problem(
                f"'{text}' is not where a vehicle can be",
                "--home",
                hint="latitude comes first; altitude is -500 to 100,000 m",
            )
        )
    return latitude, longitude, altitude


def arguments() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m cosim.autopilot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--persona", choices=("ardupilot", "px4"), default="ardupilot")
    parser.add_argument("--frame", choices=("copter", "rover"), default="copter")
    parser.add_argument("--vehicles", type=int, default=1, help="how many, with system ids one after another")
    parser.add_argument("--sysid", type=int, default=1, help="system id of the first")
    parser.add_argument("--home", default="38.2466,21.7346,60", help="latitude,longitude,altitude in deg, deg, m")
    parser.add_argument(
        "--udp", action="append", default=[], metavar="HOST:PORT", help="peer to send to; may be repeated"
    )
    parser.add_argument(
        "--bind", metavar="HOST:PORT", help="own UDP address of the first vehicle; the next have the next ports"
    )
    parser.add_argument("--tcp", metavar="[HOST:]PORT", help="listen there; the next vehicles 10 ports further each")
    parser.add_argument("--speedup", type=float, default=1.0, help="simulated s per s")
    parser.add_argument("--tick", type=float, default=0.01, help="s of simulated time from one order to the next")
    parser.add_argument("--ready-after", type=float, default=10.0, help="s until position and attitude are known")
    parser.add_argument("--dynamics", choices=("point", "rigid"), default="point")
    parser.add_argument("--battery", type=float, default=0.0, metavar="AH", help="capacity; default: the vehicle's own")
    parser.add_argument("--until", type=float, default=float("inf"), help="s of simulated time after which it ends")
    parser.add_argument("--log", type=Path, help="write the orders there, for --replay")
    parser.add_argument("--replay", type=Path, help="fly a log again, without sockets, and print where all end")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="keep dataflash logs there, one folder per vehicle")
    parser.add_argument("--aeroloop", metavar="HOST:PORT", help="publish positions by ZeroMQ as AeroLoop does")
    return parser


def _vehicle(options: argparse.Namespace) -> Copter | Rover:
    made = Copter(dynamics=options.dynamics) if options.frame == "copter" else Rover()
    return replace(made, battery=replace(made.battery, capacity=options.battery)) if options.battery > 0.0 else made


def fly(options: argparse.Namespace) -> int:
    """Run the program with the options of the command line."""
    for name, low in (("vehicles", 1), ("speedup", 1e-3), ("tick", 1e-4)):
        if getattr(options, name) < low:
            raise ScenarioError(Problem(f"{getattr(options, name)} is too small", f"--{name}", hint=f"at least {low}"))
    origin = _home(options.home)
    vehicle = _vehicle(options)
    fleet = VehicleFleet([vehicle] * options.vehicles, [(SPACING * k, 0.0, 0.0) for k in range(options.vehicles)])
    slots = plan(
        [
            (f"{'uav' if options.frame == 'copter' else 'rover'}-{k + 1}", options.persona, options.frame)
            for k in range(options.vehicles)
        ],
        [address(text, "--udp") for text in options.udp],
        None if options.tcp is None else address(options.tcp, "--tcp"),
        options.sysid,
    )
    head = {"origin": origin, "tick": options.tick, "persona": options.persona, "frame": options.frame}
    head |= {"vehicles": options.vehicles, "first": options.sysid, "until": options.until}
    with ExitStack() as stack:
        log = None if options.log is None else stack.enter_context(FlightLogWriter(options.log, head))
        pilots = [
            Autopilot(
                fleet,
                row,
                sysid=slot.sysid,
                persona=slot.persona,
                origin=origin,
                ready_after=options.ready_after,
                tap=None if log is None else log.tap,
                logs=None if options.logs is None else options.logs / slot.name,
            )
            for row, slot in enumerate(slots)
        ]
        for pilot in pilots:
            stack.callback(pilot.logs.close)
        if options.replay is not None:
            return _again(options, fleet, pilots)
        return _live(options, fleet, pilots, slots, stack)


def _print_line(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def _again(options: argparse.Namespace, fleet: VehicleFleet, pilots: list[Autopilot]) -> int:
    head, messages = read(options.replay)
    until = min(options.until, messages[-1][0] + 60.0 if messages else 0.0)
    replay(fleet, pilots, messages, until, float(head["tick"]))
    for pilot, row in zip(pilots, fleet.state, strict=True):
        place = ", ".join(f"{axis} {row[axis]:.3f}" for axis in "xyz")
        _print_line(f"system {pilot.sysid}: {pilot.pilot.mode}, {place} m at {fleet.now:g} s")
    return 0


def _live(
    options: argparse.Namespace,
    fleet: VehicleFleet,
    pilots: list[Autopilot],
    slots: list[VehicleSlot],
    stack: ExitStack,
) -> int:
    bind = None if options.bind is None else address(options.bind, "--bind")
    made: list[Endpoint] = []
    for k, (pilot, slot) in enumerate(zip(pilots, slots, strict=True)):
        own = None if bind is None else Address(bind.host, bind.port + k)
        made.append(Endpoint(pilot, slot.udp, slot.tcp, own))
        stack.callback(made[-1].close)
    endpoints = LinkEndpoints(made)
    stack.callback(endpoints.close)
    positions = None
    if options.aeroloop is not None:
        at = address(options.aeroloop, "--aeroloop")
        positions = stack.enter_context(Positions(at, [options.frame] * len(pilots)))
    VehicleFleet([_vehicle(options)], [(0.0, 0.0, 0.0)]).advance(options.tick)  # compiles before others wait
    _print_line(render(slots))
    ended = False

    def stop(_: int, __: FrameType | None) -> None:
        nonlocal ended
        ended = True

    def each() -> None:
        if positions is not None and positions.due(fleet.now):
            views = [(pilot.pilot.ground, pilot.pilot.look()) for pilot in pilots]
            positions.publish(fleet.now, [ground.place(v.x, v.y, v.z) for ground, v in views])

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    pace = serve(
        fleet,
        pilots,
        endpoints,
        tick=options.tick,
        speedup=options.speedup,
        until=options.until,
        each=each,
        stop=lambda: ended,
    )
    _print_line(f"{pace.simulated:.1f} s simulated in {pace.wall:.1f} s, {pace.factor:.2f} x, late {pace.late} times")
    return 0
