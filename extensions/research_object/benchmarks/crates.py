"""The tables of the documentation as research objects: `python -m benchmarks.crates [NAME ...] [--out DIR]`.

Without a name it lists the tables: page, command, what is needed. With names it runs each table's benchmark and makes
`DIR/NAME-crate`, a Process Run RO-Crate 0.5 (w3id.org/ro/wfrun/process/0.5): the figures as one JSON object with their
parameters and seeds, the benchmark's source, the versions of all packages, digests of the data that it read, and a
README with the command that repeats it. What stands after `--` goes to the benchmark, as `-- --seeds 5`. Tables of
runs and sweeps are published by `cosim publish`.

`--again CRATE` runs a crate's benchmark again and compares every figure but times and the machine: exit code 1 when any
differs. Data is not in a crate; where it lies is said by `--data`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import benchmarks
from benchmarks.measure import Table, parser, print_result
from cosim.contract.extras import how_to_install
from cosim.extensions.research_object.crate import LOCK, lock

ROOT = Path(__file__).resolve().parents[3]
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
RESULT, RUN = "result.json", "run.json"
_TIMES = re.compile(
    r"(^|_)(cpu|wall|seconds?|ms|us|ns|s|mb|rss|speed|per_second|ratios?|host|targets?|met|held)($|_)|time|memory"
)
_IMPORT = re.compile(r"^from benchmarks(?:\.(\w+))? import (.+)$", re.MULTILINE)


class DocsTable(NamedTuple):
    """A table of the documentation that a benchmark prints."""

    page: str
    arguments: str  # of the benchmark, whose name comes first; {data}: the folder of --data
    needs: str = ""  # beside what `make run` installs


TABLES: dict[str, DocsTable] = {
    "air": DocsTable("benchmarks/radio.md", "air --data {data}/network/uav_lte_a2g", "data"),
    "branch": DocsTable("benchmarks/commands.md", "branch"),
    "bus": DocsTable("benchmarks/figures.md", "bus"),
    "cluster": DocsTable("benchmarks/cluster.md", "cluster"),
    "continuum": DocsTable("benchmarks/continuum.md", "continuum"),
    "continuum-scale": DocsTable("benchmarks/continuum.md", "continuum --scale"),
    "corais": DocsTable("benchmarks/corais.md", "schedulers --job corais"),
    "cosco": DocsTable("benchmarks/interval.md", "cosco"),
    "ctrl-c": DocsTable("benchmarks/figures.md", "ctrl_c", "Docker"),
    "dataset": DocsTable("benchmarks/figures.md", "dataset"),
    "doors": DocsTable("benchmarks/security.md", "doors"),
    "edgecloudsim": DocsTable("benchmarks/offloading-vehicular.md", "edgecloudsim --data {data}/edgecloudsim", "data"),
    "engage": DocsTable("benchmarks/vehicles.md", "engage"),
    "extcloudsim": DocsTable("benchmarks/datacentre.md", "extcloudsim --data {data}/extcloudsim", "data"),
    "farm": DocsTable("benchmarks/commands.md", "farm"),
    "gauges": DocsTable("benchmarks/figures.md", "gauges", "root"),
    "idle-guests": DocsTable("benchmarks/security.md", "idle_guests"),
    "jamming": DocsTable("benchmarks/jamming.md", "jamming"),
    "learners": DocsTable("environments.md", "learners"),
    "links": DocsTable("benchmarks/links.md", "links", "root"),
    "offloading": DocsTable("benchmarks/commands.md", "offloading"),
    "orders": DocsTable("benchmarks/vehicles.md", "orders"),
    "pictures": DocsTable("benchmarks/commands.md", "pictures"),
    "predictor": DocsTable("benchmarks/predictor.md", "predictor --data {data}/cloud_traces", "data"),
    "queues": DocsTable("benchmarks/continuum.md", "queues"),
    "radio": DocsTable("radio.md", "radio"),
    "record": DocsTable("benchmarks/figures.md", "record"),
    "remote": DocsTable("benchmarks/figures.md", "remote"),
    "schedulers": DocsTable("benchmarks/commands.md", "schedulers --job table"),
    "startup": DocsTable("benchmarks/commands.md", "startup"),
    "sumo": DocsTable("benchmarks/commands.md", "sumo", "SUMO"),
    "swarms": DocsTable("benchmarks/commands.md", "swarms"),
    "twin-battery": DocsTable("benchmarks/twin-jobs.md", "twin --job battery --data {data}", "data"),
    "twin-compare": DocsTable("benchmarks/twin-simtune.md", "twin --job compare"),
    "twin-edge": DocsTable("benchmarks/twin-edge.md", "twin --job edge --data {data}", "data"),
    "twin-5g": DocsTable("benchmarks/twin-jobs.md", "twin --job 5g --data {data}", "data"),
    "twin-faults": DocsTable("benchmarks/twin-data.md", "twin --job faults"),
    "twin-misfit": DocsTable("benchmarks/twin-search.md", "twin --job misfit"),
    "twin-noise": DocsTable("benchmarks/twin-jobs.md", "twin --job noise --data {data}", "data"),
    "twin-power": DocsTable("benchmarks/twin-jobs.md", "twin --job power --data {data}", "data"),
    "twin-queues": DocsTable("benchmarks/twin-search.md", "twin --job queues"),
    "twin-recovery": DocsTable("benchmarks/twin-search.md", "twin --job recovery"),
    "twin-service": DocsTable("benchmarks/twin-search.md", "twin --job service --data {data}", "data"),
    "twin-service-exact": DocsTable("benchmarks/twin-search.md", "twin --job service-exact --data {data}", "data"),
    "twin-sound": DocsTable("benchmarks/twin-search.md", "twin --job sound"),
    "twin-splits": DocsTable("benchmarks/twin-simtune.md", "twin --job splits --data {data}", "data"),
    "twin-simtune": DocsTable("benchmarks/twin-jobs.md", "twin --job simtune"),
    "vector": DocsTable("benchmarks/environments.md", "vector"),
    "vehicles": DocsTable("benchmarks/commands.md", "vehicles"),
    "whatif": DocsTable("benchmarks/twin.md", "whatif"),
    "wifi": DocsTable("benchmarks/commands.md", "wifi"),
    "worlds": DocsTable("benchmarks/figures.md", "worlds", "root"),
}


class CrateError(Exception):
    """A table that cannot be made, or is no crate of one; says why."""


def command_of(table: DocsTable, data: Path | None, more: list[str]) -> list[str]:
    """The command of a table. Raises `CrateError` where it needs data and none is named."""
    if "{data}" in table.arguments and data is None:
        raise CrateError("it reads measured data: name its folder with --data")
    name, *arguments = [part.format(data=data) for part in shlex.split(table.arguments)]
    return [sys.executable, "-m", f"benchmarks.{name}", *arguments, *more, "--json"]


def figures_of(command: list[str]) -> dict[str, Any]:
    """What a benchmark prints; 1 as its exit code says that a target is missed. Raises `CrateError` for another one."""
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1) or not done.stdout.strip():
        raise CrateError(f"{shlex.join(command[1:])} ended with {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def sources(name: str) -> list[Path]:
    """The files of a benchmark: its module and those beside it that it imports."""
    found: dict[str, Path] = {}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        path = next((path for at in benchmarks.__path__ if (path := Path(at, f"{one}.py")).is_file()), None)
        if one in found or path is None:
            continue
        found[one] = path
        for module, names in _IMPORT.findall(path.read_text("utf-8")):
            waiting += [module] if module else [part.split(" as ")[0].strip(" ()") for part in names.split(",")]
    return [found[one] for one in sorted(found)]


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of a folder, or of a file, by its path there."""
    files = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    found = {}
    for path in files:
        with path.open("rb") as file:
            found[path.name if path == folder else str(path.relative_to(folder))] = hashlib.file_digest(
                file, "sha256"
            ).hexdigest()
    return found


