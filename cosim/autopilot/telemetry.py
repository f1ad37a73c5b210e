"""The messages that report the vehicle's state, each built from it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cosim.autopilot.dialect import Message, mavlink, numbers
from cosim.autopilot.geodesy import Place
from cosim.autopilot.sensors import air, body, fix, force, imu, pressure, quaternion, rates, servos, throttle, vibration
from cosim.physics.vehicles import layout

if TYPE_CHECKING:
    from cosim.autopilot.core import Autopilot

Builder = Callable[["Autopilot"], "Message | None"]
_FIT = (
    mavlink.MAV_SYS_STATUS_SENSOR_3D_GYRO
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_ACCEL
    | mavlink.MAV_SYS_STATUS_SENSOR_3D_MAG
    | mavlink.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE
    | mavlink.MAV_SYS_STATUS_SENSOR_GPS
    | mavlink.MAV_SYS_STATUS_SENSOR_RC_RECEIVER
    | mavlink.MAV_SYS_STATUS_SENSOR_BATTERY
    | mavlink.MAV_SYS_STATUS_AHRS
    | mavlink.MAV_SYS_STATUS_PREARM_CHECK
)
# Not healthy before the estimator is ready.
_LATE = mavlink.MAV_SYS_STATUS_SENSOR_GPS | mavlink.MAV_SYS_STATUS_AHRS | mavlink.MAV_SYS_STATUS_PREARM_CHECK
_FENCE = mavlink.MAV_SYS_STATUS_GEOFENCE
_CAPABILITIES = (
    mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FLOAT
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_FTP
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
    | mavlink.MAV_PROTOCOL_CAPABILITY_SET_ATTITUDE_TARGET
    | mavlink.MAV_PROTOCOL_CAPABILITY_FLIGHT_TERMINATION
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_FENCE
    | mavlink.MAV_PROTOCOL_CAPABILITY_MISSION_RALLY
    | mavlink.MAV_PROTOCOL_CAPABILITY_MAVLINK2
)
_UNKNOWN = 65535  # of unsigned 16-bit fields


def latitude(place: Place) -> int:
    """In 1e-7 deg."""
    return round(place.latitude * 1e7)


def longitude(place: Place) -> int:
    """In 1e-7 deg."""
    return round(place.longitude * 1e7)


def _mm(metres: float) -> int:
    return round(1000.0 * metres)


def _cm(metres: float) -> int:
    return max(-32768, min(32767, round(100.0 * metres)))


def _remaining(a: Autopilot) -> int:
    """% of the battery."""
    left = float(a.pilot.view.charge) / float(a.pilot.fleet.frames["capacity"][a.pilot.row])
    return round(100.0 * left)


def heartbeat(a: Autopilot) -> Message:
    """Type, mode and state: what clients hold on to."""
    p, v = a.pilot, a.pilot.view
    mode = p.persona.modes[p.mode]
    base = mavlink.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | mavlink.MAV_MODE_FLAG_STABILIZE_ENABLED
    if v.armed:
        base |= mavlink.MAV_MODE_FLAG_SAFETY_ARMED
    if mode.behaviour == "hold" and not p.persona.px4:
        base |= mavlink.MAV_MODE_FLAG_MANUAL_INPUT_ENABLED
    if mode.behaviour != "hold":
        base |= mavlink.MAV_MODE_FLAG_GUIDED_ENABLED
        if p.persona.px4:
            base |= mavlink.MAV_MODE_FLAG_AUTO_ENABLED
    if not p.ready:
        status = mavlink.MAV_STATE_CALIBRATING
    elif v.failsafe in (layout.CRITICAL, layout.EMPTY) and v.armed:
        status = mavlink.MAV_STATE_CRITICAL
    else:
        status = mavlink.MAV_STATE_ACTIVE if v.armed else mavlink.MAV_STATE_STANDBY
    return mavlink.MAVLink_heartbeat_message(p.persona.kind, p.persona.autopilot, base, mode.number, status, 3)


def _sys_status(a: Autopilot) -> Message:
    v = a.pilot.view
    fence = a.pilot.fence.on(a.parameters, a.pilot.persona.px4)
    fit = _FIT | (_FENCE if fence else 0)
    health = fit if a.pilot.ready else fit & ~_LATE
    if a.pilot.fence.breached:
        health &= ~_FENCE
    return mavlink.MAVLink_sys_status_message(
        fit, fit, health, 100, min(_mm(v.voltage), _UNKNOWN - 1), _cm(v.current), _remaining(a), 0, 0, 0, 0, 0, 0
    )


def _system_time(a: Autopilot) -> Message:
    return mavlink.MAVLink_system_time_message(round((a.epoch + a.now) * 1e6), a.boot_ms)


def _gps_raw_int(a: Autopilot) -> Message:
    v, ready, (place, across, up) = a.pilot.view, a.pilot.ready, fix(a)
    course = round(100.0 * math.degrees(math.atan2(v.vx, v.vy))) % 36000
    height = _mm(place.altitude)
    return mavlink.MAVLink_gps_raw_int_message(
        round(a.now * 1e6), 6 if ready else 1, latitude(place) if ready else 0, longitude(place) if ready else 0,
        height if ready else 0, 80 if ready else 9999, 120 if ready else 9999, _cm(math.hypot(v.vx, v.vy)), course, 12
        if ready else 0, height if ready else 0, across if ready else 0, up if ready else 0, 40 if ready else 0,
    )  # fmt: skip


def _attitude(a: Autopilot) -> Message:
    v = a.pilot.view
    yaw = math.remainder(v.heading, 2.0 * math.pi)
    return mavlink.MAVLink_attitude_message(a.boot_ms, v.roll, v.pitch, yaw, *rates(a))


def _attitude_quaternion(a: Autopilot) -> Message:
    v = a.pilot.view
    return mavlink.MAVLink_attitude_quaternion_message(a.boot_ms, *quaternion(v), *rates(a))


def _local_position_ned(a: Autopilot) -> Message | None:
    v = a.pilot.view
    if not a.pilot.ready:
        return None
    return mavlink.MAVLink_local_position_ned_message(
        a.boot_ms, v.y - a.start[1], v.x - a.start[0], a.start[2] - v.z, v.vy, v.vx, -v.vz
    )


def _global_position_int(a: Autopilot) -> Message | None:
    v, place = a.pilot.view, a.place
    if not a.pilot.ready:
        return None
    heading = round(100.0 * math.degrees(v.heading)) % 36000
    above = _mm(v.z - a.pilot.home[2])
    return mavlink.MAVLink_global_position_int_message(
        a.boot_ms, latitude(place), longitude(place), _mm(place.altitude), above, _cm(v.vy), _cm(v.vx), _cm(-v.vz),
        heading,
    )  # fmt: skip


def _mission_current(a: Autopilot) -> Message:
    m = a.pilot.mission
    total = len(m.items)
    # seq stays below the count when the mission is complete: the state shows that
    return mavlink.MAVLink_mission_current_message(min(m.current, max(total - 1, 0)), total, m.state, 1)


def _nav_controller_output(a: Autopilot) -> Message:
    v = a.pilot.view
    east, north = v.target_x - v.x, v.target_y - v.y
    bearing = round(math.degrees(math.atan2(east, north)))
    return mavlink.MAVLink_nav_controller_output_message(
        math.degrees(v.roll), math.degrees(v.pitch), round(math.degrees(math.remainder(v.heading, 2.0 * math.pi))),
        bearing, min(round(math.hypot(east, north)), _UNKNOWN), v.target_z - v.z, 0.0, 0.0,
    )  # fmt: skip


def _pulses(a: Autopilot) -> list[int]:
    """us by channel: centred with the throttle low, as far as no client moves the sticks."""
    rest = (1500, 1500, 1000, 1500, 1500, 1500, 1500, 1500)
    sent = a.sticks.pulses
    return [low if math.isnan(pulse) else round(pulse) for low, pulse in zip(rest, sent, strict=False)]


def _rc_channels(a: Autopilot) -> Message:
    return mavlink.MAVLink_rc_channels_message(a.boot_ms, 8, *_pulses(a), *([_UNKNOWN] * 10), 254)


def _servo_output_raw(a: Autopilot) -> Message:
    return mavlink.MAVLink_servo_output_raw_message(round(a.now * 1e6) & 0xFFFFFFFF, 0, *servos(a), 0, 0, 0, 0)


def _vfr_hud(a: Autopilot) -> Message:
    v = a.pilot.view
    wind = a.pilot.fleet.wind[a.pilot.row]
    heading = round(math.degrees(v.heading)) % 360
    air = math.hypot(v.vx - wind[0], v.vy - wind[1])
    return mavlink.MAVLink_vfr_hud_message(air, math.hypot(v.vx, v.vy), heading, throttle(a), a.place.altitude, v.vz)


def _position_target_global_int(a: Autopilot) -> Message | None:
    v = a.pilot.view
    if not a.pilot.ready:
        return None
    place = a.pilot.ground.place(v.target_x, v.target_y, v.target_z)
    mask = 0xFF8  # position only
    return mavlink.MAVLink_position_target_global_int_message(
        a.boot_ms, 5, mask, latitude(place), longitude(place), place.altitude, 0, 0, 0, 0, 0, 0, 0, 0
    )


def _battery_status(a: Autopilot) -> Message:
    v, frame = a.pilot.view, a.pilot.fleet.frames[a.pilot.row]
    cells = max(1, min(int(frame["cells"]), 10))
    each = [min(_mm(v.voltage / cells), _UNKNOWN - 1)] * cells + [_UNKNOWN] * (10 - cells)
    used = round((frame["capacity"] - v.charge) / 3.6)
    left = round(v.charge / v.current) if v.current > 0.01 else 0
    state = {int(layout.LOW): 2, int(layout.CRITICAL): 3, int(layout.EMPTY): 5}.get(v.failsafe, 1)
    # hJ; 32767: temperature not known
    return mavlink.MAVLink_battery_status_message(
        0, 0, 1, 32767, each, _cm(v.current), used, round(v.energy / 100.0), _remaining(a), left, state
    )


def _autopilot_version(a: Autopilot) -> Message:
    persona = a.pilot.persona
    encoding = (
        mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE
        if persona.px4
        else mavlink.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_C_CAST
    )
    offline = [0] * 8
    capabilities = _CAPABILITIES | encoding
    return mavlink.MAVLink_autopilot_version_message(
        capabilities, persona.version, 0, 0, 0, offline, offline, offline, 0, 0, a.sysid
    )


def _ekf_status_report(a: Autopilot) -> Message:
    flags = 0x33F if a.pilot.ready else 0x400  # 0x400: not initialised
    return mavlink.MAVLink_ekf_status_report_message(flags, 0.01, 0.01, 0.01, 0.01, 0.0)


def _estimator_status(a: Autopilot) -> Message:
    flags = 0x33F if a.pilot.ready else 0x400
    return mavlink.MAVLink_estimator_status_message(round(a.now * 1e6), flags, 0.1, 0.1, 0.1, 0.1, 0, 0, 0.3, 0.5)


def _home_position(a: Autopilot) -> Message | None:
    if not a.pilot.ready:
        return None
    place, (x, y, z) = a.pilot.home_place(), a.pilot.home
    north, east, down = y - a.start[1], x - a.start[0], a.start[2] - z
    return mavlink.MAVLink_home_position_message(
        latitude(place), longitude(place), _mm(place.altitude), north, east, down, [1, 0, 0, 0], 0, 0, 0, round(a.now *
        1e6),
    )  # fmt: skip


def _gps_global_origin(a: Autopilot) -> Message | None:
    if not a.pilot.ready:
        return None
    place = a.pilot.ground.place(*a.start)
    return mavlink.MAVLink_gps_global_origin_message(
        latitude(place), longitude(place), _mm(place.altitude), round(a.now * 1e6)
    )


def _extended_sys_state(a: Autopilot) -> Message:
    v = a.pilot.view
    if a.pilot.persona.frame == "rover" or v.landed:
        state = mavlink.MAV_LANDED_STATE_ON_GROUND
    elif v.mode == layout.TAKE_OFF:
        state = mavlink.MAV_LANDED_STATE_TAKEOFF
    elif v.mode == layout.LAND or (v.mode == layout.RETURN and v.stage == 3):
        state = mavlink.MAV_LANDED_STATE_LANDING
    else:
        state = mavlink.MAV_LANDED_STATE_IN_AIR
    return mavlink.MAVLink_extended_sys_state_message(0, state)


def _raw_imu(a: Autopilot) -> Message:
    return mavlink.MAVLink_raw_imu_message(round(a.now * 1e6), *imu(a))


def _imu(message: Any) -> Builder:  # noqa: ANN401 - a class of pymavlink
    return lambda a: message(a.boot_ms, *imu(a))


def _highres_imu(a: Autopilot) -> Message:
    field = [1e-3 * part for part in body(a.pilot.view, 250.0, 0.0, 433.0)]
    height = a.place.altitude
    return mavlink.MAVLink_highres_imu_message(
        round(a.now * 1e6), *force(a), *rates(a), *field, pressure(height), 0.0, height, 0.01 * air(a), 0x1FFF
    )


def _odometry(a: Autopilot) -> Message | None:
    v = a.pilot.view
    if not a.pilot.ready:
        return None
    sine, cosine = math.sin(v.heading), math.cos(v.heading)
    ahead, right = v.vx * sine + v.vy * cosine, v.vx * cosine - v.vy * sine
    unknown = [math.nan] + [0.0] * 20
    return mavlink.MAVLink_odometry_message(
        round(a.now * 1e6), mavlink.MAV_FRAME_LOCAL_NED, mavlink.MAV_FRAME_BODY_FRD, v.y - a.start[1], v.x - a.start[0],
        a.start[2] - v.z, quaternion(v), ahead, right, -v.vz, *rates(a), unknown, unknown, 0,
        mavlink.MAV_ESTIMATOR_TYPE_AUTOPILOT, 100,
    )  # fmt: skip


def _vibration(a: Autopilot) -> Message:
    return mavlink.MAVLink_vibration_message(round(a.now * 1e6), *[vibration(a)] * 3, 0, 0, 0)


def _rc_channels_raw(a: Autopilot) -> Message:
    return mavlink.MAVLink_rc_channels_raw_message(a.boot_ms, 0, *_pulses(a)[:8], 254)


def _ahrs2(a: Autopilot) -> Message:
    v = a.pilot.view
    yaw = math.remainder(v.heading, 2.0 * math.pi)
    return mavlink.MAVLink_ahrs2_message(v.roll, v.pitch, yaw, a.place.altitude, latitude(a.place), longitude(a.place))


def _simstate(a: Autopilot) -> Message:
    v = a.pilot.view
    yaw = math.remainder(v.heading, 2.0 * math.pi)
    return mavlink.MAVLink_simstate_message(
        v.roll, v.pitch, yaw, *force(a), *rates(a), latitude(a.place), longitude(a.place)
    )


def _attitude_target(a: Autopilot) -> Message:
    v = a.pilot.view
    thrust = throttle(a) / 100.0
    return mavlink.MAVLink_attitude_target_message(a.boot_ms, 0, quaternion(v), *rates(a), thrust)


def _position_target_local_ned(a: Autopilot) -> Message | None:
    v = a.pilot.view
    if not a.pilot.ready:
        return None
    point = (v.target_y - a.start[1], v.target_x - a.start[0], a.start[2] - v.target_z)
    return mavlink.MAVLink_position_target_local_ned_message(
        a.boot_ms, mavlink.MAV_FRAME_LOCAL_NED, 0xDC0, *point, v.target_vy, v.target_vx, -v.target_vz, 0, 0, 0, 0, 0
    )


def _terrain_report(a: Autopilot) -> Message:
    """The ground under the vehicle; without a terrain it is flat, at the height of home."""
    v, land = a.pilot.view, a.pilot.fleet.terrain
    ground = a.pilot.home[2] if land is None else float(land.height(v.x, v.y))
    altitude = a.pilot.ground.place(v.x, v.y, ground).altitude if land is not None else a.pilot.home_place().altitude
    return mavlink.MAVLink_terrain_report_message(
        latitude(a.place), longitude(a.place), 0, altitude, v.z - ground, 0, 0
    )


def _esc_telemetry_1_to_4(a: Autopilot) -> Message:
    """Four motors that share what the vehicle draws."""
    v = a.pilot.view
    amps = [min(round(25.0 * v.current), _UNKNOWN)] * 4
    used = round((float(a.pilot.fleet.frames["capacity"][a.pilot.row]) - v.charge) / 3.6 / 4.0)
    volts = [min(round(100.0 * v.voltage), _UNKNOWN)] * 4
    return mavlink.MAVLink_esc_telemetry_1_to_4_message(
        [25] * 4, volts, amps, [min(used, _UNKNOWN)] * 4, [0] * 4, [0] * 4
    )


def _relay_status(a: Autopilot) -> Message:
    on = sum(1 << k for k, state in enumerate(a.equipment.relays) if state)
    return mavlink.MAVLink_relay_status_message(a.boot_ms, on, (1 << len(a.equipment.relays)) - 1)


def _camera_information(a: Autopilot) -> Message:
    name = list(b"cosim".ljust(32, b"\0"))
    return mavlink.MAVLink_camera_information_message(
        a.boot_ms, name, name, 1, math.nan, math.nan, math.nan, 0, 0, 0,
        mavlink.CAMERA_CAP_FLAGS_CAPTURE_IMAGE, 0, b"",
    )  # fmt: skip


def _scaled(message: Any) -> Builder:  # noqa: ANN401 - a class of pymavlink
    return lambda a: message(a.boot_ms, pressure(a.place.altitude), 0.0, air(a))


def _wind(a: Autopilot) -> Message:
    east, north, up = (float(part) for part in a.pilot.fleet.wind[a.pilot.row])
    coming = math.degrees(math.atan2(-east, -north))  # where it comes from
    return mavlink.MAVLink_wind_message(coming, math.hypot(east, north), -up)


def _altitude(a: Autopilot) -> Message:
    v = a.pilot.view
    above = v.z - a.pilot.home[2]
    return mavlink.MAVLink_altitude_message(
        round(a.now * 1e6), a.place.altitude, a.place.altitude, v.z - a.start[2], above, math.nan, math.nan
    )


def _fence_status(a: Autopilot) -> Message:
    f = a.pilot.fence
    breached = int(bool(f.breached))
    return mavlink.MAVLink_fence_status_message(breached, f.breaches, f.breached, round(1000.0 * f.last))


# By message: the function of its name, or one that fits several.
BUILDERS: dict[int, Builder] = {
    number: globals()[name]
    for number, message in mavlink.mavlink_map.items()
    if (name := f"_{message.msgname.lower()}") in globals()
}
BUILDERS |= {
    mavlink.MAVLINK_MSG_ID_HEARTBEAT: heartbeat,
    mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE: _scaled(mavlink.MAVLink_scaled_pressure_message),
    mavlink.MAVLINK_MSG_ID_POWER_STATUS: lambda _: mavlink.MAVLink_power_status_message(5000, 5000, 0),
    mavlink.MAVLINK_MSG_ID_MEMINFO: lambda _: mavlink.MAVLink_meminfo_message(0, _UNKNOWN, 131072),
    mavlink.MAVLINK_MSG_ID_SCALED_IMU: _imu(mavlink.MAVLink_scaled_imu_message),
    mavlink.MAVLINK_MSG_ID_SCALED_IMU2: _imu(mavlink.MAVLink_scaled_imu2_message),
    mavlink.MAVLINK_MSG_ID_SCALED_IMU3: _imu(mavlink.MAVLink_scaled_imu3_message),
    mavlink.MAVLINK_MSG_ID_SCALED_PRESSURE2: _scaled(mavlink.MAVLink_scaled_pressure2_message),
    mavlink.MAVLINK_MSG_ID_AHRS: lambda _: mavlink.MAVLink_ahrs_message(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
}
# What only one of both sends, also on request.
PX4_ONLY = {*numbers("HIGHRES_IMU ALTITUDE ESTIMATOR_STATUS ODOMETRY")}
ARDUPILOT_ONLY = {
    *numbers(
        "RAW_IMU RC_CHANNELS_RAW POWER_STATUS TERRAIN_REPORT SCALED_PRESSURE2 MEMINFO FENCE_STATUS AHRS SIMSTATE WIND "
        "AHRS2 EKF_STATUS_REPORT CAMERA_INFORMATION RELAY_STATUS ESC_TELEMETRY_1_TO_4"
    )
}
