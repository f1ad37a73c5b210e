"""A small physics that speaks ArduPilot's JSON interface, made from the public format only: a quadrotor in the wind.

It shares no code with ours: axes are north, east, down, its motors are stronger and their law is another, and it is
heavier than the vehicle that it stands for. Run alone, `python -m tests.unit.autopilot.json_world PORT`.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import sys
import threading

MASS, ARM, INERTIA = 1.9, 0.18, (0.03, 0.03, 0.05)  # kg, m, kg m^2
MOST, EXPO, LAG, TORQUE = 11.0, 0.65, 0.03, 0.02  # N of a motor, of its law, s, N m per N
G = 9.80665


class World:
    """State after each packet; axes north, east, down and forward, right, down."""

    def __init__(self, wind=(0.0, 0.0, 0.0), level=0.19, at=(3.0, -2.0), drag=0.15):
        self.wind, self.ground, self.drag = wind, -level, drag
        self.place, self.velocity = [*at, -level], [0.0, 0.0, 0.0]
        self.q, self.rates, self.thrust = [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0] * 4
        self.time, self.force, self.number, self.lowest = 0.0, [0.0, 0.0, -G], None, -level
        self.impact = 0.0

    def take(self, packet):
        magic, rate, number, *pulses = struct.unpack("<HHI16H", packet)
        assert magic == 18458
        if number == self.number:
            return
        self.number = number
        for _ in range(2):
            self.step(0.5 / rate, [min(max((p - 1100) / 800, 0.0), 1.0) for p in pulses[:4]])

    def step(self, dt, throttle):
        keep = math.exp(-dt / LAG)
        for k, h in enumerate(throttle):
            wanted = MOST * ((1 - EXPO) * h + EXPO * h * h)
            self.thrust[k] = wanted + (self.thrust[k] - wanted) * keep
        fr, rl, fl, rr = self.thrust
        side = ARM / math.sqrt(2.0)
        p, q, r = self.rates
        moments = (side * (fl + rl - fr - rr), side * (fl + fr - rl - rr), TORQUE * (fr + rl - fl - rr))
        ix, iy, iz = INERTIA
        p += dt * (moments[0] - (iz - iy) * q * r) / ix
        q += dt * (moments[1] - (ix - iz) * p * r) / iy
        r += dt * (moments[2] - (iy - ix) * p * q) / iz
        w, x, y, z = self.q
        h = 0.5 * dt
        self.q = [
            w - h * (x * p + y * q + z * r), x + h * (w * p + y * r - z * q), y + h * (w * q + z * p - x * r),
            z + h * (w * r + x * q - y * p),
        ]  # fmt: skip
        size = math.sqrt(sum(v * v for v in self.q))
        self.q = w, x, y, z = [v / size for v in self.q]
        down = (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y))  # of the body, in the world
        lift = sum(self.thrust) / MASS
        force = [-lift * down[k] - self.drag * (self.velocity[k] - self.wind[k]) for k in range(3)]
        before = self.velocity[2]
        self.velocity = [
            v + dt * (f + (G if k == 2 else 0.0)) for k, (v, f) in enumerate(zip(self.velocity, force, strict=True))
        ]
        self.place = [s + dt * v for s, v in zip(self.place, self.velocity, strict=True)]
        self.rates = [p, q, r]
        if self.place[2] >= self.ground:  # it stands, level
            self.impact = max(self.impact, before)
            yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
            self.place[2], self.velocity, self.rates = self.ground, [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
            self.q, force = [math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)], [0.0, 0.0, -G]
        self.force = force
        self.lowest = max(self.lowest, self.place[2])
        self.time += dt

    def line(self):
        w, x, y, z = self.q
        rows = (
            (1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)),
            (2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)),
            (2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)),
        )
        body = [sum(a * f for a, f in zip(row, self.force, strict=True)) for row in rows]
        roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
        pitch = math.asin(min(max(2 * (w * y - z * x), -1.0), 1.0))
        yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
        reported = {
            "timestamp": self.time, "imu": {"gyro": self.rates, "accel_body": body}, "position": self.place,
            "attitude": [roll, pitch, yaw], "velocity": self.velocity,
        }  # fmt: skip
        return ("\n" + json.dumps(reported) + "\n").encode()


class Program(threading.Thread):
    """The world at a UDP port; `loses` every so many answers."""

    def __init__(self, world, loses=0, port=0):
        super().__init__(daemon=True)
        self.world, self.loses, self.ended, self.packets = world, loses, threading.Event(), 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.socket.settimeout(0.1)
        self.start()

    def run(self):
        with self.socket:
            while not self.ended.is_set():
                try:
                    packet, peer = self.socket.recvfrom(512)
                except TimeoutError:
                    continue
                self.packets += 1
                self.world.take(packet)
                if not (self.loses and self.packets % self.loses == 0):
                    self.socket.sendto(self.world.line(), peer)

    def close(self):
        self.ended.set()
        self.join()


if __name__ == "__main__":
    Program(World(wind=(3.0, 2.0, 0.0)), port=int(sys.argv[1])).join()
