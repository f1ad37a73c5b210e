"""MAVProxy at a terminal: python fly_mavproxy.py PORT PERSONA SPEED."""

# ruff: noqa: T201, PTH123 - it tells its steps on the standard output

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time

PORT = sys.argv[1]
work = tempfile.mkdtemp()
master, slave = pty.openpty()
words = [
    "-m",
    "MAVProxy.mavproxy",
    f"--master=udpin:127.0.0.1:{PORT}",
    f"--state-basedir={work}",
    "--default-modules=cmdlong,wp,arm,mode,param,battery,rc,link,log,misc",
]
process = subprocess.Popen(
    [sys.executable, *words],
    stdin=slave,
    stdout=slave,
    stderr=slave,
    cwd=work,
    env={**os.environ, "TERM": "dumb", "HOME": work},
)
os.close(slave)
text, seen = "", 0


def pump(wait):
    global text
    ready, _, _ = select.select([master], [], [], wait)
    if ready:
        text += os.read(master, 65536).decode(errors="replace")


def expect(pattern, limit=90.0):
    """Wait for a pattern after what was matched last."""
    global seen
    end = time.monotonic() + limit
    while True:
        found = re.search(pattern, text[seen:])
        if found:
            seen += found.end()
            return found
        if time.monotonic() > end or process.poll() is not None:
            print(text[-4000:])
            raise SystemExit(f"waited {limit} s for {pattern}")
        pump(0.1)


def say(line):
    os.write(master, line.encode() + b"\n")


def status(field):
    """A number of the last message of a kind, by `status MESSAGE`."""
    kind, name = field.split(".")
    say(f"status {kind}")
    return float(expect(rf"{kind} \{{.*?\b{name} : (-?[\d.]+)", 10.0).group(1))


def until(field, condition, limit=120.0):
    end = time.monotonic() + limit
    while not condition(status(field)):
        if time.monotonic() > end:
            print(text[-3000:])
            raise SystemExit(f"waited {limit} s for {field}")
        for _ in range(5):
            pump(0.1)


def disarmed(limit=150.0):
    until("HEARTBEAT.base_mode", lambda mode: not int(mode) & 128, limit)


try:
    expect(r"Detected vehicle", 30.0)
    print("ok connect")
    expect(r"Received (\d\d\d) parameters", 60.0)
    say("param set WPNAV_SPEED 800")
    time.sleep(0.5)
    say("param show WPNAV_SPEED")
    expect(r"WPNAV_SPEED\s+800")
    print("ok parameters")
    until("EKF_STATUS_REPORT.flags", lambda flags: int(flags) & 0x10)
    print("ok ready")

    def take_off(height):
        say("mode GUIDED")
        expect(r"GUIDED>")
        say("arm throttle")
        until("HEARTBEAT.base_mode", lambda mode: int(mode) & 128, 20.0)
        print("ok arm")
        say(f"takeoff {height}")
        until("GLOBAL_POSITION_INT.relative_alt", lambda up: up > 950 * height)
        print("ok takeoff")

    take_off(10)
    lat, lon = status("GLOBAL_POSITION_INT.lat") / 1e7, status("GLOBAL_POSITION_INT.lon") / 1e7
    say(f"guided {lat + 2e-4:.7f} {lon:.7f} 12")
    until("GLOBAL_POSITION_INT.lat", lambda x: abs(x / 1e7 - lat - 2e-4) < 1e-5)
    print("ok goto")
    with open(f"{work}/plan.txt", "w") as file:
        file.write("QGC WPL 110\n")
        for k, (number, n, e, z) in enumerate(
            [(16, 0, 0, 0), (22, 0, 0, 12), (16, 2e-4, 2e-4, 12), (16, 0, 2e-4, 12), (20, 0, 0, 0)]
        ):
            place = (f"{lat + n:.7f}", f"{lon + e:.7f}") if number == 16 else ("0", "0")
            file.write("\t".join(map(str, [k, 0, 0 if k == 0 else 3, number, 0, 0, 0, 0, *place, z, 1])) + "\n")
    say(f"wp load {work}/plan.txt")
    expect(r"Flight plan received|Sent all")
    print("ok upload")
    time.sleep(1.0)
    say(f"wp save {work}/back.txt")
    expect(r"Saved 5 waypoints")
    print("ok download")
    say("mode AUTO")
    expect(r"AUTO>")
    expect(r"Reached command #3", 120.0)
    print("ok mission")
    say("mode RTL")
    expect(r"RTL>")
    print("ok return")
    disarmed()
    print("ok disarmed")
    take_off(6)
    say("mode LAND")
    disarmed()
    print("ok land")
    say("log list")
    size = int(expect(r"numLogs 1 lastLog 1 size (\d+)").group(1))
    say(f"log download latest {work}/flown.bin")
    expect(rf"Finished downloading \S+ \({size} bytes")
    print("ok log")
    take_off(6)
    say("param set BATT_LOW_MAH 99999")
    expect(r"Battery 1 is low")
    disarmed()
    print("ok battery")
finally:
    process.kill()
    process.wait()
