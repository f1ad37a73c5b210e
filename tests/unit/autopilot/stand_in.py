"""A small stand-in for ArduPilot on the JSON interface, made from the format only."""

from __future__ import annotations

import math
import re
import socket
import struct
import threading

import numpy as np


def packet(count, pulses, rate=400, magic=18458):
    size = 16 if magic == 18458 else 32
    return struct.pack(f"<HHI{size}H", magic, rate, count, *pulses, *[0] * (size - len(pulses)))


def scan(line):
    """What ArduPilot's parser finds: it looks for a key, then reads numbers up to the bracket."""
    text = line.decode()
    assert text.startswith("\n")
    assert text.endswith("\n")
    found = {"timestamp": float(re.search(r'"timestamp":([-\d.]+)', text).group(1))}
    for key in ("gyro", "accel_body", "position", "velocity", "quaternion"):
        found[key] = np.array([float(x) for x in re.search(rf'"{key}":\[([^]]*)]', text).group(1).split(",")])
    return found


def turned(q, v):
    """A vector in axes of the body, in those of the world."""
    w, x, y, z = q
    matrix = np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
    return matrix @ v


class Loop:
    """Stand-in for ArduCopter: a cascaded controller on the state that comes over the wire."""

    def __init__(self, goal):
        self.goal, self.count = np.array(goal), 0
        self.pulses = [1000] * 4

    def outputs(self, state):
        wanted = np.clip(0.5 * (self.goal - state["position"]), -2.0, 2.0)
        push = np.clip(1.5 * (wanted - state["velocity"]), -3.0, 3.0)
        self.steer(state, push, np.clip((9.81 - push[2]) / 9.81 / 2.2, 0.1, 0.9))  # 2.2: most thrust per weight

    def steer(self, state, push, thrust):
        """Pulses for a push (m/s^2, north, east, down) and a part of the most thrust."""
        q = state["quaternion"]
        up = turned(q, np.array([0.0, 0.0, -1.0]))
        lean = np.array([push[0], push[1], -9.81]) / math.hypot(push[0], push[1], 9.81)
        error = np.cross(up, lean)  # rotation vector in the world
        body = turned([q[0], -q[1], -q[2], -q[3]], error)
        heading = math.atan2(2 * (q[0] * q[3] + q[1] * q[2]), 1 - 2 * (q[2] ** 2 + q[3] ** 2))
        rates = np.array([6.0 * body[0], 6.0 * body[1], -1.0 * heading]) - state["gyro"]
        roll, pitch, yaw = 0.02 * rates[0], 0.02 * rates[1], 0.05 * rates[2]
        # front right, rear left turn counter-clockwise; front left, rear right clockwise
        mix = [
            thrust - roll + pitch + yaw,
            thrust + roll - pitch + yaw,
            thrust + roll + pitch - yaw,
            thrust - roll - pitch - yaw,
        ]
        self.pulses = [round(1100 + 800 * min(max(m, 0.0), 1.0)) for m in mix]

    def packet(self, rate=400):
        self.count += 1
        return packet(self.count, self.pulses, rate)


class Lander(Loop):
    """Holds its place against the wind, and from `lands` on sinks at 0.5 m/s; disarms when it has stood for 1 s.

    It stands, as ArduCopter sees it, when it neither moves nor feels a push while its throttle is low and it wants to
    lean by less than `most` degrees.
    """

    def __init__(self, goal, most=15.0):
        super().__init__(goal)
        self.most = most
        self.lands, self.disarmed, self.held, self.stood = False, False, np.zeros(3), 0.0

    def outputs(self, state, dt=1 / 400):
        wanted = np.clip(0.8 * (self.goal - state["position"]), -2.0, 2.0)
        if self.lands:
            wanted[2] = 0.5
        error = wanted - state["velocity"]
        self.held = np.clip(self.held + np.clip(error, -1.0, 1.0) * dt * (1.0, 1.0, 0.5), -4.0, 4.0)
        push = np.clip(2.0 * error + self.held, -5.0, 5.0)
        thrust = np.clip((9.81 - push[2]) / 9.81 / 2.2, 0.05, 0.9)
        lean = math.degrees(math.atan2(math.hypot(push[0], push[1]), 9.81))
        feels = np.linalg.norm(state["accel_body"] + (0.0, 0.0, 9.81))
        stands = abs(state["velocity"][2]) < 0.1 and feels < 3.0 and thrust < 0.42 and lean < self.most
        self.stood = self.stood + dt if self.lands and stands else 0.0
        self.disarmed |= self.stood > 1.0
        self.steer(state, push, thrust)
        if self.disarmed:
            self.pulses = [1000] * 4


class Program(threading.Thread):
    """The loop as a program of its own: sends outputs, waits for the state, and repeats itself when none comes."""

    def __init__(self, port, goal, rate=200):
        super().__init__(daemon=True)
        self.loop, self.rate, self.to = Loop(goal), rate, ("127.0.0.1", port)
        self.ended, self.free = threading.Event(), threading.Event()
        self.free.set()
        self.start()

    def run(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.1)
            data, seen = self.loop.packet(self.rate), -1.0
            while not self.ended.is_set():
                self.free.wait()
                sock.sendto(data, self.to)
                try:
                    while (state := scan(sock.recv(2048)))["timestamp"] <= seen:
                        pass  # to what was repeated: control by old answers, on a busy machine, would topple it
                except TimeoutError:
                    continue
                seen = state["timestamp"]
                self.loop.outputs(state)
                data = self.loop.packet(self.rate)

    def close(self):
        self.ended.set()
        self.free.set()
        self.join()
