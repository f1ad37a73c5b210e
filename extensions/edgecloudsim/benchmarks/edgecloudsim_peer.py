"""Fresh configurations for a copy of EdgeCloudSim that the user has, its runs of them, and the figures of its logs.

The copy is a checkout with compiled classes: `bin/` with them, `lib/` with the libraries that they need, and
`scripts/sample_appN/config/` with the input files of the sample applications, of which the configurations are
variations. Nothing of it is shipped with this project.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.equivalence import Sample
from benchmarks.golden import DataError, Golden

from cosim.contract.errors import CosimError
from cosim.extensions.edgecloudsim.importing import study_of
from cosim.extensions.edgecloudsim.offloading.study import OffloadingStudy

REFERENCE_CPU = "reference_cpu_s_per_iteration"
# Of each sample application: devices, minutes, scenarios, policies. AI-based policies are trained on the peer's own
# runs, so that their figures differ by design.
SAMPLES: Mapping[int, tuple[tuple[int, int], tuple[int, int], tuple[str, ...], tuple[str, ...]]] = {
    1: (
        (100, 600), (6, 12), ("SINGLE_TIER", "TWO_TIER", "TWO_TIER_WITH_EO"),
        ("RANDOM_FIT", "FIRST_FIT", "NEXT_FIT", "BEST_FIT", "WORST_FIT"),
    ),
    2: ((200, 1200), (6, 12), ("TWO_TIER_WITH_EO",), ("NETWORK_BASED", "UTILIZATION_BASED", "HYBRID")),
    5: ((100, 600), (6, 12), ("ITS_SCENARIO",), ("RANDOM", "PREDICTIVE", "GAME_THEORY", "MAB")),
}  # fmt: skip
_FILES = ("default_config.properties", "edge_devices.xml", "applications.xml")
_SCALED = ("wlan_bandwidth", "wan_bandwidth", "mips_for_cloud_vm", "lan_internal_delay")  # by a factor of their own
_LOG = re.compile(r"SIMRESULT_.+_\d+DEVICES_(?P<name>.+)_GENERIC\.log")
_TIERS, _LINKS = ("edge", "cloud", "mobile"), ("wlan", "man", "wan", "gsm")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A configuration: the sample application that it varies, its files and our study of them."""

    name: str
    application: int
    files: tuple[Path, Path, Path]  # properties, edge devices, applications
    study: OffloadingStudy


def look(peer: Path) -> None:
    """Raise `DataError` where `peer` is no copy that can be run."""
    for part, what in (("bin", "its compiled classes"), ("lib", "the libraries that it needs")):
        if not (peer / part).is_dir():
            raise DataError(f"{peer} has no folder '{part}' with {what}; compile it by scripts/sample_app1/compile.sh")
    if shutil.which("java") is None:
        raise DataError("there is no program 'java' to run it with")


