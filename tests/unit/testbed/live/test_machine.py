"""What an agent measures, where it is, and what it can do, on machines made of files."""

from __future__ import annotations

import http.server
import json
import math
import socket
import threading
import time

import pytest

from cosim.contract.errors import SetupError
from cosim.testbed.live import position, work
from cosim.testbed.live.meters import MachineMeters, PowerLine, clock_rate
from cosim.testbed.live.unit import unit
from cosim.testbed.live.worker_pool import WorkerPool
from tests.ports import free_port

STAT = "cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n"


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))


PROC = {
    "proc/stat": STAT.format(busy=100, idle=100),
    "proc/meminfo": "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n",
    "proc/net/dev": "a\nb\n    lo: 9 0 0 0 0 0 0 0 9 0\n  eth0: 10 0 0 0 0 0 0 0 20 0\n wlan0: 5 0 0 0 0 0 0 0 6 0\n",
    "sys/class/thermal/thermal_zone0/temp": "41000",
    "sys/class/thermal/thermal_zone1/temp": "52500",
}


def test_load_memory_network_and_temperature(tmp_path):
    write(tmp_path, PROC)
    meters = MachineMeters(root=tmp_path)
    write(tmp_path, {"proc/stat": STAT.format(busy=130, idle=110)})
    assert meters.read() == {
        "cpu": 0.75, "memory": 600 * 1024.0, "received": 15.0, "sent": 26.0, "temperature": 52.5,
        "power": None, "meter": "none", "cpu_wait": None, "memory_wait": None, "io_wait": None,
    }  # fmt: skip


def test_rapl_counts_packages_and_wraps(tmp_path):
    rapl = "sys/class/powercap/intel-rapl"
    write(tmp_path, PROC)
    for zone, energy in ((":0", 9_000_000), (":1", 1_000_000), (":0:0", 5)):
        write(tmp_path, {f"{rapl}{zone}/energy_uj": energy, f"{rapl}{zone}/max_energy_range_uj": 10_000_000})
    now = iter([0.0, 0.0, 2.0, 2.0])
    meters = MachineMeters(root=tmp_path, clock=lambda: next(now))
    write(tmp_path, {f"{rapl}:0/energy_uj": 1_000_000, f"{rapl}:1/energy_uj": 4_000_000})  # 2 J and 3 J in 2 s
    reading = meters.read()
    assert (reading["power"], reading["meter"]) == (2.5, "rapl")


@pytest.mark.parametrize(
    ("files", "power", "meter"),
    [
        ({"class/hwmon/hwmon0/name": "ina219", "class/hwmon/hwmon0/power1_input": 3_500_000}, 3.5, "ina"),
        ({"class/hwmon/hwmon0/name": "ina3221", "class/hwmon/hwmon0/curr1_input": 500,
          "class/hwmon/hwmon0/in1_input": 5000}, 2.5, "ina"),
        ({"class/hwmon/hwmon0/name": "coretemp", "class/hwmon/hwmon0/power1_input": 3}, None, "none"),
        ({"class/power_supply/BAT0/type": "Battery", "class/power_supply/BAT0/status": "Discharging",
          "class/power_supply/BAT0/current_now": 1_000_000, "class/power_supply/BAT0/voltage_now": 12_000_000},
         12.0, "battery"),
        ({"class/power_supply/BAT0/type": "Battery", "class/power_supply/BAT0/status": "Charging",
          "class/power_supply/BAT0/power_now": 1_000_000}, None, "none"),
    ],
)  # fmt: skip
def test_other_meters(tmp_path, files, power, meter):
    write(tmp_path, {**PROC, **{f"sys/{name}": text for name, text in files.items()}})
    reading = MachineMeters(root=tmp_path).read()
    assert (reading["power"], reading["meter"]) == (power, meter)


def test_a_model_stands_in_for_a_meter_and_says_so(tmp_path):
    write(tmp_path, PROC)
    meters = MachineMeters(root=tmp_path, model=PowerLine(2.0, 6.0))
    write(tmp_path, {"proc/stat": STAT.format(busy=130, idle=110)})
    reading = meters.read()
    assert (reading["power"], reading["meter"]) == (5.0, "modelled")


def test_this_machine_can_be_read():
    meters = MachineMeters()
    time.sleep(0.05)
    assert meters.read()["memory"] > 1e6
    assert clock_rate() >= 1e8


