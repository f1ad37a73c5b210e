"""Building linkd where it is needed, and that it understands what the oracle does."""

from __future__ import annotations

import math
import os
import random
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from cosim.contract.errors import SetupError
from cosim.contract.link import LinkState
from cosim.testbed.emulation import compiled, protocol
from tests.unit.testbed.emulation.conftest import frame, mac
from tests.unit.testbed.emulation.oracle import Commands, Switch

needs_compiler = pytest.mark.needs("cc")


class Bare:
    """A program of linkd, spoken to directly."""

    def __init__(self, command):
        self.control, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [*command, f"--control={far.fileno()}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=[far.fileno()],
        )
        far.close()
        self.report()

    def report(self):
        data = bytearray(self.process.stdout.read(protocol.REPORT.size))
        data += self.process.stdout.read(protocol.PAIR.size * protocol.REPORT.unpack(data)[1])
        (found,) = protocol.reports(data)
        return found

    def say(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def end(self):
        """The exit code after the end of commands."""
        self.process.stdin.close()
        code = self.process.wait(60)
        self.process.stdout.close()
        self.control.close()
        return code


@needs_compiler
def test_a_program_is_built_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path / "cache"))
    with ThreadPoolExecutor(3) as threads:
        made = list(threads.map(lambda _: compiled.linkd(), range(3)))
    assert len(set(made)) == 1
    before = made[0].stat().st_mtime_ns
    assert compiled.linkd().stat().st_mtime_ns == before
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [made[0].name]


@needs_compiler
@pytest.mark.parametrize("flags", [["-O2"], ["-O0", "-Wconversion"], ["-O3", "-Wshadow"]])
def test_no_compiler_has_a_complaint(tmp_path, monkeypatch, flags):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path))
    compiled.build(["linkd.c", "switch.c"], "linkd", ["-Werror", *flags])


def test_without_a_compiler_and_a_program_it_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "/no/such/compiler --fast")
    monkeypatch.setattr(compiled, "INSTALLED", tmp_path / "linkd")
    assert compiled.obstacle().startswith("no C compiler")
    with pytest.raises(SetupError, match=r"linkd: no C compiler \(/no/such/compiler\) .*: apt install gcc libc6-dev"):
        compiled.linkd()


@needs_compiler
def test_what_the_compiler_says_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path))
    with pytest.raises(SetupError, match=r"cc cannot compile linkd: .*no-such-option"):
        compiled.build(["linkd.c"], "linkd", ["--no-such-option"])
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_a_cache_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(SetupError, match="COSIM_CACHE names another folder"):
        compiled.linkd()


