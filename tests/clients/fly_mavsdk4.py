"""MAVSDK-Python 4 (native, without a server): python fly_mavsdk4.py PORT PERSONA SPEED."""

# ruff: noqa: T201 - it tells its steps on the standard output

import asyncio
import sys

from mavsdk import ComponentType, Configuration
from mavsdk.asyncio import mavsdk
from mavsdk.asyncio.plugins.action import ActionAsync
from mavsdk.asyncio.plugins.telemetry import TelemetryAsync

PORT = sys.argv[1]


async def until(read, condition, limit=90.0):
    async def wait():
        while True:
            value = await read()
            if condition(value):
                return value
            await asyncio.sleep(0.1)

    return await asyncio.wait_for(wait(), limit)


async def main():
    client = mavsdk.Mavsdk(Configuration.create_with_component_type(ComponentType.GROUND_STATION))
    await client.add_any_connection(f"udpin://127.0.0.1:{PORT}")
    system = await client.first_autopilot(30)
    print("ok connect")
    action, telemetry = ActionAsync(system), TelemetryAsync(system)
    await until(telemetry.health, lambda h: h.is_global_position_ok and h.is_home_position_ok and h.is_armable)
    print("ok ready")

    await action.set_takeoff_altitude(10.0)
    await action.arm()
    print("ok arm")
    await action.takeoff()
    await until(telemetry.position, lambda p: p.relative_altitude_m > 9.0)
    print("ok takeoff")
    at = await telemetry.position()
    await action.goto_location(at.latitude_deg + 2e-4, at.longitude_deg, at.absolute_altitude_m, 0.0)
    await until(telemetry.position, lambda p: abs(p.latitude_deg - at.latitude_deg - 2e-4) < 1e-5)
    print("ok goto")
    await action.return_to_launch()
    await until(telemetry.position, lambda p: abs(p.latitude_deg - at.latitude_deg) < 3e-5)
    print("ok return")
    # still in the air: to arm ArduPilot again after a flight, MAVSDK 4 changes to BRAKE, in which it cannot be armed
    await action.land()
    print("ok land")
    await until(telemetry.armed, lambda x: not x)
    print("ok disarmed")


asyncio.run(asyncio.wait_for(main(), 260.0))
