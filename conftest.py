"""What may be missing on a machine: such tests skip with a reason, or fail where it is required.

`COSIM_REQUIRE="sumo browser torch git"` names the markers whose tests must run, and the modules and programs that they
may not skip for; continuous integration sets it, so that a green run means that they have run. `COSIM_SKIPS=FILE`
names the file that lists what was skipped; `pytest @FILE` runs that, and FILE.json has the reasons as well.
`COSIM_UNTIL=TIME` skips what has not begun by then, in seconds since 1970: a slow machine ends in time, too.
`COSIM_RERUNS=N` tries each test that fails N times more.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import pytest
import typer.testing
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, Phase, settings

from cosim.adapters.ns3.build import obstacle
from cosim.contract.functions import missing_extension
from cosim.contract.registry import adapter_kind
from tests.environments import PROJECT, package

# A test run is repeatable and does not fail by the clock; `HYPOTHESIS_PROFILE=explore pytest` looks where it has
# not looked before. A failing example is told as it was found: to look for its smallest form takes minutes at some
# tests, `HYPOTHESIS_PROFILE=shrink pytest TEST` does.
as_found = tuple(phase for phase in Phase if phase not in (Phase.shrink, Phase.explain))
untimed = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, phases=as_found, **untimed)
settings.register_profile("shrink", derandomize=True, **untimed)
settings.register_profile("explore", max_examples=1000, **untimed)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# The tree of all verbs is the same at every call of a `CliRunner`, and takes longer to make than most commands.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# A shell that starts a suite in the background has it ignore these, and all that the tests start and interrupt as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)

_LONGEST_ID = 80
# What the package of a module is called where that is something else.
_PACKAGES = {
    "grpc": "grpcio", "material": "mkdocs-material", "opentelemetry": "opentelemetry-proto", "sklearn": "scikit-learn",
    "starlette": "fastapi", "sumo": "eclipse-sumo",
}  # fmt: skip
_SKIPPED: dict[str, str] = {}  # node id -> why
# What takes longest comes first, the longest before the others: no worker is left with one at the end.
_LONGEST = (
    "tests/integration/test_without_extensions.py", "tests/cli/test_cli.py::test_the_wheel", "tests/unit/twin/",
    "adapters/vehicle/", "tests/unit/engine/continuum/",
)  # fmt: skip
_REAL = ("docker", "netns", "clients")  # the marks of what runs outside of the tests' process, at the clock's pace
_FOLLOWS_CLOCK = (*_REAL, "browser", "clock")  # the marks of what is late on a busy machine
_NICENESS = os.getpriority(os.PRIO_PROCESS, 0)
_RERUNS = int(os.environ.get("COSIM_RERUNS") or 0)
_UNTIL = float(os.environ.get("COSIM_UNTIL", "inf"))
if "PYTEST_XDIST_WORKER" in os.environ:  # what a test starts has begun in time
    os.environ.pop("COSIM_UNTIL", None)
DATA = Path(__file__).resolve().parent / "../shared/data"


def _missing(marker: str) -> str:
    """Why tests with `marker` cannot run here, or ""."""
    if marker == "sumo":
        return "; ".join(filter(None, (requirement.missing() for requirement in adapter_kind("sumo").requires)))
    if marker == "ray" and importlib.util.find_spec("ray") is None:
        return "Ray is not installed: pip install -e '.[ray]'"
    if marker == "browser" and not (shutil.which("chromium") and shutil.which("chromedriver")):
        return "Chromium and its driver are not installed"
    if marker == "netns" and (os.geteuid() != 0 or not Path("/dev/net/tun").exists()):
        return "network namespaces need root and /dev/net/tun"
    if marker == "netns" and not all(map(shutil.which, ("ip", "tc", "ping"))):
        return "iproute2 or ping is not installed"
    if marker == "ns3":
        return obstacle()
    if marker == "docker":
        return _no_engine()
    if marker == "data" and not DATA.is_dir():
        return "the input data is not beside the checkout"
    return ""


def _no_engine() -> str:
    """Why there can be no containers here, or ""."""
    base = os.environ.get("BASE_IMAGE", "debian:bookworm-slim")
    if not shutil.which("docker") or not _runs("docker", "info"):
        return "no Docker engine runs: .ci/engine starts one"
    if not _runs("docker", "compose", "version"):
        return "docker has no compose plugin: .ci/engine installs it"
    if not _runs("docker", "image", "inspect", base):
        return f"the base image {base} is missing: docker pull {base}, or containers/base/build.sh"
    return ""


@functools.cache
def _lacking(needed: str) -> str:
    """Why a program, or an extension as `extensions/NAME`, cannot be used, or ""."""
    folder, _, extension = needed.rpartition("/")
    if folder == "extensions":
        return f"the extension '{extension}' is not there" * bool(missing_extension(f"cosim.extensions.{extension}"))
    return "" if _works(needed) else f"the program '{needed}' is not installed"


def _works(program: str) -> bool:
    if shutil.which(program) is None:
        return False
    # A compiler comes without the headers of the C library on many a machine.
    return program != "cc" or _runs("cc", "-x", "c", "-include", "stdio.h", "-fsyntax-only", os.devnull)


def _runs(*command: str) -> bool:
    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _has(item: pytest.Item, *markers: str) -> bool:
    return any(item.get_closest_marker(name) for name in markers)


def _together(item: pytest.Item) -> str:
    """What names those tests that one worker runs in sequence, or ""."""
    if _has(item, "slow", "chaos", "clients"):
        # What really runs takes a core: one in containers, one in namespaces, and one client of others at a time,
        # which mostly wait, beside those that compute.
        return next((name for name in _REAL if _has(item, name)), "")
    if _has(item, "ns3"):
        return "ns3"  # its engine is compiled for ten seconds, by each worker that needs it before it is there
    # The short ones of a folder use the same fixtures and compiled functions: each of three workers would make its own.
    return "/".join(item.nodeid.partition("::")[0].split("/")[:3])


def pytest_report_header() -> str:
    """The versions that the run tests."""
    return ", ".join(f"{name} {version(name)}" for name in map(package, PROJECT["dependencies"]))


def pytest_make_parametrize_id(val: object) -> str | None:
    """The beginning of a long text: some tests take megabytes, which each report of a test would repeat."""
    if isinstance(val, str | bytes) and len(val) > _LONGEST_ID:
        return f"{val[:_LONGEST_ID]!r}... ({len(val)})"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Look for no garbage among modules and tests, which stay: that was half of the time that it takes to make them."""
    gc.disable()
    _rewrite_a_share(session.config)
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        gc.set_threshold(20_000, 20, 50)  # of 700 objects made the collector would look at most again and again


