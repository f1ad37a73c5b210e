"""MAVSDK-Python 3 (gRPC and mavsdk_server): python fly_mavsdk3.py PORT PERSONA SPEED."""

# ruff: noqa: T201 - it tells its steps on the standard output

import asyncio
import math
import socket
import sys

from mavsdk import System
from mavsdk.info import InfoError
from mavsdk.mission import MissionItem, MissionPlan
from mavsdk.mission_raw import MissionItem as RawItem

PORT, PX4 = sys.argv[1], sys.argv[2] == "px4"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def first(stream, condition=lambda value: True, limit=90.0):
    async def wait():
        async for value in stream:
            if condition(value):
                return value
        raise AssertionError("the stream ended")

    return await asyncio.wait_for(wait(), limit)


async def take_off(drone, height):
    await drone.action.set_takeoff_altitude(height)
    await drone.action.arm()
    print("ok arm")
    await drone.action.takeoff()
    await first(drone.telemetry.position(), lambda p: p.relative_altitude_m > 0.95 * height)
    print("ok takeoff")


async def raw_mission(drone, at):
    places = [(0.0, 0.0, 0.0), (2e-4, 0.0, 15.0), (2e-4, 2e-4, 15.0)]
    items = [
        RawItem(
            k,
            6,
            16,
            int(k == 0),
            1,
            0.0,
            0.0,
            0.0,
            math.nan,
            round((at.latitude_deg + n) * 1e7),
            round((at.longitude_deg + e) * 1e7),
            z,
            0,
        )
        for k, (n, e, z) in enumerate(places)
    ]
    await drone.mission_raw.upload_mission(items)
    print("ok upload")
    back = await drone.mission_raw.download_mission()
    assert [item.x for item in back[1:]] == [item.x for item in items[1:]], back
    assert all(item.frame == 6 for item in back[1:])
    print("ok download")
    await drone.mission_raw.start_mission()
    goal = at.latitude_deg + 2e-4, at.longitude_deg + 2e-4
    await first(
        drone.telemetry.position(),
        lambda p: abs(p.latitude_deg - goal[0]) < 2e-5 and abs(p.longitude_deg - goal[1]) < 2e-5,
    )
    await first(drone.mission_raw.mission_progress(), lambda p: p.current >= 2)
    print("ok mission")


async def plan(drone, at):
    nan = math.nan
    items = [
        MissionItem(
            at.latitude_deg + n,
            at.longitude_deg + e,
            15,
            5,
            True,
            nan,
            nan,
            MissionItem.CameraAction.NONE,
            nan,
            nan,
            nan,
            nan,
            nan,
            MissionItem.VehicleAction.NONE,
        )
        for n, e in ((3e-4, 0.0), (3e-4, 3e-4))
    ]
    await drone.mission.upload_mission(MissionPlan(items))
    assert len((await drone.mission.download_mission()).mission_items) == 2
    print("ok plan upload")
    await drone.mission.start_mission()
    await first(drone.mission.mission_progress(), lambda p: p.current == p.total == 2)
    print("ok plan finished")


async def main():
    drone = System(port=free_port())
    await drone.connect(system_address=f"udpin://127.0.0.1:{PORT}")
    await first(drone.core.connection_state(), lambda s: s.is_connected, 30.0)
    print("ok connect", flush=True)
    for _ in range(50):  # it asks for the version in the background
        try:
            await drone.info.get_version()
            break
        except InfoError:
            await asyncio.sleep(0.2)
    everything = await drone.param.get_all_params()
    assert len(everything.float_params) + len(everything.int_params) > 200
    name = "MPC_XY_CRUISE" if PX4 else "WPNAV_SPEED"
    await drone.param.set_param_float(name, 8.0 if PX4 else 800.0)
    assert await drone.param.get_param_float(name) == (8.0 if PX4 else 800.0)
    name = "COM_LOW_BAT_ACT" if PX4 else "BATT_FS_LOW_ACT"
    assert await drone.param.get_param_int(name) == (3 if PX4 else 2)
    print("ok parameters")
    await first(drone.telemetry.health(), lambda h: h.is_global_position_ok and h.is_home_position_ok and h.is_armable)
    print("ok ready")
    await take_off(drone, 10.0)
    await first(drone.telemetry.in_air(), lambda x: x)
    at = await first(drone.telemetry.position())
    await drone.action.goto_location(at.latitude_deg + 3e-4, at.longitude_deg, at.absolute_altitude_m + 5.0, 0.0)
    await first(drone.telemetry.position(), lambda p: abs(p.latitude_deg - at.latitude_deg - 3e-4) < 1e-5)
    print("ok goto")
    await raw_mission(drone, at)
    if PX4:
        await plan(drone, at)
    await drone.action.return_to_launch()
    print("ok return")
    await first(drone.telemetry.armed(), lambda x: not x)
    print("ok disarmed")
    await take_off(drone, 6.0)
    await drone.action.land()
    await first(drone.telemetry.armed(), lambda x: not x)
    print("ok land")
    await take_off(drone, 6.0)
    await drone.param.set_param_float("BAT_CRIT_THR" if PX4 else "BATT_LOW_MAH", 0.999 if PX4 else 99999.0)
    await first(drone.telemetry.armed(), lambda x: not x)
    battery = await first(drone.telemetry.battery())
    assert 5.0 < battery.voltage_v < 20.0, battery
    print("ok battery")


asyncio.run(main())