def test_clock_of_a_machine(tmp_path):
    assert clock_rate(tmp_path) == 1e9
    write(tmp_path, {"proc/cpuinfo": "processor : 0\ncpu MHz\t\t: 2400.5\n"})
    assert clock_rate(tmp_path) == 2400.5e6
    write(tmp_path, {"sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "1500000"})
    assert clock_rate(tmp_path) == 1.5e9


# -- position ----------------------------------------------------------------------------------


def test_fixed_places():
    assert position.position("").place() is None
    assert position.position("fixed:39.5, -22.9, 60").place() == [39.5, -22.9, 60.0]
    for text in ("fixed:1,2", "fixed:91,0,0", "fixed:a,b,c", "gpsd:x", "mavlink:tcp://h:1", "mavlink:udp://h", "there"):
        with pytest.raises(SetupError, match=text.split(":")[0]):
            position.position(text)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ('{"class":"TPV","mode":3,"lat":1.5,"lon":2.5,"altHAE":30.0,"alt":9.0}', [1.5, 2.5, 30.0]),
        ('{"class":"TPV","mode":2,"lat":1.5,"lon":2.5}', [1.5, 2.5, 0.0]),
        ('{"class":"TPV","mode":1}', None),
        ('{"class":"SKY"}', None),
        ('{"class":"TPV","mode":3,"lat":99,"lon":0}', None),
        ("[]", None),
        ("{", None),
    ],
)
def test_lines_of_gpsd(line, place):
    assert position.tpv(line.encode()) == place


def eventually(condition):
    end = time.monotonic() + 60
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def test_a_gpsd_is_listened_to():
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = position.position(f"gpsd:127.0.0.1:{server.getsockname()[1]}")
        connection, _ = server.accept()
        with connection:
            assert connection.recv(100).startswith(b"?WATCH")
            connection.sendall(b'{"class":"VERSION"}\n{"class":"TPV","mode":3,"lat":1,')
            connection.sendall(b'"lon":2,"alt":3}\n')
            assert eventually(where.place) == [1.0, 2.0, 3.0]
            where.close()


def frames(version):
    """A heartbeat and a GLOBAL_POSITION_INT as pymavlink packs them."""
    mavutil = pytest.importorskip("pymavlink.mavutil")
    from pymavlink.dialects.v10 import ardupilotmega as v1
    from pymavlink.dialects.v20 import ardupilotmega as v2

    assert mavutil
    link = (v1 if version == 1 else v2).MAVLink(None, srcSystem=7)
    return (
        link.heartbeat_encode(2, 3, 0, 0, 4).pack(link),
        link.global_position_int_encode(5, int(39.36e7), int(-22.95e7), 60_000, 0, 0, 0, 0, 0).pack(link),
    )


@pytest.mark.parametrize("version", [1, 2])
def test_mavlink_positions(version):
    heartbeat, fix = frames(version)
    assert list(position.places(heartbeat + fix + b"\x00" + fix)) == [[39.36, -22.95, 60.0]] * 2
    broken = bytearray(fix)
    broken[14] ^= 1
    assert list(position.places(bytes(broken))) == []
    for cut in range(len(fix)):
        assert list(position.places(fix[:cut])) == []