def pytest_sessionfinish(session: pytest.Session) -> None:
    atexit.register(gc.unfreeze)  # extension modules tell of what is never freed; pytest collects garbage before that
    file = os.environ.get("COSIM_SKIPS")
    if file and not hasattr(session.config, "workerinput"):
        text = json.dumps(_SKIPPED) if file.endswith(".json") else "".join(f"{name}\n" for name in _SKIPPED)
        Path(file).write_text(text, encoding="utf-8")


@pytest.hookimpl(tryfirst=True)  # before groups are read
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    required = set(os.environ.get("COSIM_REQUIRE", "").split())
    used = {mark.name for item in items for mark in item.iter_markers()}
    reasons = {
        marker: _missing(marker)
        for marker in ("sumo", "ray", "browser", "data", "netns", "ns3", "docker")
        if marker in used
    }
    for item in items:
        if reruns := 2 if _has(item, *_FOLLOWS_CLOCK) else _RERUNS:  # what is wrong fails each time
            item.add_marker(pytest.mark.flaky(reruns=reruns))
        group = _together(item)
        if group and not _has(item, "xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))
        for marker, reason in reasons.items():
            if reason and item.get_closest_marker(marker) and marker not in required:
                item.add_marker(pytest.mark.skip(reason=reason))
        for needed in (name for mark in item.iter_markers("needs") for name in mark.args):
            if needed not in required and (reason := _lacking(needed)):
                item.add_marker(pytest.mark.skip(reason=reason))
    if float("inf") > _UNTIL:  # what comes last may not be run: it is something else the next time
        together = [item for item in items if _has(item, "xdist_group")]
        alone = [item for item in items if not _has(item, "xdist_group")]
        first = int(_UNTIL) % max(len(alone), 1)
        items[:] = together + alone[first:] + alone[:first]
    items.sort(
        key=lambda item: next((k for k, name in enumerate(_LONGEST) if item.nodeid.startswith(name)), len(_LONGEST))
    )


def _rewrite_a_share(config: pytest.Config) -> None:
    """Rewrite the assertions of this worker's share of the modules, and keep the bytecode.

    It takes longer than all else of a collection, and workers that begin at one moment in a new checkout would each do
    it for all modules, one beside the other.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode or config.getoption("assertmode") != "rewrite":
        return
    first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    folders = [config.rootpath / name for name in config.getini("testpaths")]
    for file in sorted(file for folder in folders for file in folder.rglob("test_*.py"))[first::step]:
        kept = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if rewrite._read_pyc(file, kept) is None and rewrite.try_makedirs(kept.parent):
            stat, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, kept)


@functools.cache
def _remedy(module: str) -> str:
    """How to install what brings a module, or ""."""
    package = _PACKAGES.get(module, module).replace("_", "-")
    for extra, lines in PROJECT["optional-dependencies"].items():
        if any(re.match(rf"{package}[^\w-]", line) for line in lines):
            return f": pip install -e '.[{extra}]'"
    return ""


def _reported(report: Report, subject: str) -> Report:
    """`report` of `subject`: a skip by `pytest.importorskip` fails where the module is required."""
    if report.skipped and isinstance(report.longrepr, tuple):  # not what is expected to fail
        path, line, reason = report.longrepr
        module = found[1] if (found := re.search(r"could not import '(\w+)", reason)) else None
        if module in os.environ.get("COSIM_REQUIRE", "").split():
            report.outcome, report.longrepr = "failed", f"{subject}: {reason}"
        else:
            report.skipped_id = subject
            report.longrepr = path, line, f"{reason}{_remedy(module)}" if module else reason
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Let a test that computes give way to one beside it that follows the clock, where root may change priorities."""
    if os.geteuid() == 0:
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS if _has(item, *_FOLLOWS_CLOCK) else _NICENESS + 10)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    if time.time() > _UNTIL:
        pytest.skip("no time is left")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    assert item.parent is not None
    return _reported((yield), f"{item.parent.nodeid}::{item.name}")  # as it was before xdist adds its group


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = _reported((yield), collector.nodeid)
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[0] != str(collector.path):
        # Of several with one place and reason, as in a module that they import, xdist reports the first.
        report.longrepr = str(collector.path), None, report.longrepr[2]
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if (name := getattr(report, "skipped_id", "")) and isinstance(report.longrepr, tuple):
        _SKIPPED[name] = report.longrepr[2]
    if report.outcome in ("failed", "rerun"):  # at once: what comes at the end is lost when a run is ended from outside
        crash = getattr(report.longrepr, "reprcrash", None)
        sys.stdout.write(f"\n{report.nodeid}: {report.outcome}: {crash.message if crash else report.longreprtext}\n")
        sys.stdout.flush()


pytest_collectreport = pytest_runtest_logreport


@pytest.fixture(scope="session")
def data() -> Path:
    """Folder of real input data beside the checkout."""
    return DATA.resolve()
