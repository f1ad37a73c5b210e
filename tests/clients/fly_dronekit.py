"""dronekit: python fly_dronekit.py PORT PERSONA SPEED."""

# ruff: noqa: T201, E402 - it tells its steps on the standard output

import collections
import collections.abc
import sys
import time

collections.MutableMapping = collections.abc.MutableMapping  # gone since Python 3.10, and dronekit uses it
import dronekit

PORT = sys.argv[1]


def until(condition, limit=120.0):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"waited {limit} s")
        time.sleep(0.05)


vehicle = dronekit.connect(f"udpin:127.0.0.1:{PORT}", wait_ready=True, timeout=60)
print("ok connect")
vehicle.wait_ready("autopilot_version", timeout=30)  # it asks for it with every heartbeat
assert str(vehicle.version) == "APM:Copter-4.6.0-dev0", vehicle.version
assert len(vehicle.parameters) > 200
vehicle.parameters["WPNAV_SPEED"] = 800
until(lambda: vehicle.parameters["WPNAV_SPEED"] == 800, 10.0)
print("ok parameters")
until(lambda: vehicle.is_armable)
print("ok ready")


def set_mode(name):
    vehicle.mode = dronekit.VehicleMode(name)
    until(lambda: vehicle.mode.name == name, 10.0)


def height():
    return vehicle.location.global_relative_frame.alt


def take_off(up):
    set_mode("GUIDED")
    vehicle.armed = True
    until(lambda: vehicle.armed, 10.0)
    print("ok arm")
    vehicle.simple_takeoff(up)
    until(lambda: height() > 0.95 * up)
    print("ok takeoff")


take_off(10.0)
at = vehicle.location.global_relative_frame
vehicle.simple_goto(dronekit.LocationGlobalRelative(at.lat + 2e-4, at.lon, 12.0), groundspeed=8)
until(lambda: abs(vehicle.location.global_relative_frame.lat - at.lat - 2e-4) < 1e-5)
print("ok goto")
commands = vehicle.commands
vehicle._wp_loaded = True  # it would wait for a first item for ever: before an upload ArduPilot has none
commands.clear()
for north, east in ((0.0, 0.0), (2e-4, 2e-4), (0.0, 2e-4)):  # item 0 is home
    place = (at.lat + north, at.lon + east, 12.0)
    commands.add(dronekit.Command(0, 0, 0, 3, 16, 0, 0, 0, 0, 0, 0, *place))
commands.upload()
print("ok upload")
commands.download()
commands.wait_ready()
assert commands.count == 2, commands.count
assert vehicle.home_location is not None
print("ok download")
set_mode("AUTO")
goal = at.lat, at.lon + 2e-4


def there():
    here = vehicle.location.global_relative_frame
    return commands.next == 2 and abs(here.lat - goal[0]) < 3e-5 and abs(here.lon - goal[1]) < 3e-5


until(there)
print("ok mission")
set_mode("RTL")
print("ok return")
until(lambda: not vehicle.armed)
print("ok disarmed")
take_off(6.0)
set_mode("LAND")
until(lambda: not vehicle.armed)
print("ok land")
take_off(6.0)
assert vehicle.battery.voltage > 5.0
vehicle.parameters["BATT_LOW_MAH"] = 99999
until(lambda: vehicle.mode.name == "RTL", 20.0)
until(lambda: not vehicle.armed)
print("ok battery")
vehicle.close()