def make(name: str, out: Path, data: Path | None, more: list[str]) -> Path:
    """Run the benchmark of a table and make its crate; the crate's folder. Raises `CrateError`."""
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise CrateError(f"needs rocrate: {how_to_install('publish')}") from None
    table, folder = TABLES[name], out / f"{name}-crate"
    if folder.exists():
        raise CrateError(f"{folder} is there already; remove it, or name another folder with --out")
    command = command_of(table, data, more)
    begun = datetime.now(UTC)
    figures = figures_of(command)
    ended = datetime.now(UTC)
    read = digests(Path(command[command.index("--data") + 1])) if "{data}" in table.arguments else {}
    module = table.arguments.split()[0]
    (folder / "benchmarks").mkdir(parents=True)
    for path in sources(module):
        shutil.copy(path, folder / "benchmarks" / path.name)
    again = f"python -m benchmarks.crates --again {folder.name}{' --data DIR' if read else ''}"
    said = {"table": name, "page": table.page, "arguments": more, "command": shown(table, more), "data": read}
    _write(folder / RESULT, json.dumps(figures, indent=1))
    _write(folder / RUN, json.dumps(said, indent=1))
    _write(folder / LOCK, "".join(f"{line}\n" for line in lock()))
    _write(folder / "README.md", _readme(said, again))
    crate = ROCrate(version="1.1")
    _describe(crate, said, figures, begun, ended, [f"benchmarks/{path.name}" for path in sources(module)])
    crate.metadata.write(folder)
    return folder


def shown(table: DocsTable, more: list[str]) -> str:
    """The command as a page says it."""
    return shlex.join(["python", "-m", f"benchmarks.{table.arguments.format(data='DIR')}"]).replace("'", "") + "".join(
        f" {shlex.quote(one)}" for one in more
    )


def _write(path: Path, text: str) -> None:
    path.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")


def _readme(said: dict[str, Any], again: str) -> str:
    return (
        f"# Table `{said['table']}` of docs/{said['page']}\n\n"
        f"Figures: `{RESULT}`, made by `{said['command']} --json`. Versions: `{LOCK}`. Digests of data: `{RUN}`.\n\n"
        f"In an installed checkout of continuum-cosim {version('continuum-cosim')}, this repeats it and compares:\n\n"
        f"    pip install -r {LOCK}\n    {again}\n"
    )


