"""netem measured in an emulated machine, as the host's kernel may have none: takes minutes, so it is asked for.

`tests/integration/netem_guest/make.sh FOLDER` makes the machine once; then COSIM_QEMU=FOLDER.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgpack
import pytest

HERE = Path(__file__).parent / "netem_guest"
ROOT = Path(__file__).resolve().parents[2]
KIT = Path(os.environ.get("COSIM_QEMU") or "/nonexistent")
IMPORTS = (
    "import sys, cosim.testbed.emulation.netns, cosim.testbed.emulation.tc, cosim.testbed.live.shaper; "
    "print(*sorted(sys.modules))"
)
MSGPACK = Path(msgpack.__file__).parent

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (shutil.which("qemu-system-x86_64") and (KIT / "base.cpio").exists() and (KIT / "vmlinuz").exists()),
        reason="needs qemu-system-x86_64, and COSIM_QEMU: a folder made by tests/integration/netem_guest/make.sh",
    ),
]


def archive(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A cpio archive (newc) of name -> (mode, content); the kernel unpacks several in a row."""
    data = b""
    for number, (name, (mode, content)) in enumerate([*files.items(), ("TRAILER!!!", (0, b""))]):
        encoded = name.encode() + b"\0"
        fields = (number + 1, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
        head += b"\0" * (-len(head) % 4)
        data += head + content + b"\0" * (-len(content) % 4)
    return data


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What the guest measured."""
    files: dict[str, tuple[int, bytes]] = {"init": (0o100755, (HERE / "init").read_bytes())}
    for folder in ("code", "code/msgpack"):
        files[folder] = (0o040755, b"")
    files["code/guest.py"] = (0o100644, (HERE / "guest.py").read_bytes())
    asked = subprocess.run([sys.executable, "-c", IMPORTS], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in asked.stdout.split():
        path = Path(*name.split("."))
        if path.parts[0] == "cosim" and (ROOT / path).is_dir():
            files[f"code/{path}"] = (0o040755, b"")
        elif path.parts[0] == "cosim":
            files[f"code/{path}.py"] = (0o100644, (ROOT / path).with_suffix(".py").read_bytes())
    for name in ("__init__", "exceptions", "ext", "fallback"):  # its part in Python
        files[f"code/msgpack/{name}.py"] = (0o100644, (MSGPACK / f"{name}.py").read_bytes())
    initrd = tmp_path_factory.mktemp("guest") / "initrd.cpio"
    with initrd.open("wb") as out, (KIT / "base.cpio").open("rb") as base:
        shutil.copyfileobj(base, out)
        out.write(archive(files))
    # One processor: with two, packets overtake each other on the way, whatever the queue.
    command = [
        "qemu-system-x86_64", "-machine", "pc,accel=tcg", "-cpu", "max", "-smp", "1", "-m", "1024", "-nographic",
        "-no-reboot", "-nic", "none", "-kernel", str(KIT / "vmlinuz"), "-initrd", str(initrd),
        "-append", "console=ttyS0 quiet panic=1 mitigations=off",
    ]  # fmt: skip
    ended = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=800, check=False)
    initrd.unlink()
    _, _, result = ended.stdout.partition("RESULT {")
    assert result, ended.stdout[-3000:] + ended.stderr[-1000:]
    return json.loads("{" + result.splitlines()[0])


def lost(ping: dict[str, float], loss: float) -> bool:
    """Whether so many were lost as a coin of that side loses, within 4 standard deviations."""
    expected, deviation = ping["sent"] * loss, math.sqrt(ping["sent"] * loss * (1 - loss))
    return abs(ping["sent"] - ping["received"] - expected) <= 4 * deviation + 1


def test_netem_is_found(found):
    assert found["probe"] == ""
    assert "netem 1002: parent 5e1:2" in found["qdiscs"]


def test_delay_jitter_and_loss(found):
    assert found["first"]["min"] >= 20.0 - 2.5
    assert 20.0 <= found["first"]["median"] <= 23.0 + found["plain"]["median"]
    assert lost(found["first"], 0.05)


def test_each_destination_has_its_own(found):
    assert found["second"]["min"] >= 50.0
    assert found["second"]["median"] <= 53.0 + found["plain"]["median"]
    assert lost(found["second"], 0.0)


def test_others_are_untouched(found):
    assert found["other"]["median"] <= found["plain"]["median"] + 3.0
    assert found["other"]["received"] == found["other"]["sent"]


def test_rates(found):
    # What is lost is lost before the class, so it takes nothing of its rate.
    assert found["first_rate"]["rate"] == pytest.approx(5e6, rel=0.15)
    assert found["changed_rate"]["rate"] == pytest.approx(2e6, rel=0.15)


def test_changes_hold_at_once(found):
    assert found["changed"]["min"] >= 80.0
    assert found["changed"]["median"] <= 83.0 + found["plain"]["median"]
    assert lost(found["changed"], 0.2)


def test_jitter_keeps_the_order(found):
    assert found["jitter_order"]["sent"] > 500
    assert found["jitter_order"]["disordered"] == 0
    assert found["jitter"]["received"] == found["jitter"]["sent"]
    assert found["jitter"]["min"] >= 10.0


def test_losses_come_in_rows(found):
    # Mean row 5 and loss 0.2: in two states the loss of one packet and of the next correlate by 0.75.
    gone = found["rows"]
    assert gone["lost"] / gone["sent"] == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / gone["sent"] * 7))
    assert gone["row"] == pytest.approx(5.0, abs=4 * math.sqrt(20.0 / gone["rows"]))


def test_some_pass_those_before_them(found):
    order = found["reordered"]
    assert order["sent"] > 500
    # One in ten goes at once, and all that come within 50 ms after it arrive later.
    assert 0.05 * order["sent"] < order["disordered"]


def test_links_that_are_down_and_up_again(found):
    assert found["unset"]["received"] == found["down"]["received"] == 0
    assert found["up"]["received"] == found["up"]["sent"]
    assert 5.0 <= found["up"]["median"] <= 8.0 + found["plain"]["median"]


def test_known_by_mac_the_next_hop_decides(found):
    assert found["hop_unset"]["received"] == 0
    assert 30.0 <= found["hop"]["median"] <= 33.0 + found["plain"]["median"]
    assert lost(found["hop"], 0.05)


def test_frames_are_counted_and_the_old_queue_comes_back(found):
    received, delivered, dropped = found["health"]
    assert received == delivered + dropped
    assert dropped > 40
    assert found["restored"]


def test_a_machine_that_attached_gets_delay_and_loss(found):
    machine = found["machine"]
    assert (machine["ability"], machine["imposed"]) == ("full", [2, ""])
    assert machine["first"]["min"] >= 50.0
    assert machine["first"]["median"] <= 53.0 + found["plain"]["median"]
    assert lost(machine["first"], 0.2)
    assert 20.0 <= machine["second"]["median"] <= 23.0 + found["plain"]["median"]
    assert machine["other"]["median"] <= found["plain"]["median"] + 3.0
    assert found["machine_restored"]