@needs_compiler
def test_it_can_be_built_into_an_image(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path / "cache"))
    assert compiled.main([str(tmp_path / "linkd")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'linkd'}\n"
    assert os.access(tmp_path / "linkd", os.X_OK)
    assert compiled.main([str(tmp_path / "no" / "folder")]) == 2
    assert "linkd: " in capsys.readouterr().err


def test_an_installed_program_is_taken(tmp_path, monkeypatch):
    program = tmp_path / "linkd"
    program.touch(0o755)
    monkeypatch.setattr(compiled, "INSTALLED", program)
    assert compiled.linkd() == program
    assert not compiled.obstacle()


def spoiled(chance):
    """A command that is right, or nearly."""
    port = chance.choice([0, 1, 2, 7, 100, 1023, 1023, 1024, 2**32 - 1])
    other = chance.choice([0, 1, 2, 3, 7, 1023, 1024, -1, -2, 2**31 - 1])
    values = [chance.choice([0.0, 1.0, 2.0, 60.0, 61.0, 1e12, 1e300, math.inf]) for _ in range(8)]
    if chance.random() < 0.2:
        values[chance.randrange(8)] = chance.choice([math.nan, -1.0, -0.0, -math.inf, 1e-300])
    kind = chance.choice(b"LLLLCBPX\0")
    return protocol.COMMAND.pack(kind, port, other, *values)


@needs_compiler
@pytest.mark.parametrize("seed", [1, 2])
def test_linkd_and_the_oracle_find_the_same_commands_bad(seed):
    chance = random.Random(seed)
    data = b"".join(spoiled(chance) for _ in range(5000))
    python = Commands(Switch(lambda *_: True))
    python.feed(data)
    program = Bare([str(compiled.linkd())])
    program.say(data)
    assert program.report().bad == python.bad
    assert 500 < python.bad < 4500
    assert program.end() == 0


def test_an_engine_ends_with_its_commands_and_with_its_control(command):
    assert Bare(command).end() == 0
    program = Bare(command)
    program.control.close()
    assert program.process.wait(60) == 0
    program.end()
    program = Bare(command)
    program.say(protocol.END)
    assert program.process.wait(60) == 0
    program.end()


def test_wrong_packets_are_counted_and_their_descriptors_closed(command):
    program = Bare(command)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    attach = protocol.ATTACH.pack(1024, protocol.mac_bytes(mac(1)))
    socket.send_fds(program.control, [attach], [theirs.fileno()])
    socket.send_fds(program.control, [b"x"], [theirs.fileno()])
    socket.send_fds(program.control, [attach + b"x"], [theirs.fileno()] * 3)
    program.control.send(protocol.ATTACH.pack(1, protocol.mac_bytes(mac(1))))  # without a descriptor
    program.control.send(protocol.DETACH.pack(2000))
    program.control.send(protocol.DETACH.pack(5))  # not attached: no error
    theirs.close()
    ours.settimeout(30.0)
    assert ours.recv(1) == b""
    ours.close()
    assert program.report().bad == 5
    assert program.end() == 0


@pytest.mark.parametrize("arguments", [[], ["--control=x"], ["--control=999"], ["--control=0", "--more=1"]])
def test_wrong_arguments_are_told(command, arguments):
    done = subprocess.run(
        [*command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode in (1, 2)
    assert "linkd" in done.stderr


@needs_compiler
@pytest.mark.slow
@pytest.mark.needs("valgrind")
def test_valgrind_finds_nothing(tmp_path):
    program = compiled.build(["linkd.c", "switch.c"], "linkd-debug", ["-g", "-O1"])
    log = tmp_path / "valgrind.log"
    engine = Bare(
        ["valgrind", "--error-exitcode=9", "--leak-check=full", "--show-leak-kinds=all", f"--log-file={log}",
         str(program), "--seed=5"]
    )  # fmt: skip
    ends = []
    for port in range(4):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        protocol.send_attach(engine.control, port, theirs.fileno(), mac(port))
        theirs.close()
        ends.append(ours)
    data = b"".join(protocol.channel_command(*one) for one in ((0, 0), (1, 0), (2, 0), (2, -1)))
    data += bytes(2 * protocol.COMMAND.size)
    for sender in range(4):
        for receiver in range(4):
            data += protocol.link_command(sender, receiver, LinkState(2e6, 0.01, 0.003, 0.1, duplicate=0.3), 0.032)
    engine.say(data)
    for number in range(400):
        ends[number % 4].send(frame(None if number % 5 == 4 else number % 5, number, 14 + number))
    found = engine.report()
    protocol.send_detach(engine.control, 2)
    ends[0].send(frame(2))
    ends[3].close()  # the device is gone
    ends[0].send(frame(3))
    found = engine.report()
    assert found.received == 402
    assert found.bad == 2 + 4  # links of ports to themselves
    for end in ends:
        end.close()
    code = engine.end()
    assert code == 0, log.read_text()
    assert "no leaks are possible" in log.read_text()


def test_the_folder_of_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COSIM_CACHE", str(tmp_path))
    assert compiled.cache() == tmp_path
    monkeypatch.delenv("COSIM_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert compiled.cache() == tmp_path / "continuum-cosim"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert os.fspath(compiled.cache()).endswith(".cache/continuum-cosim")
