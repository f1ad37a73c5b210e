"""`cosim doctor`: is this machine ready, and if not, what is to be done?"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import typer

from cosim.cli.console import Json, beside, emit, errors
from cosim.contract.extras import pip

_MARK = {"ok": "ok  ", "optional": "-   ", "bad": "BAD "}
_ANSWER = 10.0  # s for the container engine to answer
_LITTLE_DISK = 1 << 30  # B; a city run writes tens of megabytes, a sweep of it gigabytes


@dataclass(frozen=True, slots=True)
class Checkup:
    """One thing looked at: `optional` is missing without harm, `bad` keeps runs from working."""

    subject: str
    state: Literal["ok", "optional", "bad"]
    detail: str


def doctor(as_json: Json = False) -> None:
    """Look at everything that runs need and say what is missing. Exit 2 if a run cannot work."""
    with errors(as_json):
        findings = [*_interpreter(), *_core(), *_adapters(), *_machine(), *_links(), _containers()]
    bad = any(finding.state == "bad" for finding in findings)
    width = max(len(finding.subject) for finding in findings)
    lines = [beside(f"{_MARK[f.state]}{f.subject:<{width}}  ", f.detail) for f in findings]
    lines.append("not ready: mend what is marked BAD" if bad else "ready")
    emit({"ready": not bad, "findings": [asdict(f) for f in findings]}, as_json, "\n".join(lines))
    if bad:
        raise typer.Exit(2)


def _interpreter() -> list[Checkup]:
    good = sys.version_info >= (3, 11)
    return [Checkup("python", "ok" if good else "bad", f"{platform.python_version()} ({sys.executable})")]


def _core() -> list[Checkup]:
    from importlib.metadata import PackageNotFoundError, requires, version

    from cosim.contract.versions import outside

    try:
        needed = [line for line in requires("continuum-cosim") or [] if "extra ==" not in line]
    except PackageNotFoundError:
        return [Checkup("continuum-cosim", "optional", "run from a checkout that is not installed")]
    findings = [Checkup("continuum-cosim", "ok", version("continuum-cosim"))]
    for line in needed:
        name = line.split(";")[0]
        for mark in "<>=!~ [(":
            name = name.split(mark)[0]
        remedy = pip(line.strip())
        try:
            found = version(name)
        except PackageNotFoundError:
            findings.append(Checkup(name, "bad", f"missing: {remedy}"))
        else:
            bad = outside(found, line)
            findings.append(Checkup(name, "bad" if bad else "ok", f"{found}: {remedy}" if bad else found))
    return findings


def _adapters() -> list[Checkup]:
    from cosim.contract.errors import SetupError
    from cosim.contract.registry import list_adapters
    from cosim.results.compiled import uncompiled

    listed = list_adapters()
    try:
        cold = uncompiled(item.name for item in listed if not item.problem)
    except SetupError as error:  # numba is another one
        return [Checkup("machine code", "bad", str(error))]
    ready = dict.fromkeys(cold, "not compiled yet: the first run takes some seconds longer")
    return [
        Checkup(
            f"adapter {item.name}",
            "optional" if item.problem else "ok",
            item.problem or ready.get(item.name, "ready"),
        )
        for item in listed
    ]


def _machine() -> list[Checkup]:
    here = Path.cwd()
    free = shutil.disk_usage(here).free
    findings = [
        Checkup("cores", "ok", str(len(os.sched_getaffinity(0)))),
        Checkup("disk", "ok" if free > _LITTLE_DISK else "bad", f"{free / 1e9:.1f} GB free in {here}"),
    ]
    try:
        with tempfile.TemporaryFile(dir=here):
            pass
    except OSError as error:
        findings.append(Checkup("writable", "bad", f"cannot write into {here}: {error.strerror}"))
    else:
        findings.append(Checkup("writable", "ok", str(here)))
    return findings


def _links() -> list[Checkup]:
    """What emulated links need, and what runs that died have left of them."""
    from cosim.testbed.emulation import compiled, netns, taps

    if os.access(taps.DEVICE, os.R_OK | os.W_OK):
        findings = [Checkup("tap interfaces", "ok", str(taps.DEVICE))]
    else:
        there = taps.DEVICE.exists()
        what = "is closed to this user: emulated links are in containers" if there else "is not there (modprobe tun)"
        findings = [Checkup("tap interfaces", "optional", f"{taps.DEVICE} {what}; emulated links need it")]
    problem = compiled.obstacle()
    findings.append(
        Checkup(
            "linkd",
            "optional" if problem else "ok",
            f"{problem}; emulated links outside containers need it" if problem else "compiled",
        )
    )
    left = netns.leftovers()
    if left:
        what = f"left by runs that died: {', '.join(left)}; take each away with `ip netns delete NAME`"
        findings.append(Checkup("namespaces", "optional", what))
    return findings


def _containers() -> Checkup:
    """Whether real nodes can be containers here."""
    from cosim.testbed.launch.engine import COMPOSE, too_old

    needed = ".".join(map(str, COMPOSE))
    if shutil.which("docker") is None:
        return Checkup("containers", "optional", "no program 'docker'; only real nodes as containers need it")
    compose = _says("docker", "compose", "version", "--short")
    if not compose or too_old(compose):
        what = f"compose {compose}" if compose else "no plugin 'compose'"
        return Checkup("containers", "optional", f"{what}; real nodes as containers need {needed} or newer")
    engine = _says("docker", "version", "--format", "{{.Server.Version}}")
    if not engine:
        return Checkup("containers", "optional", "no engine answers; start Docker, or join the group 'docker'")
    listed = _says("docker", "compose", "ls", "--all", "--quiet").split()
    ours = [name for name in listed if re.fullmatch(r"cosim-.+-[0-9a-f]{8}", name)]
    left = f"; up, or left by runs that died: {', '.join(ours)} (docker compose -p NAME down -v)" if ours else ""
    return Checkup("containers", "ok", f"docker {engine}, compose {compose}{left}")


def _says(*command: str) -> str:
    """The output of a program; "" when it fails or does not end in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