def _describe(
    crate: Any,
    said: dict[str, Any],
    figures: dict[str, Any],
    begun: datetime,
    ended: datetime,
    code: list[str],
) -> None:
    from rocrate.model.contextentity import ContextEntity

    root = crate.root_dataset
    root["name"] = f"Table {said['table']} of docs/{said['page']}"
    root["description"] = f"Figures of continuum-cosim, made by {said['command']}"
    root["license"] = crate.add(ContextEntity(crate, "https://spdx.org/licenses/CC-BY-4.0", {
        "@type": "CreativeWork", "name": "Creative Commons Attribution 4.0 International",
    }))  # fmt: skip
    words = {"@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    root["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, words))
    engine = crate.add(ContextEntity(crate, "urn:continuum-cosim:engine", {
        "@type": "SoftwareApplication", "name": "continuum-cosim", "softwareVersion": version("continuum-cosim"),
    }))  # fmt: skip
    made = {
        name: crate.add_file(name, dest_path=name, properties={"name": text, "encodingFormat": form})
        for name, text, form in (
            (RESULT, "the figures", "application/json"),
            (RUN, "table, command, digests of the data", "application/json"),
            (LOCK, "versions of all packages", "text/plain"),
            ("README.md", "how to make it again", "text/markdown"),
        )
    }
    made["README.md"]["about"] = root
    for name in code:
        crate.add_file(name, dest_path=name, properties={"@type": ["File", "SoftwareSourceCode"], "name": name})
    parts = [
        crate.add(
            ContextEntity(crate, f"urn:data:{digest}", {"@type": "CreativeWork", "name": f"{name}, SHA-256 {digest}"})
        )
        for name, digest in said["data"].items()
    ]
    agent = crate.add(ContextEntity(crate, "#maker", {"@type": "Person", "name": "who ran the benchmark"}))
    action = crate.add(ContextEntity(crate, "#run", {
        "@type": "CreateAction", "name": said["command"], "description": json.dumps(figures["host"]),
        "startTime": begun.isoformat(timespec="seconds"), "endTime": ended.isoformat(timespec="seconds"),
        "actionStatus": "http://schema.org/CompletedActionStatus",
    }))  # fmt: skip
    action["instrument"], action["agent"] = engine, agent
    action["object"], action["result"] = [made[RUN], *parts], made[RESULT]
    root["mentions"] = action


def leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every number, text and truth value of a tree by its path, times and the machine left out."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not _TIMES.search(str(key)):
                yield from leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from leaves(one, f"{path}[{number}]")
    else:
        yield path.removeprefix("."), value


def again(crate: Path, data: Path | None) -> tuple[int, list[str]]:
    """Run a crate's benchmark again: how many figures were compared, and which differ. Raises `CrateError`."""
    try:
        said = json.loads((crate / RUN).read_text("utf-8"))
        then = json.loads((crate / RESULT).read_text("utf-8"))
        table = TABLES[said["table"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CrateError(f"{crate} is no crate of a table: {error}") from error
    command = command_of(table, data, list(said["arguments"]))
    if said["data"] and digests(Path(command[command.index("--data") + 1])) != said["data"]:
        raise CrateError("the data is not that of the crate: digests differ")
    now = dict(leaves(figures_of(command)))
    before = dict(leaves(then))
    differing = [name for name in {**before, **now} if repr(before.get(name)) != repr(now.get(name))]
    return len(before), differing


def main() -> None:
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    arguments = parser(__doc__)
    arguments.add_argument("tables", nargs="*", metavar="NAME", help="tables; default: list them")
    arguments.add_argument("--out", type=Path, default=Path("crates"), help="folder (default: %(default)s)")
    arguments.add_argument("--data", type=Path, help="folder of measured data")
    arguments.add_argument("--again", type=Path, metavar="CRATE", help="make it again and compare")
    options = arguments.parse_args(sys.argv[1:cut])
    unknown = [name for name in options.tables if name not in TABLES]
    if unknown:
        arguments.error(f"there is no table '{unknown[0]}'; there are {', '.join(TABLES)}")
    made, rows = [], Table("tables of the documentation", ["table", "page", "command", "needs"])
    for name, table in TABLES.items():
        rows.add([name, f"docs/{table.page}", shown(table, []), table.needs])
    try:
        if options.again is not None:
            compared, differing = again(options.again, options.data)
            rows = Table(f"{compared - len(differing)} of {compared} figures equal", ["differs"])
            for one in differing:
                rows.add([one])
            print_result("crates", {"compared": compared, "differing": differing}, [rows], as_json=options.json)
            sys.exit(1 if differing else 0)
        made = [str(make(name, options.out, options.data, sys.argv[cut + 1 :])) for name in options.tables]
    except CrateError as error:
        sys.exit(f"crates: {error}")
    if made:
        rows = Table("crates", ["folder"])
        for folder in made:
            rows.add([folder])
    print_result("crates", {"tables": list(TABLES), "made": made}, [rows], as_json=options.json)


if __name__ == "__main__":
    main()