def draw(peer: Path, number: int, folder: Path) -> Drawn:
    """Configuration `number`, written into `folder`. The same number gives the same files of the same copy.

    Raises `DataError` for a copy without the sample applications' files, or with such that cannot be read.
    """
    chance = np.random.Generator(np.random.PCG64(np.random.SeedSequence((7411, number))))
    application = int(chance.choice(list(SAMPLES)))
    devices, minutes, scenarios, policies = SAMPLES[application]
    scenario, policy = str(chance.choice(scenarios)), str(chance.choice(policies))
    count = int(chance.integers(devices[0] // 50, devices[1] // 50 + 1)) * 50
    source = peer / "scripts" / f"sample_app{application}" / "config"
    try:
        texts = [(source / name).read_text(encoding="utf-8") for name in _FILES]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the sample application's files cannot be read: {error}") from None
    changed = {
        "simulation_time": str(int(chance.integers(minutes[0], minutes[1] + 1))), "warm_up_period": "1",
        "min_number_of_mobile_devices": str(count), "max_number_of_mobile_devices": str(count),
        "mobile_device_counter_size": str(count), "simulation_scenarios": scenario, "orchestrator_policies": policy,
        "file_log_enabled": "true", "deep_file_log_enabled": "false",
    }  # fmt: skip
    for key in _SCALED:
        value = re.search(rf"(?m)^{key}=(\S+)", texts[0])
        factor = float(chance.uniform(0.5, 2.0))
        if value is not None:
            scaled = float(value[1]) * factor
            changed[key] = f"{scaled:.0f}" if key != "lan_internal_delay" else f"{scaled:.4f}"
    for key, text in changed.items():
        texts[0] = re.sub(rf"(?m)^{key}=.*\n?", "", texts[0]).rstrip("\n") + f"\n{key}={text}\n"
    name = f"app{application}_{scenario}_{policy}_{count}_{number}"
    place = folder / name
    place.mkdir(parents=True)
    files = [place / file for file in _FILES]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    try:
        study, _ = study_of(*files, physics="compatible")
    except CosimError as error:
        raise DataError(f"configuration {number}: {error}") from None
    return Drawn(name, application, (files[0], files[1], files[2]), study)


def run(peer: Path, drawn: Drawn, iteration: int) -> tuple[dict[str, float], float]:
    """The figures of one run by the copy in `peer`, and the CPU seconds that it took, the JVM's start included.

    Raises `DataError` with its own words when it fails.
    """
    out = drawn.files[0].parent / f"ite{iteration}"
    out.mkdir()
    classes = os.pathsep.join((str((peer / "bin").resolve()), f"{(peer / 'lib').resolve()}/*"))
    main = f"edu.boun.edgecloudsim.applications.sample_app{drawn.application}.MainApp"
    before = _children()
    done = subprocess.run(
        ["java", "-cp", classes, main, *map(str, drawn.files), str(out), str(iteration)],
        capture_output=True, text=True, check=False, cwd=peer / "scripts" / f"sample_app{drawn.application}",
    )  # fmt: skip
    used = _children() - before
    logs = {match["name"]: path for path in sorted(out.iterdir()) if (match := _LOG.fullmatch(path.name))}
    if done.returncode != 0 or "ALL_APPS" not in logs:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise DataError(f"the copy in {peer} failed at {drawn.name}: {said}")
    found: dict[str, float] = {}
    for name, path in logs.items():
        own = figures(path.read_text(encoding="utf-8"))
        found |= own if name == "ALL_APPS" else {f"{metric}[{name}]": value for metric, value in own.items()}
    shutil.rmtree(out)
    return found, used


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(text: str) -> dict[str, float]:
    """The figures of a general log file, by the names that `Outcome.metrics` gives ours.

    Raises `DataError` for a file with fewer lines or values than such a file has.
    """
    lines = [line.split(";") for line in text.splitlines() if line and not line.startswith("#")]
    try:
        whole, *tiers, links = (list(map(float, line)) for line in lines[:5])
        return dict(_named(whole, tiers, links))
    except (ValueError, IndexError) as error:
        raise DataError(f"this is no general log of EdgeCloudSim: {error}") from None


def _named(
    whole: Sequence[float], tiers: Sequence[Sequence[float]], links: Sequence[float]
) -> Iterator[tuple[str, float]]:
    done, failed, left, bandwidth = whole[:4]
    counted = done + failed

    def percent(value: float) -> float:
        return 100.0 * value / counted if counted else 0.0

    yield from (("tasks_counted", counted), ("completed", done), ("failed", failed), ("uncompleted", left))
    yield from (("failed_pct", percent(failed)), ("failed_vmcap_pct", percent(whole[9])))
    yield from (("failed_mobility_pct", percent(whole[10])), ("failed_bw_pct", percent(bandwidth)))
    yield from ((f"failed_bw_{link}_pct", percent(links[4 + k])) for k, link in enumerate(_LINKS))
    yield "failed_wlanrange_pct", percent(whole[13])
    yield from (("service_time_s", whole[4]), ("processing_time_s", whole[5]), ("network_delay_s", whole[6]))
    for tier, values in zip(_TIERS, tiers, strict=True):
        yield f"service_time_{tier}_s", values[4]
        yield f"processing_time_{tier}_s", values[5]
        yield f"completed_{tier}", values[0]
        yield f"share_{tier}_pct", percent(values[0] + values[1])
        yield f"vm_util_{tier}_pct", values[7]
    yield from ((f"{link}_delay_s", links[k]) for k, link in enumerate(_LINKS))
    yield from (("cost", whole[8]), ("qoe_completed_pct", whole[11]), ("qoe_all_pct", whole[12]))


def golden_of(peer: Path, drawn: Drawn, iterations: int) -> dict[str, Golden]:
    """Its figures over `iterations` runs, in the form of recorded ones."""
    runs = [run(peer, drawn, k) for k in range(1, iterations + 1)]
    found = {
        metric: Golden("", Sample.of([figure[metric] for figure, _ in runs]))
        for metric in runs[0][0]
        if all(metric in figure for figure, _ in runs)
    }
    return {**found, REFERENCE_CPU: Golden("s", Sample.of([used for _, used in runs]))}