def test_mavlink_is_listened_to():
    _, fix = frames(2)
    port = free_port(socket.SOCK_DGRAM)
    where = position.position(f"mavlink:udp://127.0.0.1:{port}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:

        def seen():
            sender.sendto(fix, ("127.0.0.1", port))
            return where.place()

        assert eventually(seen) == [39.36, -22.95, 60.0]
    where.close()


# -- work --------------------------------------------------------------------------------------


def task(work, **fields):
    return {
        "task": 1,
        "work": work,
        "cycles": 1e6,
        "size": 20,
        "limit": 5.0,
        "output": 10,
        "input": b"",
        "kernel": "",
        "least": 0.0,
        "to": "",
        "bytes": 0,
        **fields,
    }


def test_busy_spends_the_processor_time_of_its_cycles():
    begun = time.thread_time()
    assert len(work.busy(task("busy", cycles=5e7), 1e9, math.inf)) == 10
    assert 0.05 <= time.thread_time() - begun < 0.15
    with pytest.raises(work.LimitError):
        work.busy(task("busy", cycles=1e12), 1e9, time.monotonic() + 0.01)


def test_kernels_are_the_same_with_and_without_numpy(monkeypatch):
    picture = bytes(range(200)) * 3
    with_numpy = [
        work.matrix(task("matrix"), 1e9, math.inf),
        work.image(task("image", input=picture, output=484), 1e9, math.inf),
    ]
    monkeypatch.setattr(work, "_numpy", lambda: None)
    without = [
        work.matrix(task("matrix"), 1e9, math.inf),
        work.image(task("image", input=picture, output=484), 1e9, math.inf),
    ]
    assert with_numpy == without
    assert without[1][0] == sum(picture[i * 24 + j] for i in range(3) for j in range(3)) // 9
    assert work.image(task("image", input=b"ab"), 1e9, math.inf) == b"a" * 10


class Echo(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.path == "/infer" else 404)
        self.end_headers()
        self.wfile.write(body[::-1])

    def log_message(self, *_):
        """Quiet."""


@pytest.fixture
def service():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_forward_posts_to_the_local_service(service):
    soon = time.monotonic() + 5
    assert work.forward(task("forward", input=b"abc"), f"{service}/infer", soon) == b"cba"
    with pytest.raises(work.WorkError, match="answers 404"):
        work.forward(task("forward", input=b"abc"), f"{service}/other", soon)
    with pytest.raises(work.WorkError, match="does not answer"):
        work.forward(task("forward"), "http://127.0.0.1:1/", soon)


@pytest.mark.parametrize("address", ["http://10.0.0.1/", "https://127.0.0.1/", "file:///etc/passwd", "127.0.0.1:80"])
def test_forward_stays_on_this_machine(address):
    with pytest.raises(SetupError, match="loopback"):
        work.local(address)


def test_a_pool_runs_times_out_cancels_and_replaces_its_dead():
    reported = threading.Event()
    pool = WorkerPool(1, 1e9, "", reported.set)
    try:
        pool.submit(task("busy"))
        done = pool.done.get(timeout=60)
        assert (done.task, done.status, len(done.output)) == (1, "done", 10)
        assert done.started <= done.computed
        assert reported.wait(60)
        assert pool.begun() == {1}
        pool.submit(task("busy", task=2, cycles=1e12, limit=0.1))
        assert pool.done.get(timeout=60).status == "timeout"
        pool.submit(task("busy", task=3, cycles=1e12, limit=60.0))
        eventually(lambda: 3 in pool._running)
        pool.cancel(3)
        pool.submit(task("busy", task=4))
        assert pool.done.get(timeout=60).task == 4
        pool.submit(task("busy", task=5, cycles=1e12, limit=60.0))
        eventually(lambda: 5 in pool._running)
        pool._running[5].kill()
        done = pool.done.get(timeout=60)
        assert (done.task, done.status, done.detail) == (5, "failed", "the worker has died")
    finally:
        pool.close()
    assert not pool._running


def test_a_unit_file_hides_the_key_and_expands_nothing():
    text = unit("cosim-pi", "/usr/bin/cosim", "/etc/cosim/pi.key", ["--node", "a $b%n", "--server", "tcp://h:1"])
    assert "LoadCredential=cosim-pi.key:/etc/cosim/pi.key" in text
    assert 'attach --key ${CREDENTIALS_DIRECTORY}/cosim-pi.key --node "a $$b%%n" --server tcp://h:1\n' in text


def test_the_agent_imports_little():
    import subprocess
    import sys

    heavy = ("numpy", "numba", "pydantic", "pyarrow", "duckdb", "mosaik", "psutil", "jinja2")
    code = (
        "import cosim.testbed.live.agent, cosim.testbed.live.worker; "
        f"print(json.dumps([n for n in {heavy!r} if n in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import json, sys; {code}"], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == []


def test_one_of_several_nodes_of_a_machine_has_the_load_of_its_own_namespace(tmp_path):
    """Two processes of ours, one of somebody else; of a node of two cores."""
    proc, time = tmp_path / "proc", [0.0]
    (tmp_path / "ours").touch()
    (tmp_path / "theirs").touch()
    for name, space in (("self", "ours"), ("7", "ours"), ("8", "ours"), ("9", "theirs")):
        (proc / name / "ns").mkdir(parents=True)
        (proc / name / "ns/net").hardlink_to(tmp_path / space)

    def spent(**ticks):
        for name, (own, children) in ticks.items():
            (proc / name[1:] / "stat").write_text(f"{name[1:]} (a b) c) S {'0 ' * 10}{own} 0 {children} 0 20 0")

    spent(p7=(100, 0), p8=(50, 0), p9=(5, 0))
    found = MachineMeters(root=tmp_path, clock=lambda: time[0], cores=2)
    time[0] = 1.0
    spent(p7=(130, 20), p8=(60, 0), p9=(900, 0))
    assert found.read()["cpu"] == pytest.approx(0.6 / 2.0)  # 30 + 20 + 10 ticks of 10 ms
    time[0] = 2.0
    spent(p7=(130, 20), p8=(460, 0), p9=(900, 0))
    report = found.read()
    assert report["cpu"] == 1.0
    assert (report["power"], report["meter"]) == (None, "none")  # the machine's power is not its own
